"""A rollout without a cluster: items that are moved by decisions, settle when a test says so, and live through restarts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gitops.rollouts.advance import Decision, Pace, decide, reserve
from gitops.rollouts.collection import Collection, Item, collected
from gitops.rollouts.item_progress import Progress
from gitops.rollouts.outlook import Outlook, outlook
from gitops.rollouts.policy import Policy
from gitops.rollouts.queue_position import Wait
from gitops.rollouts.state import State, Target
from gitops.rollouts.targets import aim, bakes

START = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Rollout:
    """`items` by key, as they stand to the target; `now` moves by hand. Names are one letter or number, so order is by name."""

    def __init__(
        self, policy: Policy, items: Mapping[str, Item], *, revision: int = 2, completed: int | None = 1
    ) -> None:
        self.policy = policy
        self.items = dict(items)
        self.now = START
        self.state = State(completed=None if completed is None else Target(completed))
        self.closed: dict[str, Wait] = {}
        self.pace: Pace | None = None
        self.aim(Target(revision))

    def aim(self, target: Target) -> None:
        self.state = aim(self.policy, self.state, target, now=self.now)

    def collection(self) -> Collection:
        """Built anew each time, as after a restart."""
        return collected(self.policy, bakes(self.policy, self.state), self.items.values(), now=self.now)

    def ask(self) -> Decision:
        """A decision that is lost: nothing of it was stored."""
        return decide(self.policy, self.collection(), self.state, now=self.now, closed=self.closed, pace=self.pace)

    def step(self) -> list[str]:
        """Decide and store: the keys that were granted."""
        collection = self.collection()
        decision = decide(self.policy, collection, self.state, now=self.now, closed=self.closed, pace=self.pace)
        reserve(collection, decision, now=self.now)
        self.items = {item.key: item for item in collection}
        self.state = decision.state
        return list(decision.grants)

    def outlook(self) -> Outlook:
        return outlook(self.policy, self.collection(), self.state, now=self.now, closed=self.closed)

    def waits(self) -> Mapping[str, Wait]:
        return self.outlook().waits

    def change(self, *keys: str, **fields: Any) -> None:
        for key in keys:
            self.items[key] = replace(self.items[key], **fields)

    def apply(self, *keys: str, healthy: bool = True) -> None:
        """The write went through; healthy since now, or not."""
        for key in keys:
            progress = self.items[key].progress.observed(self.now, healthy=healthy)
            self.change(key, updated=True, healthy=healthy, is_new=False, progress=progress)

    def run(self, *, sick: str = "") -> list[str]:
        """Rounds until nothing moves, as `"0 1 2-3"` one text each; items in `sick` never become healthy."""
        rounds = []
        while granted := self.step():
            rounds.append("".join(granted))
            for key in granted:
                self.apply(key, healthy=key not in sick)
        return rounds


def items(names: Iterable[str], **fields: Any) -> dict[str, Item]:
    """One item per name or letter, at the revision before and healthy."""
    return {name: Item(name, **fields) for name in names}


def settled(item: Item) -> Item:
    """As it is once it was granted, applied and healthy for a day."""
    return replace(
        item, updated=True, granted=True, healthy=True, progress=Progress(ready_since=START - timedelta(days=1))
    )
