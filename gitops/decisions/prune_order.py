"""Facts about all sets that the deletions of one set depend on, as queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from applier.applyset.member import Member, MembersByHash
from applier.cluster import Object
from applier.plan.prune_indexes import ObservedPruneIndexes, current_scope_of, is_listed, may_want
from applier.plan.prune_readers import ReadOrder
from applier.state.observed import label
from gitops.decisions import live
from gitops.decisions.instances import former_set
from gitops.decisions.live_view import LiveView, Lookup
from gitops.decisions.plan_inputs import constraints_of, foreign_sets
from gitops.decisions.planned import planned_parent, planned_parents, planned_set
from gitops.decisions.resources import applied_snapshot
from gitops.decisions.wanted import wanted_instances, wanted_readers, wanting_sets
from gitops.queries import Contributions, QueryGraph, QueryIndex, query
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, applyset_id, key_hash

FormerReads = Mapping[ObjectKey, frozenset[str]]
"""Hashes of the keys that members of a former instance read, by member."""


@query
def _former_reads(graph: QueryGraph, instance: ObjectKey) -> Mapping[None, FormerReads]:
    """Return what the members of an unwanted instance read by its applied snapshot."""
    former = former_set(graph, instance)
    return {None: former.member_reads} if former else {}


_former: Final[QueryIndex[ObjectKey, None, FormerReads, Contributions[ObjectKey, FormerReads]]] = QueryIndex(
    "_former",
    order=7,
    members=applied_snapshot,
    contributions=_former_reads,
    new_entry=Contributions[ObjectKey, FormerReads],
    spreads_unread=False,
)
"""What members of former instances read."""


@query
def _reads_of_departing(graph: QueryGraph, key: ObjectKey) -> Mapping[None, frozenset[str]]:
    """Return what a member reads that no set wants. Members that somebody wants contribute nothing."""
    obj = live.live(graph, key)
    if obj is None or wanting_sets(graph, key):
        return {}
    return {None: Member.from_object(obj).reads}


_departing: Final[QueryIndex[ObjectKey, None, frozenset[str], Contributions[ObjectKey, frozenset[str]]]] = QueryIndex(
    "_departing",
    order=7,
    members=live.reading_members,
    contributions=_reads_of_departing,
    new_entry=Contributions[ObjectKey, frozenset[str]],
    spreads_unread=False,
)
"""Unwanted members that read other objects."""


@query
def _read_order(graph: QueryGraph) -> ReadOrder | None:
    """Return the constraints that reads impose on the order of all deletions, or None if no reader is unwanted."""
    former = {key: reads for found in _former(graph, None).values() for key, reads in found.items()}
    if not (former or _departing(graph, None)):
        return None
    sets = {found.id: found for parent in planned_parents(graph) if (found := planned_set(graph, parent))}
    instances = frozenset(wanted_instances(graph))
    return ObservedPruneIndexes(
        LiveView(graph, graph.now), wanting_lookup(graph), sets, constraints_of(graph, {}), instances, former
    ).read_order


def wanting_lookup(graph: QueryGraph) -> Mapping[ObjectKey, Sequence[str]]:
    """Return the ids of the sets that want an object, by key of the object. Sets of foreign sources count last."""
    claims = foreign_sets(graph).claims

    def find(key: ObjectKey) -> Sequence[str] | None:
        return wanting_sets(graph, key) or ([applyset_id(claims[key])] if key in claims else None)

    return Lookup(find, "wanted objects")


@query
def _dependents(graph: QueryGraph, dependency: str) -> tuple[Member, ...]:
    """Return the members of all planned sets that must be gone before the object with a hash."""
    keys = live.dependent_members(graph, dependency)
    found = [Member.from_object(obj) for key in keys if (obj := live.live(graph, key)) and _is_planned(graph, obj)]
    order = _read_order(graph)
    readers = order.going_first.get(dependency, ()) if order else ()
    return (*found, *(reader for reader in readers if reader not in found))


def _is_planned(graph: QueryGraph, obj: Object) -> bool:
    return planned_parent(graph, label(obj, well_known.PART_OF)) is not None


@query
def _are_scopes_listed(graph: QueryGraph) -> bool:
    view = LiveView(graph, None)
    return all(is_listed(view, current_scope_of(live.live(graph, parent))) for parent in planned_parents(graph))


@dataclass(frozen=True, slots=True)
class GraphPruneIndexes:
    """Indexes of a graph. Implements `applier.plan.prune_indexes.PruneIndexes`."""

    graph: QueryGraph

    @property
    def dependents(self) -> MembersByHash:
        return Lookup(partial(_dependents, self.graph), "members")

    @property
    def going_first(self) -> MembersByHash:
        order = _read_order(self.graph)
        return order.going_first if order else {}

    def staying_readers(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the keys of the objects that stay and read the object `key`."""
        if order := _read_order(self.graph):
            return order.staying_readers(key)
        return tuple(sorted(wanted_readers(self.graph, key_hash(key)) - {key}))

    @property
    def are_scopes_listed(self) -> bool:
        return _are_scopes_listed(self.graph)

    def sets_that_may_want(self, instance: ObjectKey, source: str) -> Sequence[ObjectKey]:
        """Return the parents of the sets of `source` whose unrendered part may declare `instance`."""
        found = (planned_set(self.graph, parent) for parent in planned_parents(self.graph))
        return [one.parent for one in found if one and one.source == source and may_want(one, instance)]
