"""Sets of the sources as queries: CRDs of definitions, plain objects and instances, in the order of their edges.

The order of a set depends only on what edges are made of, so that a changed object keeps the order of all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from gitops.decisions import definitions
from gitops.decisions.declarations import (
    Root,
    declared_keys,
    declared_object_node,
    declared_objects,
    declares,
    instance_roots,
    is_instance_kind,
)
from gitops.decisions.definitions import catalog, planned_source_names, source_commit, source_names
from gitops.decisions.instances import family, instance_set, kept_sets, made_twice
from gitops.decisions.live_view import Lookup
from gitops.decisions.resources import NodePlace
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from renderer import schema, well_known
from renderer.definition import crd
from renderer.errors import Problem
from renderer.graph.implied_edges import edge_inputs
from renderer.identity import GroupKind, Manifest, ObjectKey, is_same, source_parent
from renderer.kinds import CRD
from renderer.render.model import (
    BegunCommit,
    NewRevision,
    RenderedApplySet,
    RenderedNode,
    is_same_begun,
    is_same_node,
    is_same_set,
)
from renderer.render.order import SourceOrder, source_node, uses_of

Uses = frozenset[tuple[GroupKind, str]]
"""Kinds of an instance's objects, each with the namespace, or with an empty text."""


def _older_revisions(
    graph: QueryGraph, sets: Mapping[ObjectKey, RenderedApplySet]
) -> Mapping[tuple[GroupKind, int], ObjectKey]:
    """Return the first instance at each revision that is not the newest of its kind."""
    return {
        (key.group_kind, rendered.revision): key
        for key, rendered in reversed(list(sets.items()))
        if rendered.revision and rendered.revision != definitions.current_revision(graph, key.group_kind)
    }


@query
def _revisions_in_use(graph: QueryGraph, root: Root) -> Mapping[tuple[GroupKind, int], ObjectKey]:
    """Return an instance of a family for each revision that is not the newest of its kind."""
    return _older_revisions(graph, family(graph, root).sets)


@query
def _kept_revisions(graph: QueryGraph) -> Mapping[tuple[GroupKind, int], ObjectKey]:
    """Return an instance that an unreadable file may declare, for each revision that is not the newest of its kind."""
    return _older_revisions(graph, kept_sets(graph))


_in_use: Final[QueryIndex[Root, tuple[GroupKind, int], ObjectKey, Contributions[Root, ObjectKey]]] = QueryIndex(
    "_in_use",
    order=4,
    members=instance_roots,
    contributions=_revisions_in_use,
    new_entry=Contributions[Root, ObjectKey],
    spreads_unread=False,
)
"""Instances at revisions that are not the newest of their kind."""


def _users_of(graph: QueryGraph, kind: GroupKind, revision: int) -> list[ObjectKey]:
    """Return an instance of each family, and of the unreadable files, at a revision that is not the newest."""
    kept = _kept_revisions(graph).get((kind, revision))
    return [*_in_use(graph, (kind, revision)).values(), *([kept] if kept else [])]


class DefinitionCrd(NamedTuple):
    """CRD of a definition, as wide as the revisions need at which instances are."""

    node: RenderedNode
    problem: Problem | None


def _is_same_crd(before: DefinitionCrd | None, after: DefinitionCrd | None) -> bool:
    return before == after and (before is None or after is None or is_same_node(before.node, after.node))


@query(same=_is_same_crd)
def definition_crd(graph: QueryGraph, source: str, kind: GroupKind) -> DefinitionCrd | None:
    """Return the CRD of a definition, or None if the source does not own the kind."""
    found, content = definitions.definitions(graph), catalog(graph, source)
    if found.owners.get(kind) != source:
        return None
    origin = content.broken.get(kind) or content.definitions[kind].origin
    if why := found.held.get(kind) or found.refused.get(kind):
        error = f"the definition of {kind} {why}; its CRD stays as it is"
        return DefinitionCrd(source_node({}, crd.key_of(kind), origin, error=error), None)
    in_use = {
        revision.number: min(users)
        for revision in definitions.stored_revisions(graph, kind)
        if (users := _users_of(graph, kind, revision.number))
    }
    newest = found.current[kind]
    manifest, contradiction = _widened_crd(graph, kind, tuple(sorted(in_use)))
    node = source_node(manifest, crd.key_of(kind), origin)
    if not contradiction or newest.allows_breaking_changes:
        return DefinitionCrd(node, None)
    at = ", ".join(f"{key} is at revision {number}" for number, key in sorted(in_use.items()))
    advice = f'repair the instance, or allow it with the annotation {well_known.ALLOW_BREAKING}: "true"'
    error = f"no schema serves all revisions of {kind} in use ({contradiction}; {at}); {advice}"
    return DefinitionCrd(replace(node, error=error), Problem(origin.file, origin.line, "spec.schema", error))


