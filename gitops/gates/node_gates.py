"""The gates of the nodes of an instance, and the pace of its collections: a closed one holds a node and what depends on it, nothing else (S1-40).

The removal of a node is a change of it: the gate that it was last applied with decides (S1-21).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from applier.causes import Reason
from applier.plan.model import ApplySetPlan, NodePlan, Operation
from gitops.gates.evaluate import GateEvaluator, GateFacts, GateSubject, GateVariables, as_wait, paced
from gitops.rollouts.collection import Counters, RolloutItem
from gitops.rollouts.policy import Mode, Policy
from gitops.rollouts.queue_position import QueuePosition, Wait
from gitops.rollouts.shapes import frontier
from gitops.windows.verdict import ClosedWindow
from renderer.definition.gates import Gate
from renderer.frozen import dataclass
from renderer.phrasing import listed
from renderer.render.model import id_in_definition
from renderer.render.resolve import schema_value


@dataclass
class NodeGates:
    """Of one instance, in one pass: `plan` tells how its nodes are, `policy` the pace of its collections, `windows` when the answer of each
    changes next, `past` those of them that somebody lets the instance pass.
    """

    plan: ApplySetPlan
    policy: Policy
    facts: GateFacts
    windows: Mapping[str, ClosedWindow]
    past: frozenset[str] = frozenset()
    _judges: dict[str, GateEvaluator] = field(default_factory=dict)
    _turns: dict[str, Mapping[str, Wait]] = field(default_factory=dict)

    def wait(self, node: str, effect: Operation, live: Mapping[str, Any] | None) -> Wait | None:
        """Why this node may not be written, or deleted, now."""
        base, _, index = node.partition("/")
        written = self._gates(base, effect)
        if closed := self._judge(base, written).closed(self._view(node, live), self.past) if written else ():
            return self._until(as_wait(closed, self.windows), base)
        if not index or effect is Operation.PRUNE:
            return None
        if base not in self._turns:
            self._turns[base] = dict(self._waiting(base, written))
        return self._turns[base].get(node)

    def overridden(self, node: str, effect: Operation, live: Mapping[str, Any] | None) -> frozenset[str]:
        """The windows, by name, whose gates are closed for this node and passed."""
        base = id_in_definition(node)
        if not self.past or not (written := self._gates(base, effect)):
            return frozenset()
        return self._judge(base, written).overridden(self._view(node, live), self.past)

    def _until(self, wait: Wait | None, base: str) -> Wait | None:
        """A gate that reads the time is asked again soon."""
        again = self._judges[base].wake_at
        return replace(wait, not_before=wait.not_before or again) if wait else None

    def _gates(self, base: str, effect: Operation) -> tuple[Gate, ...] | None:
        rendered = self.plan.rendered
        if effect is Operation.PRUNE and rendered.applied_rendering:
            return rendered.applied_rendering.gates.get(base)
        return rendered.gates.get(base)

    def _judge(self, base: str, written: Sequence[Gate]) -> GateEvaluator:
        if base not in self._judges:
            # Not with a method: a circle keeps all that a pass was made of until Python looks for circles.
            self._judges[base] = GateEvaluator(written, self.facts, partial(_subjects, self.plan, base))
        return self._judges[base]

    def _view(self, node: str, live: Mapping[str, Any] | None) -> GateVariables:
        found = next((one for one in self.plan.nodes if one.node.id == node), None)
        parent = self.plan.parent
        instance = self.plan.rendered.manifest
        values = {"schema": schema_value(instance, parent), **(found.node.iterators if found else {})}
        ancestors: dict[str, GateSubject | list[GateSubject]] = {}
        for one in self.plan.nodes:
            base, _, index = one.node.id.partition("/")
            if index:
                several = ancestors.setdefault(base, [])
                assert isinstance(several, list)
                several.append(_subject(self.plan, one))
            else:
                ancestors[base] = _subject(self.plan, one)
        return GateVariables(_subject(self.plan, found) if found else GateSubject(live or {}), ancestors, values)

    def _waiting(self, base: str, written: tuple[Gate, ...] | None) -> Iterator[tuple[str, Wait]]:
        """Items of a collection whose turn has not come. By default that concerns changes of items that exist already (S1-7)."""
        says_pace = written is not None and (not written or any(gate.sets_pace for gate in written))
        if not says_pace and not self.plan.rendered.applied:
            return
        policy = paced(self.policy, written)
        judge = self._judge(base, written) if written else None
        pace = judge.pace(policy, lambda node: self._view(node, None)) if judge else None
        items = [self._item(one, counts=says_pace) for one in _items(self.plan, base)]
        counters = Counters(
            len(items),
            sum(item.updated for item in items),
            sum(item.updated and item.healthy for item in items),
        )
        unsettled = tuple(item.key for item in items if item.updated and not item.healthy)
        is_slowed = False
        for place, item in enumerate(items, start=1):
            if item.updated or (written and self._judge(base, written).closed(self._view(item.key, None), self.past)):
                continue
            sliding = policy.mode is Mode.SLIDING
            limit = frontier(policy.shape, counters.settled, counters.total, sliding=sliding)
            may_move = pace(item, counters) if pace else counters.updated < limit
            is_slowed = is_slowed or not may_move
            if not is_slowed:
                counters = counters._replace(updated=counters.updated + 1)
                continue
            told = f"; not settled: {listed(unsettled)}" if unsettled else ""
            then = frontier(policy.shape, counters.updated, counters.total, sliding=sliding)
            position = QueuePosition(place, counters.total, limit, counters.updated, then, shape=str(policy.shape))
            yield item.key, Wait(Reason.PACE_REACHED, f"{position}{told}", by=unsettled, position=position)

    def _item(self, one: NodePlan, *, counts: bool) -> RolloutItem:
        """An item that does not exist yet is created at once, unless somebody set a pace: then its creation `counts` as well."""
        moved = one.is_current or (not one.exists and not counts)
        return RolloutItem(one.node.id, updated=moved, healthy=one.healthy)


def _subjects(plan: ApplySetPlan, base: str) -> list[GateSubject]:
    return [_subject(plan, one) for one in _items(plan, base)]


def _items(plan: ApplySetPlan, base: str) -> list[NodePlan]:
    return [one for one in plan.nodes if id_in_definition(one.node.id) == base]


def _subject(plan: ApplySetPlan, one: NodePlan) -> GateSubject:
    ready = one.exists and one.ready
    settled = one.is_current and one.healthy
    return GateSubject(one.live or {}, ready, one.is_current, settled, plan.rendered.revision)
