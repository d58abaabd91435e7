"""Gates across the instances of a definition, evaluated for the items of a rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Final

from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan
from gitops.gates.evaluate import GateEvaluator, GateFacts, GateSubject, GateVariables, make_gate_cause
from gitops.rollouts.advance import Pace
from gitops.rollouts.collection import Counters, RolloutItems
from gitops.rollouts.policy import Policy
from gitops.windows.verdict import WindowPeriod
from renderer.definition.gates import Gate
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.resources import overlay, schema_value

MAX_TRIED_ITEMS: Final = 20_000
"""Maximum number of items that gates read while each unsettled item is tried by itself: some 40 ms of work."""


@dataclass(repr=False)
class InstanceGates:
    """Gates of one rollout in one reconciliation, with the items and facts that they read."""

    gates: Sequence[Gate]
    facts: GateFacts
    collection: RolloutItems
    keys: Mapping[str, ObjectKey]
    """Keys of the instances, by key of the item."""
    plans: Mapping[ObjectKey, ApplySetPlan]
    windows: Mapping[str, WindowPeriod]
    """Period for which the value of `inWindow` stays valid, for each window that the gates name."""
    bypassed_windows: Callable[[ObjectKey], frozenset[str]]
    """Function that returns the names of the windows that a break-glass bypasses for an instance."""
    _evaluator: GateEvaluator = field(init=False)

    def __post_init__(self) -> None:
        # A bound method would make a reference cycle, which keeps all data of a reconciliation until the garbage
        # collector runs.
        self._evaluator = GateEvaluator(
            self.gates, self.facts, partial(_subjects, self.collection, self.keys, self.plans)
        )

    def find_wait(self, item: str) -> Cause | None:
        """Return the cause that names the closed gates of `item`, except pace gates, or None if none is closed."""
        if not self.gates:
            return None
        closed_gates = self._evaluator.closed_gates(
            self._variables_of(item), self._counters_for(item), bypassed_windows=self.bypassed_windows(self.keys[item])
        )
        wait = make_gate_cause(closed_gates, self.windows)
        gates = [closed_gate.gate for closed_gate in closed_gates if _is_for_items(closed_gate.gate)]
        if wait and gates:
            awaits_settling = any(gate.waits_for_items for gate in gates)
            return replace(
                wait,
                blockers=self._unsettled if awaits_settling else self._failed_by_wave[self.collection.wave_of(item)],
            )
        return wait

    def with_exact_blockers(self, item: str, wait: Cause) -> Cause:
        """Return the cause of `find_wait` with only the items that keep the gates of `item` closed by themselves.

        If the gates would read more than `MAX_TRIED_ITEMS` items, if they count items, and if no item alone keeps the
        gates closed, the cause stays as it is.
        """
        names = wait.blockers
        gates = [gate for gate in self.gates if _is_for_items(gate)]
        is_costly = len(names) ** 2 * len(self.keys) > MAX_TRIED_ITEMS
        if is_costly or not gates or any(gate.counters or gate.sets_pace for gate in self.gates):
            return wait
        exact = tuple(name for name in names if self._is_kept_closed_by(name, item, gates))
        return replace(wait, blockers=exact) if exact else wait

    def _is_kept_closed_by(self, blocker: str, item: str, gates: Sequence[Gate]) -> bool:
        """Return whether the gates of an item stay closed if every other item but the blocker settles."""
        subject = _subject(self.collection, blocker, self.plans[self.keys[blocker]])
        assumed = {**self._settled_subjects, blocker: subject}
        evaluator = GateEvaluator(gates, self.facts, assumed.values)
        variables = replace(self._variables_of(item), item=assumed[item])
        return bool(evaluator.closed_gates(variables, self._counters_for(item)))

    def overridden_windows(self, item: str) -> frozenset[str]:
        """Return the names of the windows that would close a gate of `item` if no break-glass were in force."""
        return self._evaluator.overridden_windows(
            self._variables_of(item),
            self._counters_for(item),
            bypassed_windows=self.bypassed_windows(self.keys[item]),
        )

    def pace(self, policy: Policy) -> Pace | None:
        """Return the pace that the gates set, or None if no gate sets a pace.

        If the pace is a single rate, also return None, because `apply_pace` turns a single rate into the shape of the
        policy.
        """
        return self._evaluator.pace(policy, self._variables_of)

    def with_pace_reasons(self, policy: Policy, waits: Mapping[str, Cause]) -> Mapping[str, Cause]:
        """Return the causes `waits` of the items of a rollout, with the pace gates that hold up items.

        If the pace holds up an item and a pace gate is closed for the item, the returned cause names the gate.
        """
        if self.pace(policy) is None:
            return waits
        return {
            name: self._pace_wait(policy, name, wait) if wait.reason is Reason.PACE_REACHED else wait
            for name, wait in waits.items()
        }

    @property
    def wake_at(self) -> datetime | None:
        """Return the time in UTC at which to evaluate the gates again, or None if no gate reads the time."""
        return self._evaluator.wake_at

    def _pace_wait(self, policy: Policy, name: str, pace_wait: Cause) -> Cause:
        """Return the cause with the closed pace gates of the item `name`, or `pace_wait` if no pace gate is closed."""
        closed_gates = self._evaluator.closed_pace_gates(
            policy, self._variables_of(name), self.collection[name], self._counters_for(name)
        )
        gate_wait = make_gate_cause(closed_gates, self.windows)
        return replace(gate_wait, blockers=pace_wait.blockers) if gate_wait else pace_wait

    @cached_property
    def _settled_subjects(self) -> Mapping[str, GateSubject]:
        """Return each item as if it had settled."""
        subjects = {
            one.key: _subject(self.collection, one.key, self.plans[self.keys[one.key]]) for one in self.collection
        }
        return {name: replace(one, ready=True, updated=True, settled=True) for name, one in subjects.items()}

    @cached_property
    def _unsettled(self) -> tuple[str, ...]:
        """Return the keys of the items that are not settled, in order."""
        return tuple(item.key for item in self.collection if not self.collection.state_of(item.key).is_settled)

    @cached_property
    def _failed_by_wave(self) -> Mapping[str, tuple[str, ...]]:
        """Return the keys of the failed items of each wave, in order, by name of the wave."""
        failed = [item.key for item in self.collection if self.collection.state_of(item.key).has_failed]
        return {
            name: tuple(key for key in failed if self.collection.wave_of(key) == name) for name in self.collection.waves
        }

    def _counters_for(self, item: str) -> Counters:
        """Return the counters of the wave that `item` is in."""
        return self.collection.waves[self.collection.wave_of(item)].counters

    def _variables_of(self, item: str) -> GateVariables:
        plan = self.plans[self.keys[item]]
        reads_schema = any("schema" in gate.names for gate in self.gates)
        return GateVariables(
            _subject(self.collection, item, plan),
            values={"schema": schema_value(plan.rendered.manifest, plan.parent)} if reads_schema else {},
        )


def _subjects(
    collection: RolloutItems, keys: Mapping[str, ObjectKey], plans: Mapping[ObjectKey, ApplySetPlan]
) -> list[GateSubject]:
    return [_subject(collection, item.key, plans[keys[item.key]]) for item in collection]


def _subject(collection: RolloutItems, name: str, plan: ApplySetPlan) -> GateSubject:
    """Return the instance in `plan` as a subject of gates: the desired spec with the live status.

    If an error leaves the nodes of the instance unknown, the instance is not ready.
    """
    knows_nodes = plan.error is None or bool(plan.nodes)
    ready = plan.parent is not None and knows_nodes and all(node.ready for node in plan.nodes)
    settled = collection.state_of(name).is_settled
    manifest = overlay(plan.rendered.manifest, plan.parent) if plan.parent else plan.rendered.manifest
    return GateSubject(manifest, ready, collection[name].has_moved, settled, plan.rendered.revision)


def _is_for_items(gate: Gate) -> bool:
    """Return whether only items of the collection can open the gate."""
    return bool(gate.waits_for_items or gate.counters) and not (gate.externals or gate.windows or gate.reads_time)