@query(same=is_same)
def _widened_crd(graph: QueryGraph, kind: GroupKind, in_use: tuple[int, ...]) -> tuple[Manifest, str]:
    """Return the CRD that serves the newest revision and the revisions `in_use`, or the newest CRD and a reason."""
    newest = definitions.definitions(graph).current[kind]
    others = [found for number in in_use if (found := definitions.definition_at(graph, kind, number))]
    try:
        spec = schema.union([*(found.spec_schema for found in others if found is not newest), newest.spec_schema])
    except schema.NoUnionError as error:
        return newest.crd, str(error)
    return crd.with_spec_schema(newest.crd, spec), ""


@query(same=is_same_node)
def source_set_node(graph: QueryGraph, source: str, key: ObjectKey) -> RenderedNode | None:
    """Return a node of a source before its place in the order is known, or None if the source does not have it."""
    if found := _crd_of(graph, source, key):
        return found.node
    if is_instance_kind(graph, key.group_kind):
        return family(graph, Root(source, key)).node
    node = declared_object_node(graph, source, key)
    if node and len(declared_objects(graph, source, key)) == 1 and (both := made_twice(graph, source, key)):
        return replace(node, error=both.describe(key))
    return node


def _crd_of(graph: QueryGraph, source: str, key: ObjectKey) -> DefinitionCrd | None:
    kind = defined_crds(graph, source).get(key)
    return definition_crd(graph, source, kind) if kind else None


@query
def defined_crds(graph: QueryGraph, source: str) -> Mapping[ObjectKey, GroupKind]:
    """Return the kinds that a source owns, by the key of the CRD."""
    content, owners = catalog(graph, source), definitions.definitions(graph).owners
    defined = sorted({*content.definitions, *content.broken})
    return {crd.key_of(kind): kind for kind in defined if owners[kind] == source}


@query
def node_keys(graph: QueryGraph, source: str) -> tuple[ObjectKey, ...]:
    """Return the keys of all nodes of a source, in the order of kind, namespace, name and group."""
    keys = {*defined_crds(graph, source), *declared_keys(graph, source)}
    return tuple(sorted(keys, key=lambda key: key.by_kind))


def is_node(graph: QueryGraph, source: str, key: ObjectKey) -> bool:
    """Return whether a source has a node with a key."""
    return declares(graph, source, key) or (key.group_kind == CRD and key in defined_crds(graph, source))


@query
def keys_by_id(graph: QueryGraph, source: str) -> Mapping[str, ObjectKey]:
    """Return the keys of all nodes of a source, by id of the node."""
    return {str(key): key for key in node_keys(graph, source)}


class _OrderedNode(NamedTuple):
    """Node of a source in so far as the order of the source depends on the node."""

    node: RenderedNode

    def is_same(self, other: _OrderedNode) -> bool:
        before, after = self.node, other.node
        key = before.key
        return before is after or (
            key is not None
            and key == after.key
            and (before.origin, bool(before.error)) == (after.origin, bool(after.error))
            and edge_inputs(before.manifest, key) == edge_inputs(after.manifest, key)
        )


@query(
    same=lambda before, after: before is after or (before is not None and after is not None and before.is_same(after))
)
def _ordered_node(graph: QueryGraph, source: str, key: ObjectKey) -> _OrderedNode | None:
    node = source_set_node(graph, source, key)
    return _OrderedNode(node) if node else None


@query
def _uses(graph: QueryGraph, key: ObjectKey) -> Uses:
    """Return what the objects of an instance use, nested instances included."""

    def find_set(nested: ObjectKey) -> RenderedApplySet | None:
        # Most objects of an instance are no instances. They need no value of their own.
        return instance_set(graph, nested) if is_instance_kind(graph, nested.group_kind) else None

    return uses_of([key], Lookup(find_set, "instances")).get(key, frozenset())


class SourcePlaces(NamedTuple):
    """Order of the nodes of a source."""

    places: Mapping[str, NodePlace]
    """Places by the id of the node, in the order of the set."""
    problems: tuple[Problem, ...]


def _is_same_order(before: SourcePlaces, after: SourcePlaces) -> bool:
    return before == after and list(before.places) == list(after.places)


# An edge that an unread object adds begins at the node whose object is unread. That node is unread by itself.
@query(same=_is_same_order, hides_unread=True)
def source_places(graph: QueryGraph, source: str) -> SourcePlaces:
    """Return the order of the nodes of a source, as far as their objects are read."""
    nodes = {
        key: replace(found.node, error="")
        for key in node_keys(graph, source)
        if (found := _ordered_node(graph, source, key))
    }
    uses = {key: _uses(graph, key) for key in nodes if is_instance_kind(graph, key.group_kind)}
    order = SourceOrder(uses)
    return SourcePlaces({node.id: NodePlace.of(node) for node in order.levelled(nodes)}, tuple(order.problems))


