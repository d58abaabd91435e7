"""Waits of a change for other objects: a write waits for dependencies, and a deletion waits for dependents.

The rules for waits:

- A held node holds its descendants (S0-9).
- If a live node does not change and is not ready, the node holds its descendants.
- While the deletion of a dependent is held, the object stays.
- While a held node may turn out to be the same object as a member, the member stays.
- A policy may require further waits (`Barrier`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from applier.causes import Reason
from applier.plan.barriers import BARRIER_ACTIONS
from applier.plan.model import ApplySetPlan, Barrier, Plan
from applier.state.observed import annotation, is_terminating, label
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange
from renderer import well_known
from renderer.graph.levels import ancestors
from renderer.identity import ObjectKey
from renderer.render.model import RenderedNode

FindUsers = Callable[[ObjectKey], Collection[ObjectKey]]
"""Function that returns the live objects with a recorded dependency on an object."""


def add_dependency_waits(
    changes: Sequence[PlannedChange],
    full_plan: Plan,
    users_of: FindUsers,
    barriers: Mapping[ObjectKey, Barrier],
    unresolved: Container[tuple[ObjectKey, str]] | None,
    mask_text: Callable[[str], str],
) -> Iterator[PlannedChange]:
    """Yield the changes, with an obstacle added to each change that waits for another object.

    Args:
        barriers: barrier of each instance whose nodes wait for more than their dependencies.
        unresolved: None in a plan against a cluster. In a plan against a base commit, the parent and id of each node
            that waits for values in the base too. Such nodes hold no dependent, because the plan assumes that all
            objects of the base are ready.
    """
    held_changes = _held_changes(changes, full_plan, unresolved, mask_text)
    if not held_changes:
        yield from changes
        return
    waits = _all_waits(full_plan, users_of)
    stopped_actions = {PlannedAction.FAILED, PlannedAction.UNKNOWN}
    stopped = {key for key, change in held_changes.items() if change.action in stopped_actions}
    for node, barrier_keys in _barrier_waits(full_plan, barriers, stopped):
        waits[node] += barrier_keys
    owners = dict(_deleted_owners(full_plan))
    repair_keys = set(_repair_keys(full_plan))
    for change in changes:
        key = change.key
        dependencies = set[ObjectKey]()
        if key and change.action.is_change and key not in repair_keys:
            dependencies = ancestors(waits, [key]) - {key} | set(_enclosing_instances(key, owners))
        blockers = [
            blocker
            for dependency in sorted(dependencies & held_changes.keys())
            if not _is_same_turn(change, blocker := held_changes[dependency])
        ]
        obstacle = _dependency_obstacle(blockers) if blockers else None
        if obstacle and _is_later(change, obstacle):
            yield replace(change, obstacles=(*change.obstacles, obstacle))
        else:
            yield change


def _held_changes(
    changes: Sequence[PlannedChange],
    full_plan: Plan,
    unresolved: Container[tuple[ObjectKey, str]] | None,
    mask_text: Callable[[str], str],
) -> dict[ObjectKey, PlannedChange]:
    """Return the changes that hold dependents: changes with obstacles, and failed, unresolved or unready changes."""
    stuck_actions = {PlannedAction.FAILED, PlannedAction.KEEP}
    held = dict(_waiting_for_data(full_plan, unresolved or ()))
    if unresolved is None:
        held |= _unready_nodes(full_plan, mask_text)
    held |= {
        change.key: change for change in changes if change.key and (change.obstacles or change.action in stuck_actions)
    }
    for key in _independent_nodes(full_plan):
        held.pop(key, None)
    return held


def _repair_keys(full_plan: Plan) -> Iterator[ObjectKey | None]:
    """Yield the nodes whose write does not wait for dependencies, such as healing."""
    for set_plan in full_plan.sets:
        for node_plan in set_plan.nodes:
            if node_plan.action not in BARRIER_ACTIONS:
                yield node_plan.node.key


def _is_later(change: PlannedChange, obstacle: Obstacle) -> bool:
    """Return whether `obstacle` ends after all obstacles of the change. An unknown end counts as the earliest."""
    return not change.obstacles or (
        obstacle.until is not None and (change.until is None or obstacle.until > change.until)
    )


def _is_same_turn(change: PlannedChange, other: PlannedChange) -> bool:
    """Return whether both changes belong to one instance, and `other` waits only for that instance's turn to move."""
    is_same_instance = change.instance is not None and change.instance == other.instance
    return is_same_instance and bool(other.obstacles) and all(obstacle.is_turn for obstacle in other.obstacles)


