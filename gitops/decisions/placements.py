"""Places of instances as queries: the revision of each instance, and whether it waits for its turn.

The place follows from grants that are recorded, and from what the instance carries. So a decision that is not stored
yet moves no instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from applier.applyset.inventory import target_revision_of
from applier.state.observed import is_terminating
from gitops.decisions import live
from gitops.decisions.permissions import finishes_begun_instance, instance_verdict
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.resources import applied_snapshot
from gitops.decisions.rollout_items import rollout_item
from gitops.decisions.rollout_members import all_instances, membership, unruled_cause
from gitops.decisions.rollout_targets import completed_revision, wave_goal
from gitops.decisions.wanted import wanted_set
from gitops.queries import QueryGraph, Roots, query
from gitops.rollouts.state import TargetRevision
from renderer.identity import ObjectKey
from renderer.render.instance_cache import RevisionPlacement


@query
def carried_revision(graph: QueryGraph, instance: ObjectKey) -> int:
    """Return the number of the target revision that the live instance carries, or 0."""
    return target_revision_of(live.live(graph, instance))


@query
def _applied_revision(graph: QueryGraph, instance: ObjectKey) -> int:
    snapshot = applied_snapshot(graph, instance)
    return snapshot.revision if snapshot else 0


def _own_revision(graph: QueryGraph, instance: ObjectKey) -> int:
    """Return the number of the revision that an instance is at or moves to, or 0 for an instance that has not begun."""
    return granted_revision(graph, instance) or carried_revision(graph, instance) or _applied_revision(graph, instance)


def _target(graph: QueryGraph, instance: ObjectKey) -> TargetRevision | None:
    """Return the target of an instance, or None if no rollout decides about the instance."""
    member = membership(graph, instance)
    if member is None or unruled_cause(graph, instance):
        return None
    goal = wave_goal(graph, member.rollout, member.wave)
    return goal.target if goal else None


@query
def decided_placement(graph: QueryGraph, instance: ObjectKey) -> RevisionPlacement:
    """Return the revision from which an instance is rendered, and its target.

    Without a rollout that decides about the instance, the target is 0.
    """
    target = _target(graph, instance)
    return RevisionPlacement(_own_revision(graph, instance), target.revision if target else 0)


@query
def restated_revision(graph: QueryGraph, instance: ObjectKey) -> int:
    """Return the revision that an instance has to carry although no rollout grants it now, or 0.

    If a person makes an instance anew that has reached its target, the new object carries the target again. A deleted
    instance keeps the target that it carries.
    """
    item, target, obj = rollout_item(graph, instance), _target(graph, instance), live.live(graph, instance)
    if item is None or target is None or granted_revision(graph, instance):
        return 0
    carried = carried_revision(graph, instance)
    if carried:
        return carried if obj and is_terminating(obj) else 0
    return target.revision if item.updated and _applied_revision(graph, instance) == target.revision else 0


@query
def is_frozen(graph: QueryGraph, instance: ObjectKey) -> bool:
    """Return whether no change of the content of an instance may start, because the instance does not have its turn.

    An instance that waits for its turn is healed at the revision that it has. It is frozen if it is between revisions,
    and its earlier move must not go on.
    """
    if unruled_cause(graph, instance):
        return True
    item, rendered, member = rollout_item(graph, instance), wanted_set(graph, instance), membership(graph, instance)
    if item is None or rendered is None or member is None or item.granted:
        return False
    own, applied = _own_revision(graph, instance), rendered.applied
    if own:
        completed = completed_revision(graph, member.rollout)
        has_started = not applied and own == completed
        if item.updated or has_started or own in {applied, granted_revision(graph, instance)}:
            return False
    verdict = instance_verdict(graph, rendered)
    return verdict.is_open or not applied or not finishes_begun_instance(graph, rendered, verdict)


@query
def restated_revisions(graph: QueryGraph) -> Mapping[ObjectKey, int]:
    """Return the revisions that instances have to carry again, by instance."""
    found = ((key, restated_revision(graph, key)) for key in all_instances(graph))
    return {key: number for key, number in found if number}


PLACEMENTS: Final = Roots("placements", order=9, members=all_instances, result=decided_placement)
"""Placements of single instances."""