class _PlacedAt(NamedTuple):
    """Entry of `_places`."""

    source: str
    node_id: str


@query
def _place_entries(graph: QueryGraph, source: str) -> Mapping[_PlacedAt, NodePlace]:
    return {_PlacedAt(source, node_id): place for node_id, place in source_places(graph, source).places.items()}


_places: Final[QueryIndex[str, _PlacedAt, NodePlace, Contributions[str, NodePlace]]] = QueryIndex(
    "_places",
    order=5,
    members=source_names,
    contributions=_place_entries,
    new_entry=Contributions[str, NodePlace],
    spreads_unread=False,
)
"""Places of the nodes of all sources. Through the index, a node whose place stays is not marked."""


def _place_of(graph: QueryGraph, source: str, node_id: str) -> NodePlace | None:
    """Return the place of a node, or None if the source has no such node. Raises: Fault of the order."""
    return _places.contribution_of(graph, source, _PlacedAt(source, node_id))


@query(same=is_same_node)
def placed_node(graph: QueryGraph, source: str, key: ObjectKey) -> RenderedNode | None:
    """Return a node of a source at its place in the order."""
    node = source_set_node(graph, source, key)
    place = _place_of(graph, source, node.id) if node else None
    return node.placed(*place) if node and place else None


class SourceProgress(NamedTuple):
    """Progress of a source's own objects toward the present commit."""

    is_applied: bool = False
    """True if the present commit was completely applied before."""
    applied_rendering: RenderedApplySet | None = None
    """Own objects after the last complete apply, or None."""
    begun: BegunCommit | None = None
    """Commit that has begun after the last complete apply, or None."""


def _is_same_progress(before: SourceProgress, after: SourceProgress) -> bool:
    return (
        before == after
        and is_same_set(before.applied_rendering, after.applied_rendering)
        and is_same_begun(before.begun, after.begun)
    )


source_progress: Final[Input[[str], SourceProgress]] = Input(
    "source_progress", initial=SourceProgress(), starts_unread=False, same=_is_same_progress
)
"""Progress of a source's own objects, from its record and from earlier commits."""

is_node_applied: Final[Input[[ObjectKey], bool | None]] = Input("is_node_applied", initial=None, starts_unread=False)
"""Whether the present content of an object of a source was applied before. None: see the progress of its source."""


@query(same=is_same_set)
def set_without_nodes(graph: QueryGraph, source: str) -> RenderedApplySet:
    """Return the set of a source without its nodes, for plans that depend on no other node."""
    problems = tuple(found for name, found in definitions.definitions(graph).problems if name == source)
    progress = source_progress(graph, source)._asdict()
    return RenderedApplySet(source_parent(source), source=source, problems=problems, **progress)


@query(same=is_same_set)
def source_set(graph: QueryGraph, source: str) -> RenderedApplySet:
    """Return the set of a source."""
    by_id = keys_by_id(graph, source)
    nodes = (placed_node(graph, source, by_id[name]) for name in source_places(graph, source).places)
    return replace(set_without_nodes(graph, source), nodes=tuple(node for node in nodes if node))


@query
def new_revisions(graph: QueryGraph) -> tuple[NewRevision, ...]:
    """Return the revisions that have to be stored before anything of them is written."""
    found = definitions.definitions(graph)
    new = ((kind, definition, found.owners[kind]) for kind, definition in sorted(found.new.items()))
    return tuple(
        NewRevision(
            kind, found.numbers[kind], definition.digest, definition.manifest, source, *source_commit(graph, source)
        )
        for kind, definition, source in new
    )


@query
def problems(graph: QueryGraph) -> tuple[Problem, ...]:
    """Return all mistakes of the planned sources in Git, sorted."""
    names = planned_source_names(graph)
    found = {problem for source, problem in definitions.definitions(graph).problems if source in names}
    for source in names:
        found.update(catalog(graph, source).problems, source_places(graph, source).problems)
        for key in node_keys(graph, source):
            node = source_set_node(graph, source, key)
            origins = declared_objects(graph, source, key)
            is_refused = len(origins) > 1 or made_twice(graph, source, key) is not None
            if node and is_refused:
                found |= {Problem(one.origin.file, one.origin.line, "", node.error) for one in origins}
            if (described := _crd_of(graph, source, key)) and described.problem:
                found.add(described.problem)
    for root in instance_roots(graph):
        if root.source in names:
            found.update(family(graph, root).problems)
    return tuple(sorted(found))
