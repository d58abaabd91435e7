"""Gates of the nodes of an instance, and the pace of its collections.

A closed gate holds up only a node and its dependents (S1-40). The deletion of a node is a change too. The gates in the
last applied rendering of the node decide about the deletion (S1-21). These gates read iterators, resources and
fields of the instance from that rendering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from applier.causes import Cause, CauseRef, Reason
from applier.plan.model import ApplySetPlan, NodePlan, Operation
from gitops.gates.evaluate import (
    ClosedGate,
    GateEvaluator,
    GateFacts,
    GateSubject,
    GateVariables,
    make_gate_cause,
)
from gitops.gates.pace import apply_pace
from gitops.rollouts.collection import Counters, RolloutItem
from gitops.rollouts.policy import Mode, Policy
from gitops.rollouts.queue_position import MAX_LISTED_ITEMS, QueuePosition
from gitops.rollouts.shapes import frontier
from gitops.windows.verdict import WindowPeriod
from renderer.definition.gates import Gate
from renderer.frozen import dataclass
from renderer.identity import Manifest, ObjectKey
from renderer.phrasing import join_names
from renderer.render.model import id_in_definition
from renderer.render.resources import overlay, schema_value


@dataclass
class NodeGates:
    """Gates of the nodes of one instance in one reconciliation, with the facts that they read."""

    plan: ApplySetPlan
    """Plan of the instance, with the state of its nodes."""
    policy: Policy
    """Policy whose pace applies to each collection whose gates set no pace."""
    facts: GateFacts
    windows: Mapping[str, WindowPeriod]
    """Period for which the value of `inWindow` stays valid, for each window that the gates name."""
    bypassed_windows: frozenset[str] = frozenset()
    """Names of the windows that a break-glass bypasses for the instance."""
    _evaluators: dict[tuple[Gate, ...], GateEvaluator] = field(default_factory=dict)
    """Evaluators by the gates that they evaluate. A deletion and a write of one node may have different gates."""
    _counters: dict[str, Counters] = field(default_factory=dict)
    _pace_waits: dict[str, Mapping[str, Cause]] = field(default_factory=dict)

    def find_wait(self, node: str, operation: Operation, live: Mapping[str, Any] | None) -> Cause | None:
        """Return the cause if a gate or the pace holds up the change of `node` now, or None otherwise.

        Args:
            live: the live object to delete, if the set no longer renders `node`.
        """
        base, _, index = node.partition("/")
        gates = self._gates(base, operation)
        if gates and (closed_gates := self._closed_gates(node, gates, operation, live)):
            return self._with_wake_time(make_gate_cause(closed_gates, self.windows), gates)
        if not index or operation is Operation.PRUNE:
            return None
        if base not in self._pace_waits:
            self._pace_waits[base] = dict(self._find_pace_waits(base, gates))
        return self._pace_waits[base].get(node)

    def overridden_windows(self, node: str, operation: Operation, live: Mapping[str, Any] | None) -> frozenset[str]:
        """Return the names of the windows that would close a gate of `node` if no break-glass were in force."""
        base = id_in_definition(node)
        if not self.bypassed_windows or not (gates := self._gates(base, operation)):
            return frozenset()
        variables = self._variables_of(node, operation, live)
        return self._evaluator_for(base, gates).overridden_windows(
            variables, self._counters_of(base), bypassed_windows=self.bypassed_windows
        )

    def _closed_gates(
        self, node: str, gates: tuple[Gate, ...], operation: Operation, live: Mapping[str, Any] | None
    ) -> tuple[ClosedGate, ...]:
        base = id_in_definition(node)
        return self._evaluator_for(base, gates).closed_gates(
            self._variables_of(node, operation, live), self._counters_of(base), bypassed_windows=self.bypassed_windows
        )

    def _with_wake_time(self, wait: Cause | None, gates: tuple[Gate, ...]) -> Cause | None:
        """Return `wait` with the time at which it ends.

        If `wait` has no end and a gate reads the time, `wait` ends at the next evaluation of the gates.
        """
        wake_at = self._evaluators[gates].wake_at
        return replace(wait, until=wait.until or wake_at) if wait else None

    def _gates(self, base: str, operation: Operation) -> tuple[Gate, ...] | None:
        """Return the definition's gates of the node with the id `base`, or None if the node has no `propagateWhen`.

        For a deletion, return the gates in the last applied rendering, if that rendering is known.
        """
        rendered = self.plan.rendered
        if operation is Operation.PRUNE and rendered.applied_rendering:
            return rendered.applied_rendering.gates.get(base)
        return rendered.gates.get(base)

    def _evaluator_for(self, base: str, gates: tuple[Gate, ...]) -> GateEvaluator:
        if gates not in self._evaluators:
            # A bound method would make a reference cycle, which keeps all data of a reconciliation until the garbage
            # collector runs.
            # No halt limits the failed items of a collection, so other items do not pass a failed item.
            self._evaluators[gates] = GateEvaluator(
                gates, self.facts, partial(_subjects, self.plan, base), waits_for_failed=True
            )
        return self._evaluators[gates]

    def _counters_of(self, base: str) -> Counters:
        """Return the counters of the collection `base`. For a single resource, each counter is at most 1."""
        if base not in self._counters:
            self._counters[base] = _count([_item(node_plan) for node_plan in _collection_nodes(self.plan, base)])
        return self._counters[base]

    def _variables_of(self, node: str, operation: Operation, live: Mapping[str, Any] | None) -> GateVariables:
        """Return the variables for the gates of `node`.

        Args:
            live: the live object, or None if the object does not exist or is unknown.
        """
        plan = next((node_plan for node_plan in self.plan.nodes if node_plan.node.id == node), None)
        revision = self.plan.rendered.revision
        subjects = _subjects_by_base(self.plan.nodes, revision)
        item = _subject(plan, revision) if plan else GateSubject(live or {})
        if operation is Operation.PRUNE:
            former_plan = self._former_node(node, live)
            item = _subject(former_plan, 0) if former_plan else GateSubject(live or {})
            plan = former_plan or plan
            subjects = {**_subjects_by_base(self.plan.former_nodes, 0), **subjects}
        schema = schema_value(self._instance_manifest(operation), self.plan.parent)
        return GateVariables(item, subjects, {"schema": schema, **(plan.node.iterators if plan else {})})

    def _instance_manifest(self, operation: Operation) -> Manifest:
        """Return the manifest of the instance that gates read.

        The gates of a deletion may read fields that the schema of a newer revision lacks. These fields keep their
        applied values.
        """
        rendered = self.plan.rendered
        applied = rendered.applied_rendering
        if operation is not Operation.PRUNE or applied is None or applied.revision == rendered.revision:
            return rendered.manifest
        manifest: Manifest = overlay(rendered.manifest, applied.manifest)
        return manifest

    def _former_node(self, node: str, live: Mapping[str, Any] | None) -> NodePlan | None:
        """Return the node of the applied snapshot whose object is to be deleted, or None if the snapshot has none.

        The id of an item contains its place in the list. If the list has changed, another item may have the id now. So
        the object decides, and the id counts only if the object is unknown.
        """
        key = ObjectKey.from_manifest(live) if live else None
        return next(
            (
                node_plan
                for node_plan in self.plan.former_nodes
                if (node_plan.node.key == key if key else node_plan.node.id == node)
            ),
            None,
        )

    def _find_pace_waits(self, base: str, gates: tuple[Gate, ...] | None) -> Iterator[tuple[str, Cause]]:
        """Yield the id and the cause of each node of the collection `base` that the pace holds up.

        If no gate sets a pace, the pace applies only to changes of existing nodes (S1-7).
        """
        sets_pace = gates is not None and (not gates or any(gate.sets_pace for gate in gates))
        if not sets_pace and not self.plan.rendered.applied:
            return
        policy = apply_pace(self.policy, gates)
        evaluator = self._evaluator_for(base, gates) if gates else None
        variables_of = partial(self._variables_of, operation=Operation.UPDATE, live=None)
        pace = evaluator.pace(policy, variables_of) if evaluator else None
        items = [
            _item(node_plan, counts_as_updated=not sets_pace and not node_plan.exists)
            for node_plan in _collection_nodes(self.plan, base)
        ]
        counters = _count(items)
        unsettled = tuple(item.key for item in items if item.updated and not item.healthy)
        is_slowed = False
        for place, item in enumerate(items, start=1):
            if item.updated or (gates and self._closed_gates(item.key, gates, Operation.UPDATE, None)):
                continue
            may_move = pace(item, counters) if pace else counters.updated < _limit(policy, counters.settled, counters)
            is_slowed = is_slowed or not may_move  # Later items do not overtake an item that the pace keeps.
            if is_slowed:
                yield item.key, _pace_cause(policy, counters, place, unsettled)
            else:
                counters = counters._replace(updated=counters.updated + 1)


def _item(node_plan: NodePlan, *, counts_as_updated: bool = False) -> RolloutItem:
    """Return the node in `node_plan` as an item of a rollout.

    Args:
        counts_as_updated: True if the item counts as updated in any case, because Levelgate creates the object at once.
    """
    failure = node_plan.blocked if node_plan.blocked and node_plan.blocked.reason.is_failure else None
    return RolloutItem(
        node_plan.node.id,
        updated=node_plan.is_applied or counts_as_updated,
        healthy=node_plan.healthy,
        error=failure.message if failure else "",
    )


def _count(items: Sequence[RolloutItem]) -> Counters:
    settled = sum(item.updated and item.healthy for item in items)
    failed = sum(bool(item.error) and not (item.updated and item.healthy) for item in items)
    return Counters(len(items), sum(item.updated for item in items), settled, failed)


def _limit(policy: Policy, settled: int, counters: Counters) -> int:
    """Return the number of items of the collection that may be updated once `settled` items have settled."""
    return frontier(policy.shape, settled, counters.total, sliding=policy.mode is Mode.SLIDING)


def _pace_cause(policy: Policy, counters: Counters, place: int, unsettled: Sequence[str]) -> Cause:
    """Return the cause of an item that the pace holds up at `place`.

    The cause names the queue position and the items in `unsettled`.
    """
    limit = _limit(policy, counters.settled, counters)
    next_limit = _limit(policy, counters.updated, counters)
    position = QueuePosition(place, counters.total, limit, counters.updated, next_limit, shape=str(policy.shape))
    suffix = f"; not settled: {join_names(unsettled)}" if unsettled else ""
    references = tuple(CauseRef("Node", name, Reason.PROGRESSING) for name in unsettled[:MAX_LISTED_ITEMS])
    details = {"position": position._asdict()}
    return Cause(Reason.PACE_REACHED, f"{position}{suffix}", references=references, details=details)


def _subjects(plan: ApplySetPlan, base: str) -> list[GateSubject]:
    return [_subject(node_plan, plan.rendered.revision) for node_plan in _collection_nodes(plan, base)]


def _subjects_by_base(nodes: Iterable[NodePlan], revision: int) -> dict[str, GateSubject | list[GateSubject]]:
    """Return the subject of each resource, by its id in the definition. For a collection, return a list of subjects."""
    subjects: dict[str, GateSubject | list[GateSubject]] = {}
    for node_plan in nodes:
        base, _, index = node_plan.node.id.partition("/")
        if index:
            items = subjects.setdefault(base, [])
            assert isinstance(items, list)
            items.append(_subject(node_plan, revision))
        else:
            subjects[base] = _subject(node_plan, revision)
    return subjects


def _collection_nodes(plan: ApplySetPlan, base: str) -> list[NodePlan]:
    return [node_plan for node_plan in plan.nodes if id_in_definition(node_plan.node.id) == base]


def _subject(node_plan: NodePlan, revision: int) -> GateSubject:
    ready = node_plan.exists and node_plan.ready
    settled = node_plan.is_applied and node_plan.healthy
    return GateSubject(node_plan.live or {}, ready, node_plan.is_applied, settled, revision)
