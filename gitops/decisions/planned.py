"""Sets to plan as queries: the wanted sets, unwanted live instances, and lost instances whose members are left.

Ownership of what is live is followed from a member to a wanted set, because labels of people can form a circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from applier.applyset.inventory import Scope
from applier.state.observed import label
from gitops.decisions import live
from gitops.decisions.definitions import planned_source_names, planned_sources
from gitops.decisions.instances import is_wanted, leaving_set
from gitops.decisions.wanted import wanted_instances, wanted_parent, wanted_set
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from renderer import well_known
from renderer.identity import ObjectKey, applyset_id, source_parent
from renderer.render.model import RenderedApplySet, is_same_set


class RecordedScope(NamedTuple):
    """Scope of a set in the record of a source."""

    scope: Scope
    source: str


recorded_scope: Final[Input[[ObjectKey], RecordedScope | None]] = Input(
    "recorded_scope", initial=None, starts_unread=False
)
"""Scope that a source records for the set of a parent, or None. Even if the parent is missing, the scope leads to the
members.
"""


@query
def _scope_entries(graph: QueryGraph, parent: ObjectKey) -> Mapping[str | None, None]:
    return {applyset_id(parent): None, None: None} if recorded_scope(graph, parent) else {}


_recorded: Final[QueryIndex[ObjectKey, str | None, None, Contributions[ObjectKey, None]]] = QueryIndex(
    "_recorded",
    order=1,
    members=recorded_scope,
    contributions=_scope_entries,
    new_entry=Contributions[ObjectKey, None],
    spreads_unread=False,
)
"""Parents with a recorded scope, by the id of the set, and all of them under None."""


@query
def holding_parent(graph: QueryGraph, key: ObjectKey) -> ObjectKey | None:
    """Return the parent of the set that has a live object as a member, or None if no set to plan has it."""
    holder = current = _labelled_parent(graph, key)
    visited = {key}
    while current and current not in visited and not _is_wanted_parent(graph, current):
        visited.add(current)
        current = _labelled_parent(graph, current)
    return holder if current and current not in visited else None


def _labelled_parent(graph: QueryGraph, key: ObjectKey) -> ObjectKey | None:
    """Return the parent of the set that a label of a live object names, or None."""
    obj = live.live(graph, key)
    set_id = label(obj, well_known.PART_OF) if obj else ""
    return (wanted_parent(graph, set_id) or live.identified_parent(graph, set_id)) if set_id else None


def _is_wanted_parent(graph: QueryGraph, parent: ObjectKey) -> bool:
    return wanted_parent(graph, applyset_id(parent)) is not None


@query(same=is_same_set)
def unwanted_set(graph: QueryGraph, instance: ObjectKey) -> RenderedApplySet | None:
    """Return the set, without nodes, of a live instance that neither Git nor its parent wants, or None."""
    obj = live.live(graph, instance)
    if obj is None or not label(obj, well_known.PARENT_ID) or is_wanted(graph, instance):
        return None
    if holding_parent(graph, instance) is None:
        return None
    last = leaving_set(graph, instance)
    return replace(last, nodes=(), applied_rendering=last) if last else RenderedApplySet(parent=instance)


@query(same=is_same_set)
def lost_set(graph: QueryGraph, instance: ObjectKey) -> RenderedApplySet | None:
    """Return the set, without nodes, of an unwanted instance that is missing although members are left, or None."""
    recorded = recorded_scope(graph, instance)
    if recorded is None or recorded.source not in planned_source_names(graph) or is_wanted(graph, instance):
        return None
    if live.live(graph, instance) is not None or not live.members_of(graph, applyset_id(instance)):
        return None
    applied = leaving_set(graph, instance)
    return RenderedApplySet(parent=instance, source=recorded.source, applied_rendering=applied)


def planned_set(graph: QueryGraph, parent: ObjectKey) -> RenderedApplySet | None:
    """Return the set of a parent, wanted or not, or None if there is nothing to plan for it."""
    return wanted_set(graph, parent) or unwanted_set(graph, parent) or lost_set(graph, parent)


@query
def lost_instances(graph: QueryGraph) -> tuple[ObjectKey, ...]:
    """Return the keys of the instances with a lost set, sorted."""
    return tuple(key for key in sorted(_recorded(graph, None)) if lost_set(graph, key))


@query
def planned_parents(graph: QueryGraph) -> tuple[ObjectKey, ...]:
    """Return the parents of all sets to plan. An owner comes before the sets of its members."""
    wanted = (*map(source_parent, planned_sources(graph)), *wanted_instances(graph))
    unwanted: dict[ObjectKey | None, list[ObjectKey]] = {}
    for key in sorted(live.all_parents(graph)):
        if unwanted_set(graph, key):
            unwanted.setdefault(holding_parent(graph, key), []).append(key)
    found, position = list(wanted), 0
    while unwanted and position < len(found):
        found += unwanted.pop(found[position], [])
        position += 1
    return (*found, *lost_instances(graph))


@query
def planned_parent(graph: QueryGraph, set_id: str) -> ObjectKey | None:
    """Return the parent of the set to plan with an id, or None."""
    if found := wanted_parent(graph, set_id):
        return found
    candidates = (live.identified_parent(graph, set_id), *_recorded(graph, set_id))
    return next((key for key in candidates if key and planned_set(graph, key)), None)