def _waiting_for_data(
    full_plan: Plan, unresolved: Container[tuple[ObjectKey, str]]
) -> Iterator[tuple[ObjectKey, PlannedChange]]:
    """Yield the nodes that wait for values, and external references to missing objects, as held changes.

    Dependents of these nodes cannot start before the values exist.
    """
    for set_plan in full_plan.sets:
        parent = set_plan.rendered.parent
        for node in (node_plan.node for node_plan in set_plan.nodes if node_plan.node.waiting):
            if (parent, node.id) not in unresolved:
                name = "" if set_plan.rendered.is_source else node.id
                yield (
                    _object_key(set_plan, node),
                    PlannedChange(PlannedAction.UNKNOWN, node.key, str(node.group_kind), parent, name),
                )


def _unready_nodes(full_plan: Plan, mask_text: Callable[[str], str]) -> Iterator[tuple[ObjectKey, PlannedChange]]:
    """Yield each live node that does not change and is not ready, as a held change whose message is the reason."""
    for set_plan in full_plan.sets:
        for node_plan in set_plan.nodes:
            if node_plan.live and node_plan.is_applied and not (node_plan.ready or is_terminating(node_plan.live)):
                node, name = node_plan.node, "" if set_plan.rendered.is_source else node_plan.node.id
                message = f"not ready: {mask_text(node_plan.blocked.message)}" if node_plan.blocked else "not ready"
                yield (
                    _object_key(set_plan, node),
                    PlannedChange(PlannedAction.UNKNOWN, node.key, str(node.group_kind), node=name, message=message),
                )


def _object_key(set_plan: ApplySetPlan, node: RenderedNode) -> ObjectKey:
    """Return the key of a node.

    If the name of the node is unknown, return a key with a space in the name. No object has such a name.
    """
    return node.key or set_plan.rendered.parent._replace(name=f"{set_plan.rendered.parent.name} {node.id}")


def _independent_nodes(full_plan: Plan) -> Iterator[ObjectKey]:
    """Yield the nodes with the annotation `wait-for: none`. Dependents do not wait for these nodes."""
    for set_plan in full_plan.sets:
        for node_plan in set_plan.nodes:
            if annotation(node_plan.node.manifest, well_known.WAIT_FOR) == "none":
                yield _object_key(set_plan, node_plan.node)


def _all_waits(full_plan: Plan, users_of: FindUsers) -> dict[ObjectKey, list[ObjectKey]]:
    """Return, for each object, the objects whose write or deletion has to come earlier.

    The deletion of an instance begins before the deletion of its members, and ends later. So the members wait for the
    same objects as the instance. The instance waits for its members, and for members that other sets take over.
    """
    handed_over: dict[str, list[ObjectKey]] = {}
    for set_plan in full_plan.sets:
        for node_plan in set_plan.nodes:
            if node_plan.node.key and (holder := node_plan.live_set_id) not in {"", set_plan.rendered.id}:
                handed_over.setdefault(holder, []).append(node_plan.node.key)
    waits = {key: dependencies for set_plan in full_plan.sets for key, dependencies in _set_waits(set_plan, users_of)}
    for set_plan in full_plan.sets:
        if set_plan.rendered.parent in waits and not set_plan.nodes:
            member_keys = [candidate.member.key for candidate in set_plan.prune_candidates]
            for key in member_keys:
                waits[key] += waits[set_plan.rendered.parent]
            waits[set_plan.rendered.parent] += member_keys + handed_over.get(set_plan.rendered.id, [])
    return waits


