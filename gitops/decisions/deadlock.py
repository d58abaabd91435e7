"""Instances that wait for one another for ever (S1-23).

What can be seen before anything runs is refused when it is read (`renderer.catalog.gate_cycles`); this is the rest.
A set may go on if something of it is under
way, if a time, a person or somebody outside can end its wait, or if one of those that it waits for may go on. Those that are left are deadlocked.
So a set is told only where no event that is still to come can help, other than another commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from applier.causes import Cause, CauseRef, Reason
from applier.plan.model import ApplySetPlan, NodePlan, Plan
from renderer.graph import levels
from renderer.identity import ObjectKey
from renderer.render.model import id_in_definition

Awaited = Mapping[ObjectKey, frozenset[ObjectKey]]
"""Of instances that wait, in their rollout, for others alone: these."""


def with_deadlock_causes(plan: Plan, awaited: Awaited) -> Plan:
    """The same plan, in which deadlocked instances say so."""
    if not plan.is_idle or not (waits := find_deadlocks(plan, awaited)):
        return plan
    return Plan(
        tuple(
            replace(one, deadlock=_blocked(one.rendered.parent, waits))
            if one.rendered.parent in waits and not one.rendered.is_source
            else one
            for one in plan.sets
        )
    )


def find_deadlocks(plan: Plan, awaited: Awaited) -> dict[ObjectKey, frozenset[ObjectKey]]:
    """The wait-for edges of the sets none of which can go on before another one does."""
    parents = {one.rendered.parent for one in plan.sets}
    owners = {
        node.node.key: one.rendered.parent
        for one in plan.sets
        for node in one.nodes
        if node.node.key and not node.node.external
    }
    waits = {one.rendered.parent: found for one in plan.sets if (found := _waits(one, awaited, parents, owners))}
    while free := [key for key, others in waits.items() if not others <= waits.keys()]:
        for key in free:
            del waits[key]
    return waits


def _waits(
    one: ApplySetPlan, awaited: Awaited, parents: set[ObjectKey], owners: Mapping[ObjectKey, ObjectKey]
) -> frozenset[ObjectKey]:
    """The sets that this one waits for; none where it goes on, or where something else than a set may end its wait."""
    found: set[ObjectKey] = set()
    free = frozenset[ObjectKey]()
    if one.error or one.parent_error or one.is_unknown or any(orphan.blocked for orphan in one.candidates_to_remove):
        return free
    if one.not_moved:
        found |= awaited.get(one.rendered.parent, free)
        if not found:
            return free
    by_id = {node.node.id: node for node in one.nodes}
    for node in one.nodes:
        if node.blocked is None or _is_behind(node, node.blocked, by_id):
            continue
        key, reason = node.node.key, node.blocked.reason
        if key and reason is Reason.WAITING_FOR_DATA and node.node.external and key in owners:
            found.add(owners[key])
        elif key and reason is Reason.PROGRESSING and key in parents:
            found.add(key)
        elif reason is Reason.GATE_CLOSED and (read := _owners_of_read(one, node, by_id, owners)):
            found |= read
        else:
            return free
    return frozenset(found)


def _owners_of_read(
    one: ApplySetPlan, node: NodePlan, by_id: Mapping[str, NodePlan], owners: Mapping[ObjectKey, ObjectKey]
) -> frozenset[ObjectKey]:
    """Return the sets that own what the gates of a node read, or none if a gate reads anything else.

    Such gates open only if one of these sets changes.
    """
    gates = one.rendered.gates.get(id_in_definition(node.node.id), ())
    if any(gate.externals or gate.windows or gate.reads_time for gate in gates):
        return frozenset()
    names = frozenset[str]().union(*(gate.names for gate in gates))
    keys = [by_id[name].node.key for name in names if name in by_id and by_id[name].node.external]
    found = frozenset(owners[key] for key in keys if key and key in owners)
    return found if len(keys) == len(names) and all(key in owners for key in keys) else frozenset()


def _is_behind(node: NodePlan, blocked: Cause, by_id: Mapping[str, NodePlan]) -> bool:
    """Does it wait only because another node of its set does?"""
    if blocked.reason is Reason.DEPENDENCY_NOT_READY:
        return True
    above = (by_id[name] for name in node.node.depends_on if name in by_id)
    return blocked.reason is Reason.WAITING_FOR_DATA and any(other.blocked for other in above)


def _blocked(parent: ObjectKey, waits: Mapping[ObjectKey, frozenset[ObjectKey]]) -> Cause:
    ordered = {key: sorted(others) for key, others in waits.items()}
    circle = levels.find_path(ordered, parent, parent)
    way = " -> ".join(_named(key, parent) for key in circle or [parent, ordered[parent][0]])
    where = "in a cycle" if circle else "for an instance that waits in a cycle"
    because = tuple(
        CauseRef(
            "Instance" if other.group_kind == parent.group_kind else "Object", _named(other, parent), Reason.DEADLOCKED
        )
        for other in ordered[parent]
    )
    message = f"waits {where}: {way}; only a change in Git can end that"
    return Cause(Reason.DEADLOCKED, message, references=because)


def _named(key: ObjectKey, among: ObjectKey) -> str:
    return key.qualified_name if key.group_kind == among.group_kind else str(key)
