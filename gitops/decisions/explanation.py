"""Why instances stay where they are, and what each has to remember of its way: worked out once, for the decision that stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any, NamedTuple

from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import is_terminating
from gitops.gates.instance_gates import InstanceGates
from gitops.rollouts import items
from gitops.rollouts.collection import RolloutCollection, RolloutItem
from gitops.rollouts.outlook import build_outlook, with_blocker_references
from gitops.rollouts.policy import Policy
from gitops.rollouts.queue_position import WaveForecast
from gitops.rollouts.state import RolloutState, TargetRevision
from gitops.windows.window import Window
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


class DecidedRollout(NamedTuple):
    """One rollout as it was decided, its grants counted. `keys` are those of its items, `windows` those that its waves name, `closed` the waves whose
    own windows are closed.
    """

    name: str
    policy: Policy
    collection: RolloutCollection
    state: RolloutState
    keys: Mapping[str, ObjectKey]
    gates: InstanceGates
    windows: Mapping[str, Window]
    closed: Mapping[str, Cause]

    def target(self, item: str) -> TargetRevision:
        return self.state.targets[self.collection.wave_of(item)]


class CountedItem(NamedTuple):
    """One instance as its rollout counts it, and in which wave."""

    rollout: str
    wave: str
    item: RolloutItem


@dataclass
class Explanation:
    """`blocked`: why an instance is not moved to where it is to go; `remembered`: for its status;
    `counted`: as what it counts; `awaited`: who waits for others alone, and for whom; `ahead`: what those of each wave wait for, by rollout.
    """

    blocked: dict[ObjectKey, Cause] = field(default_factory=dict)
    remembered: dict[ObjectKey, dict[str, Any]] = field(default_factory=dict)
    counted: dict[ObjectKey, CountedItem] = field(default_factory=dict)
    awaited: dict[ObjectKey, frozenset[ObjectKey]] = field(default_factory=dict)
    ahead: dict[str, Mapping[str, WaveForecast]] = field(default_factory=dict)


def explain_instances(
    rollouts: Iterable[DecidedRollout], plans: Mapping[ObjectKey, ApplySetPlan], now: datetime
) -> Explanation:
    """Of all instances of these rollouts, whose collections stay as they are."""
    found = Explanation()
    for one in rollouts:
        kept = _kept_by_gates(one)
        one.collection.advance_to(now)
        found_here = build_outlook(one.policy, one.collection, one.state, now=now, closed=one.closed)
        reasons = one.gates.with_pace_reasons(one.policy, found_here.waits)
        found.ahead[one.name] = found_here.forecasts
        for name, key in one.keys.items():
            member = one.collection[name]
            wave = one.collection.wave_of(name)
            found.counted[key] = CountedItem(one.name, wave, kept.get(name, member))
            found.remembered[key] = {"rollout": {"name": one.name, "wave": wave}}
            if member.granted:
                found.remembered[key]["progress"] = items.progress_to_dict(member, one.target(name), one.policy)
            wait = reasons.get(name)
            told = wait is None or wait.reason is Reason.PROGRESSING or (member.granted and wait == member.blocked)
            if wait and not told and plans[key].error is None:
                found.blocked[key] = with_blocker_references(wait, reasons)
        for names, waiting in _by_what(reasons).items():
            others = frozenset(one.keys[name] for name in names)
            found.awaited |= {one.keys[name]: others for name in waiting}
        for item in kept.values():
            one.collection.set_item(item)
    return found


def with_move_causes(plan: Plan, blocked: Mapping[ObjectKey, Cause]) -> Plan:
    """The same plan, in which instances that are at work say why they are not moved."""
    return Plan(
        tuple(
            replace(one, not_moved=why)
            if (why := blocked.get(one.rendered.parent)) and not (one.error or one.is_unknown or _is_going(one))
            else one
            for one in plan.sets
        )
    )


def _is_going(one: ApplySetPlan) -> bool:
    return one.parent is not None and is_terminating(one.parent)


def _kept_by_gates(one: DecidedRollout) -> dict[str, RolloutItem]:
    """Ask the gates of all that could move but for their turn; to decide, only those are asked whose turn it is. Answers those that are kept, as
    they were before.
    """
    kept: dict[str, RolloutItem] = {}
    for name in one.keys:
        if one.collection.state_of(name).is_eligible and (shut := one.gates.find_wait(name)):
            kept[name] = one.collection[name]
            one.collection.set_item(replace(kept[name], blocked=one.gates.with_exact_blockers(name, shut)))
    return kept


def _by_what(reasons: Mapping[str, Cause]) -> Mapping[tuple[str, ...], list[str]]:
    """Items that wait for other items alone, by these; what looks again after a time waits for that as well."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, wait in reasons.items():
        if wait.blockers and (wait.reason is not Reason.GATE_CLOSED or wait.until is None):
            found.setdefault(wait.blockers, []).append(name)
    return found
