"""Random rollouts: a policy, items, and what happens to them, one event after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from applier.causes import Cause, Reason
from gitops.rollouts.advance import RolloutStep, decide_grants, reserve
from gitops.rollouts.collection import RolloutCollection, RolloutItem, build_collection
from gitops.rollouts.policy import Mode, Policy, Wave
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Unpaced
from gitops.rollouts.state import RolloutState, TargetRevision
from gitops.rollouts.targets import assign_targets, bake_times
from renderer.label_selector import LabelSelector
from tests.support.rollouts.reference import NaiveRollout
from tests.support.rollouts.rollouts import MINUTE, START

HELD = Cause(Reason.HELD, "held")
CLOSED = Cause(Reason.GATE_CLOSED, "closed")
CANARY = Wave(
    "canary", LabelSelector.from_object({"matchLabels": {"tier": "canary"}}), Linear(CountOrPercent(2)), 3 * MINUTE
)
PROD = Wave(
    "prod", LabelSelector.from_object({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["prod"]}]})
)

shapes = st.one_of(
    st.integers(1, 5).map(lambda n: Linear(CountOrPercent(n))),
    st.integers(1, 100).map(lambda n: Linear(CountOrPercent(n, is_percent=True))),
    st.integers(2, 5).map(Exponential),
    st.just(Unpaced()),
)
policies = st.builds(
    Policy,
    name=st.just("p"),
    shape=shapes,
    mode=st.sampled_from(Mode),
    bake=st.sampled_from([timedelta(), 5 * MINUTE]),
    max_failures=st.sampled_from(
        [CountOrPercent(0), CountOrPercent(0), CountOrPercent(1), CountOrPercent(30, is_percent=True)]
    ),
    max_flaps=st.integers(0, 2),
    min_available=st.sampled_from(
        [CountOrPercent(0), CountOrPercent(0), CountOrPercent(50, is_percent=True), CountOrPercent(80, is_percent=True)]
    ),
    waves=st.sampled_from([(), (), (CANARY,), (CANARY, PROD)]),
)


@dataclass
class RolloutHistory:
    """What has happened so far. `collection` follows every event by the difference; `items` are the truth."""

    policy: Policy
    collection: RolloutCollection
    items: dict[str, RolloutItem]
    state: RolloutState

    def __post_init__(self) -> None:
        self.now = START
        self.decision: RolloutStep | None = None

    def put(self, item: RolloutItem) -> None:
        self.items[item.key] = item
        self.collection.set_item(item)

    def change(self, chosen: int, event: str) -> None:
        key = sorted(self.items)[chosen % len(self.items)] if self.items else ""
        granted = [one for one in sorted(self.items) if self.items[one].granted and not self.items[one].updated]
        if event == "tick":
            self.now += chosen % 16 * MINUTE
        elif event == "insert":
            self.put(RolloutItem(f"{chosen % 7}new{chosen % 5}", {"tier": "prod"}, priority=chosen % 3))
        elif key:
            if event in {"apply", "apply sick"} and granted:
                key = granted[chosen % len(granted)]
            _CHANGES[event](self, self.items[key])

    def observe(self, item: RolloutItem, *, healthy: bool, **fields: Any) -> None:
        bake = self.collection.bakes[self.collection.wave_of(item.key)]
        progress = (
            item.progress.with_observation(self.now, is_healthy=healthy, bake=bake) if item.granted else item.progress
        )
        self.put(replace(item, healthy=healthy, progress=progress, **fields))

    def remove(self, item: RolloutItem) -> None:
        del self.items[item.key]
        self.collection.remove(item.key)

    def naive(self) -> NaiveRollout:
        return NaiveRollout(self.policy, self.items.values(), self.now)

    def halted(self) -> bool:
        return bool(self.state.halts)

    def ask(self, collection: RolloutCollection | None = None) -> RolloutStep:
        collection = self.collection if collection is None else collection
        return decide_grants(self.policy, collection, self.state, now=self.now)

    def anew(self, items: dict[str, RolloutItem] | None = None, *, backwards: bool = False) -> RolloutCollection:
        """Count the same items from scratch."""
        found = list((self.items if items is None else items).values())
        return build_collection(
            self.policy, bake_times(self.policy, self.state), reversed(found) if backwards else found, now=self.now
        )

    def carry_out(self, decision: RolloutStep) -> None:
        reserve(self.collection, decision, now=self.now)
        for key in decision.grants:
            self.items[key] = self.collection[key]
        self.state = decision.state


_CHANGES: dict[str, Callable[[RolloutHistory, RolloutItem], None]] = {
    "apply": lambda history, item: history.observe(item, healthy=True, updated=item.granted or item.updated),
    "apply sick": lambda history, item: history.observe(item, healthy=False, updated=item.granted or item.updated),
    "sick": lambda history, item: history.observe(item, healthy=False),
    "well": lambda history, item: history.observe(item, healthy=True),
    "hold": lambda history, item: history.put(replace(item, held=None if item.held else HELD)),
    "block": lambda history, item: history.put(replace(item, blocked=None if item.blocked else CLOSED)),
    "override": lambda history, item: history.put(replace(item, updated=True)),
    "refuse": lambda history, item: history.put(replace(item, error="refused" if item.granted else "")),
    "remove": lambda history, item: history.remove(item),
}
TIERS = ("canary", "prod", "prod", "other")
KIND_EVENTS = ("apply", "apply", "well", "tick")
ALL_EVENTS = (*KIND_EVENTS, *KIND_EVENTS, "insert", *_CHANGES)


@st.composite
def histories(draw: st.DrawFn, *, events: tuple[str, ...] = ALL_EVENTS) -> tuple[RolloutHistory, list[tuple[int, str]]]:
    """A history before anything has happened, and what is to happen. Bytes stand for choices, because one draw is cheaper than fifty."""
    policy = draw(policies)
    items = {
        f"{index:02}": RolloutItem(f"{index:02}", {"tier": TIERS[byte % 4]}, healthy=index % 5 != 3)
        for index, byte in enumerate(draw(st.binary(max_size=12)))
    }
    state = assign_targets(policy, RolloutState(completed=TargetRevision(1)), TargetRevision(2), now=START)
    choices = draw(st.binary(max_size=48))
    script = [(choice, events[event % len(events)]) for choice, event in zip(choices[::2], choices[1::2], strict=False)]
    history = RolloutHistory(
        policy, build_collection(policy, bake_times(policy, state), items.values(), now=START), items, state
    )
    return history, script


def played(case: tuple[RolloutHistory, list[tuple[int, str]]]) -> Iterator[RolloutHistory]:
    """The history before each decision. What is not taken (`decision`) is decided and carried out when the next event comes."""
    history, script = case
    for chosen, event in [(0, "tick"), *script]:
        history.change(chosen, event)
        history.collection.advance_to(history.now)
        yield history
        history.carry_out(history.ask())