def _deleted_owners(full_plan: Plan) -> Iterator[tuple[ObjectKey, ObjectKey]]:
    """Yield each member of a pruned instance with that instance, because a held instance holds its members."""
    pruned_keys = {candidate.member.key for set_plan in full_plan.sets for candidate in set_plan.prune_candidates}
    for set_plan in full_plan.sets:
        if set_plan.rendered.parent in pruned_keys:
            yield from ((candidate.member.key, set_plan.rendered.parent) for candidate in set_plan.prune_candidates)


def _enclosing_instances(key: ObjectKey, owners: Mapping[ObjectKey, ObjectKey]) -> Iterator[ObjectKey]:
    while owner := owners.get(key):
        yield owner
        key = owner


def _set_waits(set_plan: ApplySetPlan, users_of: FindUsers) -> Iterator[tuple[ObjectKey, list[ObjectKey]]]:
    """Yield each object of a set with the objects whose write or deletion has to come earlier."""
    by_id = {node_plan.node.id: _object_key(set_plan, node_plan.node) for node_plan in set_plan.nodes}
    for node_plan in set_plan.nodes:
        dependencies = [key for name in node_plan.node.depends_on if (key := by_id.get(name))]
        yield (
            by_id[node_plan.node.id],
            dependencies
            if set_plan.rendered.is_source or _is_existing_parent(set_plan)
            else [*dependencies, set_plan.rendered.parent],
        )
    # A prune candidate also waits for nodes that may turn out to be the same object: a node of the same id whose name
    # has changed, or an unwritten node of the same kind that replaces no other candidate.
    pruned_node_ids = {candidate.member.node_id for candidate in set_plan.prune_candidates}
    for candidate in set_plan.prune_candidates:
        possible_keys = [
            node_plan.node.key
            for node_plan in set_plan.nodes
            if node_plan.node.key
            and (
                node_plan.node.id == candidate.member.node_id
                or (
                    not node_plan.is_applied
                    and node_plan.live_set_id != set_plan.rendered.id
                    and node_plan.node.id not in pruned_node_ids
                    and node_plan.node.group_kind == candidate.member.key.group_kind
                )
            )
        ]
        yield candidate.member.key, [*users_of(candidate.member.key), *possible_keys]


def _is_existing_parent(set_plan: ApplySetPlan) -> bool:
    """Return whether the live instance already is a parent, so that the nodes do not wait for the instance's object."""
    return set_plan.parent is not None and bool(label(set_plan.parent, well_known.PARENT_ID))


def _barrier_waits(
    full_plan: Plan, barriers: Mapping[ObjectKey, Barrier], stopped: Collection[ObjectKey]
) -> Iterator[tuple[ObjectKey, list[ObjectKey]]]:
    """Yield each node behind a barrier with the nodes of earlier levels that hold the node.

    With `Barrier.ALL`, a node waits for all nodes of earlier levels. With any other barrier, a node waits only for
    earlier nodes that failed or wait for values. A node at a closed gate holds only its own descendants (S0-26).
    """
    for set_plan in full_plan.sets:
        barrier, earlier_keys = barriers.get(set_plan.rendered.parent), list[ObjectKey]()
        nodes = sorted((node_plan.node for node_plan in set_plan.nodes if barrier), key=attrgetter("level"))
        for _, level in groupby(nodes, key=attrgetter("level")):
            level_keys = [_object_key(set_plan, node) for node in level]
            blocking_keys = earlier_keys if barrier is Barrier.ALL else [key for key in earlier_keys if key in stopped]
            yield from ((key, blocking_keys) for key in level_keys)
            earlier_keys = earlier_keys + level_keys


def _dependency_obstacle(blockers: Sequence[PlannedChange]) -> Obstacle:
    """Return the obstacle for the blocker with the latest end. A blocker without a known end counts as the earliest."""
    latest = max(blockers, key=lambda blocker: blocker.until.timestamp() if blocker.until else 0.0)
    name = latest.node or latest.ref
    is_unplanned = latest.action is PlannedAction.UNKNOWN
    detail = f" ({latest.message})" if is_unplanned and latest.message else ""
    return Obstacle(
        Reason.DEPENDENCY_NOT_READY, f"waits for {name}{detail}", name, latest.until, is_unplanned=is_unplanned
    )
