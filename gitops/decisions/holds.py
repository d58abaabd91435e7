"""Holds of people as queries. A hold on a source holds everything that the source has."""

from __future__ import annotations

from datetime import datetime

from applier.causes import Cause
from gitops.decisions.instances import is_wanted
from gitops.decisions.moments import recompute_at_edge
from gitops.decisions.people import (
    first_observed,
    instance_directives,
    is_planned_instance,
    object_directives,
    source_directives,
    source_of,
)
from gitops.decisions.plain_objects import hold_of_source
from gitops.decisions.rules import policy_of
from gitops.queries import QueryGraph, query
from gitops.rollouts.directives import Directives
from gitops.rollouts.policy import DEFAULT_POLICY, Policy
from renderer.identity import ObjectKey, source_parent


def _held_since(graph: QueryGraph, key: ObjectKey, directives: Directives, policy: Policy) -> datetime:
    """Return the time in UTC of the first observation of a hold, and ask again at the end of the hold."""
    since = first_observed(graph, key, "hold", directives.hold_reason)
    recompute_at_edge(graph, policy.hold_end(since, directives.hold_until))
    return since


@query
def source_hold(graph: QueryGraph, source: str) -> Cause | None:
    """Return the cause that holds a whole source, or None."""
    directives = source_directives(graph, source)
    if not directives.hold_reason:
        return None
    since = _held_since(graph, source_parent(source), directives, DEFAULT_POLICY)
    return hold_of_source(source, directives, graph.now, since)


def _active_hold(graph: QueryGraph, key: ObjectKey, directives: Directives, policy: Policy) -> Cause | None:
    """Return the cause of the hold of an object, or None if it has no hold or the hold has ended."""
    if not directives.hold_reason:
        return None
    return directives.active_hold(policy, graph.now, since=_held_since(graph, key, directives, policy))


@query
def own_hold(graph: QueryGraph, key: ObjectKey) -> Cause | None:
    """Return the cause that holds an instance or a plain object by a directive of its own, or None."""
    if not is_planned_instance(graph, key):
        return _active_hold(graph, key, object_directives(graph, key), DEFAULT_POLICY)
    if not is_wanted(graph, key):
        return _active_hold(graph, key, instance_directives(graph, key), DEFAULT_POLICY)
    policy = policy_of(graph, key)
    return _active_hold(graph, key, instance_directives(graph, key), policy) if isinstance(policy, Policy) else None


@query
def hold(graph: QueryGraph, key: ObjectKey) -> Cause | None:
    """Return the cause that holds an instance: its own hold, or that of its source. Return None if there is none."""
    return own_hold(graph, key) or source_hold(graph, source_of(graph, key))
