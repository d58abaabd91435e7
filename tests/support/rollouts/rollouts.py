"""A rollout without a cluster: items that are moved by decisions, settle when a test says so, and live through restarts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from applier.causes import Cause
from gitops.rollouts.advance import Pace, RolloutStep, decide_grants, next_decision, reserve
from gitops.rollouts.collection import RolloutCollection, RolloutItem, build_collection
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.outlook import RolloutOutlook, build_outlook
from gitops.rollouts.policy import Policy
from gitops.rollouts.shapes import CountOrPercent, Linear
from gitops.rollouts.state import RolloutState, TargetRevision
from gitops.rollouts.targets import assign_targets, bake_times

START = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Rollout:
    """`items` by key, as they stand to the target; `now` moves by hand. Names are one letter or number, so order is by name."""

    def __init__(
        self, policy: Policy, items: Mapping[str, RolloutItem], *, revision: int = 2, completed: int | None = 1
    ) -> None:
        self.policy = policy
        self.items = dict(items)
        self.now = START
        self.state = RolloutState(completed=None if completed is None else TargetRevision(completed))
        self.closed: dict[str, Cause] = {}
        self.pace: Pace | None = None
        self.aim(TargetRevision(revision))

    def aim(self, target: TargetRevision) -> None:
        self.state = assign_targets(self.policy, self.state, target, now=self.now)

    def collection(self) -> RolloutCollection:
        """Built anew each time, as after a restart."""
        return build_collection(self.policy, bake_times(self.policy, self.state), self.items.values(), now=self.now)

    def ask(self) -> RolloutStep:
        """A decision that is lost: nothing of it was stored."""
        return decide_grants(
            self.policy, self.collection(), self.state, now=self.now, closed=self.closed, pace=self.pace
        )

    def wake_at(self) -> datetime | None:
        """The time of the next decision if nothing happens."""
        return next_decision(self.collection(), self.state, self.ask(), self.closed)

    def step(self) -> list[str]:
        """Decide and store: the keys that were granted."""
        collection = self.collection()
        decision = decide_grants(self.policy, collection, self.state, now=self.now, closed=self.closed, pace=self.pace)
        reserve(collection, decision, now=self.now)
        self.items = {item.key: item for item in collection}
        self.state = decision.state
        return list(decision.grants)

    def outlook(self) -> RolloutOutlook:
        return build_outlook(self.policy, self.collection(), self.state, now=self.now, closed=self.closed)

    def waits(self) -> Mapping[str, Cause]:
        return self.outlook().waits

    def change(self, *keys: str, **fields: Any) -> None:
        for key in keys:
            self.items[key] = replace(self.items[key], **fields)

    def apply(self, *keys: str, healthy: bool = True) -> None:
        """The write went through; healthy since now, or not."""
        for key in keys:
            progress = self.items[key].progress.with_observation(self.now, is_healthy=healthy)
            self.change(key, updated=True, healthy=healthy, is_new=False, progress=progress)

    def run(self, *, sick: str = "") -> list[str]:
        """Rounds until nothing moves, as `"0 1 2-3"` one text each; items in `sick` never become healthy."""
        rounds = []
        while granted := self.step():
            rounds.append("".join(granted))
            for key in granted:
                self.apply(key, healthy=key not in sick)
        return rounds


def items(names: Iterable[str], **fields: Any) -> dict[str, RolloutItem]:
    """One item per name or letter, at the revision before and healthy."""
    return {name: RolloutItem(name, **fields) for name in names}


def settled(item: RolloutItem) -> RolloutItem:
    """As it is once it was granted, applied and healthy for a day."""
    return replace(
        item, updated=True, granted=True, healthy=True, progress=ItemProgress(ready_since=START - timedelta(days=1))
    )


def linear(n: int | str) -> Linear:
    return Linear(CountOrPercent.parse(n))
