"""What a change waits for that is no gate of its own: what it uses has to be brought about before it, and what uses it has to be gone.

A closed gate holds its node and the node's descendants (S0-9), and so does what is live, does not change and is not ready. In the other direction,
what a held deletion still uses stays, and what a held node may still be is not pruned. A policy may ask for more (`barrier`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from applier.causes import Reason
from applier.plan.model import ApplySetPlan, Barrier, Plan
from applier.plan.node_planner import BEHIND_THE_BARRIER
from applier.state.observed import annotation, is_terminating, label
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange
from renderer import well_known
from renderer.graph.levels import ancestors
from renderer.identity import ObjectKey
from renderer.render.model import RenderedNode

Users = Callable[[ObjectKey], Collection[ObjectKey]]
"""The live objects that record that they use this one."""


def add_dependency_waits(
    changes: Sequence[PlannedChange],
    due: Plan,
    users: Users,
    barriers: Mapping[ObjectKey, Barrier],
    unresolved: Container[tuple[ObjectKey, str]] | None,
    masked: Callable[[str], str],
) -> Iterator[PlannedChange]:
    """The changes, each with what it waits for as one more gate. `barriers` are those of instances that wait for more than what they depend on.
    `unresolved`, of a plan without a cluster, are nodes, by set and id, that have got in the base what it does not know; what the base has is ready.
    """
    stays = {PlannedAction.FAILED, PlannedAction.KEEP}
    held = dict(_awaiting(due, unresolved or ()))
    if unresolved is None:
        held |= _unready(due, masked)
    held |= {change.key: change for change in changes if change.key and (change.gates or change.action in stays)}
    if not held:
        yield from changes
        return
    for alone in _alone(due):
        held.pop(alone, None)
    waits = _all_waits(due, users)
    stopped = {key for key, change in held.items() if change.action in {PlannedAction.FAILED, PlannedAction.UNKNOWN}}
    for node, more in _all_barriers(due, barriers, stopped):
        waits[node] += more
    owners = dict(_owners(due))
    repairs = {plan.node.key for one in due.sets for plan in one.nodes if plan.verb not in BEHIND_THE_BARRIER}
    for change in changes:
        key = change.key
        found = set[ObjectKey]()
        if key and change.action.is_change and key not in repairs:
            found = ancestors(waits, [key]) - {key} | set(_above(key, owners))
        before = [one for other in sorted(found & held.keys()) if not _is_same_turn(change, one := held[other])]
        gate = _gate(before) if before else None
        yield replace(change, gates=(*change.gates, gate)) if gate and _is_news(change, gate) else change


def _is_news(change: PlannedChange, gate: Obstacle) -> bool:
    """Where gates of its own hold a change anyway, only what opens later than they do."""
    return not change.gates or (gate.until is not None and (change.until is None or gate.until > change.until))


def _is_same_turn(change: PlannedChange, other: PlannedChange) -> bool:
    """A turn is one for all of an instance, and no news for its other nodes."""
    alike = change.instance is not None and change.instance == other.instance
    return alike and bool(other.gates) and all(gate.is_turn for gate in other.gates)


def _awaiting(due: Plan, unresolved: Container[tuple[ObjectKey, str]]) -> Iterator[tuple[ObjectKey, PlannedChange]]:
    """Nodes that wait for data, and what is referred to and not there: until it comes nothing starts that waits for them."""
    for one in due.sets:
        parent = one.rendered.parent
        for node in (plan.node for plan in one.nodes if plan.node.waiting):
            if (parent, node.id) not in unresolved:
                name = "" if one.rendered.is_source else node.id
                yield (
                    _place(one, node),
                    PlannedChange(PlannedAction.UNKNOWN, node.key, str(node.group_kind), parent, name),
                )


def _unready(due: Plan, masked: Callable[[str], str]) -> Iterator[tuple[ObjectKey, PlannedChange]]:
    """What is live and as it is to be, and keeps waiting what depends on it; with why."""
    for one in due.sets:
        for plan in one.nodes:
            if plan.live and plan.is_current and not (plan.ready or is_terminating(plan.live)):
                node, name = plan.node, "" if one.rendered.is_source else plan.node.id
                why = f"not ready: {masked(plan.blocked.message)}" if plan.blocked else "not ready"
                yield (
                    _place(one, node),
                    PlannedChange(PlannedAction.UNKNOWN, node.key, str(node.group_kind), node=name, why=why),
                )


def _place(one: ApplySetPlan, node: RenderedNode) -> ObjectKey:
    """Its key; for one whose name is not known yet what no object can be called."""
    return node.key or one.rendered.parent._replace(name=f"{one.rendered.parent.name} {node.id}")


def _alone(due: Plan) -> Iterator[ObjectKey]:
    """Nodes that keep no others waiting."""
    for one in due.sets:
        for plan in one.nodes:
            if annotation(plan.node.manifest, well_known.WAIT_FOR) == "none":
                yield _place(one, plan.node)


def _all_waits(due: Plan, users: Users) -> dict[ObjectKey, list[ObjectKey]]:
    """Members of an instance that goes follow it once it is deleted, and it is gone after them, and after what others take over of it."""
    handed_over: dict[str, list[ObjectKey]] = {}
    for one in due.sets:
        for plan in one.nodes:
            if plan.node.key and (holder := plan.holder) not in {"", one.rendered.id}:
                handed_over.setdefault(holder, []).append(plan.node.key)
    waits = {key: needs for one in due.sets for key, needs in _waits(one, users)}
    for one in due.sets:
        if one.rendered.parent in waits and not one.nodes:
            members = [orphan.member.key for orphan in one.orphans]
            for key in members:
                waits[key] += waits[one.rendered.parent]
            waits[one.rendered.parent] += members + handed_over.get(one.rendered.id, [])
    return waits


def _owners(due: Plan) -> Iterator[tuple[ObjectKey, ObjectKey]]:
    """Members of instances that go, each with its instance: while that is held they stay as well."""
    going = {orphan.member.key for one in due.sets for orphan in one.orphans}
    for one in due.sets:
        if one.rendered.parent in going:
            yield from ((orphan.member.key, one.rendered.parent) for orphan in one.orphans)


def _above(key: ObjectKey, owners: Mapping[ObjectKey, ObjectKey]) -> Iterator[ObjectKey]:
    while owner := owners.get(key):
        yield owner
        key = owner


def _waits(one: ApplySetPlan, users: Users) -> Iterator[tuple[ObjectKey, list[ObjectKey]]]:
    """Of each object of a set, what has to be done before."""
    by_id = {plan.node.id: _place(one, plan.node) for plan in one.nodes}
    for plan in one.nodes:
        needs = [key for name in plan.node.depends_on if (key := by_id.get(name))]
        yield by_id[plan.node.id], needs if one.rendered.is_source or _is_set(one) else [*needs, one.rendered.parent]
    recorded = {orphan.member.node for orphan in one.orphans}
    for orphan in one.orphans:
        shields = [
            plan.node.key
            for plan in one.nodes
            if plan.node.key
            and (
                plan.node.id == orphan.member.node
                or (
                    not plan.is_current
                    and plan.holder != one.rendered.id
                    and plan.node.id not in recorded
                    and plan.node.group_kind == orphan.member.key.group_kind
                )
            )
        ]
        yield orphan.member.key, [*users(orphan.member.key), *shields]


def _is_set(one: ApplySetPlan) -> bool:
    """Is the instance there, and a parent, so that nodes may be written whatever holds its own object?"""
    return one.parent is not None and bool(label(one.parent, well_known.PARENT_ID))


def _all_barriers(
    due: Plan, barriers: Mapping[ObjectKey, Barrier], stopped: Collection[ObjectKey]
) -> Iterator[tuple[ObjectKey, list[ObjectKey]]]:
    """Of nodes behind a barrier what counts of the levels before: all, or what failed or waits for data; a node at a gate keeps only its own
    descendants (S0-26).
    """
    for one in due.sets:
        barrier, below = barriers.get(one.rendered.parent), list[ObjectKey]()
        nodes = sorted((plan.node for plan in one.nodes if barrier), key=attrgetter("level"))
        for _, level in groupby(nodes, key=attrgetter("level")):
            here = [_place(one, node) for node in level]
            counted = below if barrier is Barrier.ALL else [key for key in below if key in stopped]
            yield from ((key, counted) for key in here)
            below = below + here


def _gate(before: Sequence[PlannedChange]) -> Obstacle:
    """Behind the one that opens last, as far as that is known."""
    last = max(before, key=lambda one: one.until.timestamp() if one.until else 0.0)
    name = last.node or last.ref
    is_unplanned = last.action is PlannedAction.UNKNOWN
    why = f" ({last.why})" if is_unplanned and last.why else ""
    return Obstacle(Reason.DEPENDENCY_NOT_READY, f"waits for {name}{why}", name, last.until, is_unplanned=is_unplanned)
