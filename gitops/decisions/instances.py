"""Sets of instances as queries: each declared instance with all instances nested in it.

A declared instance and the instances nested in it are one family. If two families nest one instance, the family has it
whose declaration comes first in the order of the sources. A declaration takes precedence over nesting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from applier.state.observed import annotation, label
from gitops.decisions import definitions, live, resources
from gitops.decisions.declarations import (
    Root,
    declared_object_node,
    declared_objects,
    declares_kind,
    instance_roots,
)
from gitops.decisions.definitions import catalog, definition_at, installed_definition, sources
from gitops.decisions.resources import applied_snapshot, current_definition, declared_instance
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from renderer import well_known
from renderer.catalog.file_content import DeclaredObject
from renderer.definition.compile import Definition
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id, source_parent
from renderer.render.duplicates import MadeTwice, refuse_made
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.instances import InstanceOwner, InstanceRenderer, InstanceRendering
from renderer.render.model import RenderedApplySet, RenderedNode, is_same_node, is_same_set
from renderer.render.revisions import AppliedSnapshot
from renderer.schema import SchemaMistake

placement: Final[Input[[ObjectKey], RevisionPlacement]] = Input(
    "placement", initial=RevisionPlacement(), starts_unread=False
)
"""Revisions that the rollout gives to an instance."""

is_gated: Final[Input[[ObjectKey], bool]] = Input("is_gated", initial=False, starts_unread=False)
"""Whether an instance waits at a gate, so that its applied snapshot is rendered as well."""


@query
def _snapshot_entries(graph: QueryGraph, instance: ObjectKey) -> Mapping[GroupKind | str, None]:
    snapshot = applied_snapshot(graph, instance)
    return {instance.group_kind: None, snapshot.source: None} if snapshot else {}


_snapshots: Final[QueryIndex[ObjectKey, GroupKind | str, None, Contributions[ObjectKey, None]]] = QueryIndex(
    "_snapshots",
    order=1,
    members=applied_snapshot,
    contributions=_snapshot_entries,
    new_entry=Contributions[ObjectKey, None],
    spreads_unread=False,
)
"""Instances with an applied snapshot, by kind, and by the name of the source of the snapshot."""


@query
def snapshot_owners(graph: QueryGraph, source: str) -> frozenset[ObjectKey]:
    """Return the instances whose applied snapshot names a source."""
    return frozenset(_snapshots(graph, source))


@query
def _has_snapshots(graph: QueryGraph, kind: GroupKind) -> bool:
    return bool(_snapshots(graph, kind))


@dataclass(frozen=True, slots=True)
class InstanceFamily:
    """Sets of a declared instance and of all instances nested in it."""

    sets: Mapping[ObjectKey, RenderedApplySet]
    node: RenderedNode | None
    """Node of the instance in the set of its source, or None for an instance that the source holds."""
    problems: tuple[Problem, ...]


def _is_same_family(before: InstanceFamily, after: InstanceFamily) -> bool:
    return (
        before == after
        and is_same_node(before.node, after.node)
        and list(before.sets) == list(after.sets)
        and all(map(is_same_set, before.sets.values(), after.sets.values()))
    )


@query(same=_is_same_family)
def _rendered_family(graph: QueryGraph, root: Root) -> InstanceFamily:
    """Return a family without regard to objects that an instance and its source both make."""
    renderer, found = InstanceRenderer(_Inputs(graph)), declared_objects(graph, *root)
    node = declared_object_node(graph, *root)
    if node is None:
        return InstanceFamily({}, None, ())
    if len(found) > 1:
        return _held_family(graph, root, node)
    if reason := renderer.undefined(root.key.group_kind):
        owner = InstanceOwner.of_source(root.source)
        renderer.hold(root.key, node.origin.prefixed(reason), node.manifest, owner)
        return InstanceFamily(renderer.sets, replace(node, error=node.error or reason), tuple(renderer.problems))
    node = renderer.declared(root.source, found[0], node.manifest, root.key)
    return InstanceFamily(renderer.sets, node, tuple(renderer.problems))


def _held_family(graph: QueryGraph, root: Root, node: RenderedNode) -> InstanceFamily:
    """Return the family of an instance that its source must not change, because `node` is in error."""
    renderer = InstanceRenderer(_Inputs(graph))
    renderer.hold(root.key, node.mistake, node.manifest, _holder(graph, root))
    return InstanceFamily(renderer.sets, node, tuple(renderer.problems))


def _holder(graph: QueryGraph, root: Root) -> InstanceOwner:
    """Return the owner of an instance in error: the instance that makes it as well and has it, or the source."""
    found, obj = made_twice(graph, *root), live.live_object(graph, root.key)
    if found and obj and label(obj, well_known.PART_OF) == applyset_id(found.maker):
        return InstanceOwner(root.source, found.maker)
    return InstanceOwner.of_source(root.source)


class _Making(NamedTuple):
    """Set of an instance that makes an object."""

    maker: ObjectKey
    origin: SourceLocation


@query
def _makings(graph: QueryGraph, root: Root) -> Mapping[tuple[str, ObjectKey], _Making]:
    """Return the objects of a family of whose kinds its source declares objects.

    If a set is held, or not at its target revision, nobody knows whether the instance goes on to want the object.
    """
    return {
        (root.source, node.key): _Making(rendered.parent, node.origin)
        for rendered in _rendered_family(graph, root).sets.values()
        if not (rendered.error or rendered.held_reason) and rendered.revision == rendered.target_revision
        for node in rendered.nodes
        if node.key and not node.external and declares_kind(graph, root.source, node.group_kind)
    }


_made: Final[QueryIndex[Root, tuple[str, ObjectKey], _Making, Contributions[Root, _Making]]] = QueryIndex(
    "_made",
    order=3,
    members=instance_roots,
    contributions=_makings,
    new_entry=Contributions[Root, _Making],
    spreads_unread=False,
)
"""Objects that instances make and of whose kinds their source declares objects."""


def prepare(graph: QueryGraph) -> None:
    """Render instances one at a time from the start, and not all at once when the first one is asked for."""
    graph.prepare(_made)


@query
def made_twice(graph: QueryGraph, source: str, key: ObjectKey) -> MadeTwice | None:
    """Return the instance that makes an object which its source declares as well, or None."""
    if not declares_kind(graph, source, key.group_kind):
        return None
    found, makings = declared_objects(graph, source, key), _made(graph, (source, key))
    if not found or not makings:
        return None
    maker, origin = makings[max(makings)]
    return MadeTwice(found[0].origin, maker, origin)


@query(same=_is_same_family)
def family(graph: QueryGraph, root: Root) -> InstanceFamily:
    """Return the sets of a declared instance and of all instances nested in it."""
    found = _rendered_family(graph, root)
    if found.node and len(declared_objects(graph, *root)) == 1 and (both := made_twice(graph, *root)):
        node = declared_object_node(graph, *root)
        return _held_family(graph, root, replace(node, error=both.describe(root.key))) if node else found
    keys = {
        node.key
        for rendered in found.sets.values()
        for node in rendered.nodes
        if node.key and not node.external and declares_kind(graph, root.source, node.group_kind)
    }
    refused = {key: both for key in keys if (both := made_twice(graph, root.source, key))}
    if not refused:
        return found
    return replace(found, sets={key: refuse_made(rendered, refused) for key, rendered in found.sets.items()})


class FamilyClaim(NamedTuple):
    """Rank of a family among those that have a set of one instance, the lowest first."""

    is_nested: bool
    source_position: int
    file: str
    line: int


@query
def _claims(graph: QueryGraph, root: Root) -> Mapping[ObjectKey, FamilyClaim]:
    """Return the claim of a family to each of its sets."""
    node, position = declared_object_node(graph, *root), sources(graph).index(root.source)
    file, line = (node.origin.file, node.origin.line) if node else ("", 0)
    return {key: FamilyClaim(key != root.key, position, file, line) for key in family(graph, root).sets}


_claimed: Final[QueryIndex[Root, ObjectKey, FamilyClaim, Contributions[Root, FamilyClaim]]] = QueryIndex(
    "_claimed",
    order=4,
    members=instance_roots,
    contributions=_claims,
    new_entry=Contributions[Root, FamilyClaim],
    spreads_unread=False,
)
"""Claims of families, by instance."""


@query
def owning_root(graph: QueryGraph, instance: ObjectKey) -> Root | None:
    """Return the root of the family that has the set of an instance, or None if no source wants the instance."""
    claims = _claimed(graph, instance)
    return min(claims, key=lambda root: (claims[root], root), default=None)


@query
def _kept_reasons(graph: QueryGraph, source: str) -> Mapping[ObjectKey, str]:
    """Return the unwanted instances that a file may declare which is unreadable, or lies in an unreadable folder."""
    content = catalog(graph, source)
    unreadable = content.unreadable_files
    if not unreadable:
        return {}
    protection, set_id, found = content.protection, applyset_id(source_parent(source)), dict[ObjectKey, str]()
    for key in sorted(_snapshots(graph, source)):
        obj = live.live_object(graph, key)
        if obj is None or label(obj, well_known.PART_OF) != set_id or owning_root(graph, key) is not None:
            continue
        file = annotation(obj, well_known.SOURCE_FILE)
        if protection.protects(file):
            why = f"its file {file} cannot be read" if file in unreadable else f"its file {file} is gone"
            found[key] = f"{why}; the instance stays as it is"
    return found


@query
def kept_sets(graph: QueryGraph) -> Mapping[ObjectKey, RenderedApplySet]:
    """Return the sets of instances that unreadable files may declare, as they were last applied."""
    renderer = InstanceRenderer(_Inputs(graph))
    for source in sources(graph):
        for key, reason in _kept_reasons(graph, source).items():
            renderer.hold(key, reason, {}, InstanceOwner.of_source(source))
    return renderer.sets


@query(same=is_same_set)
def instance_set(graph: QueryGraph, instance: ObjectKey) -> RenderedApplySet | None:
    """Return the set of an instance, or None if no source wants the instance."""
    root = owning_root(graph, instance)
    return family(graph, root).sets.get(instance) if root else kept_sets(graph).get(instance)


@query
def is_wanted(graph: QueryGraph, instance: ObjectKey) -> bool:
    """Return whether the sources want an instance, or may want it although a file cannot be read."""
    return owning_root(graph, instance) is not None or instance in kept_sets(graph)


@query(same=is_same_set)
def leaving_set(graph: QueryGraph, instance: ObjectKey) -> RenderedApplySet | None:
    """Return the set of an unwanted instance that waits at a gate, as the set was applied, or None."""
    snapshot = applied_snapshot(graph, instance) if is_gated(graph, instance) else None
    if snapshot is None or is_wanted(graph, instance):
        return None
    return InstanceRenderer(_Inputs(graph)).before(instance, InstanceOwner.of_source(snapshot.source))


@query(same=is_same_set)
def former_set(graph: QueryGraph, instance: ObjectKey) -> RenderedApplySet | None:
    """Return the set of an unwanted live instance that reads other objects, as the set was applied, or None."""
    renderer, snapshot = InstanceRenderer(_Inputs(graph)), applied_snapshot(graph, instance)
    if snapshot is None or snapshot.source not in sources(graph) or not renderer.has_references(instance):
        return None
    if live.live(graph, instance) is None or is_wanted(graph, instance):
        return None
    return renderer.before(instance, InstanceOwner.of_source(snapshot.source))


class _Inputs:
    """Inputs of the renderer of instances from a graph. Implements `renderer.render.instances.RenderInputs`."""

    def __init__(self, graph: QueryGraph) -> None:
        self._graph = graph

    def current(self, kind: GroupKind) -> Definition | None:
        return current_definition(self._graph, kind)

    def newest(self, kind: GroupKind) -> int:
        return definitions.current_revision(self._graph, kind)

    def definition_at(self, kind: GroupKind, number: int) -> Definition | None:
        return definition_at(self._graph, kind, number)

    def held_reason(self, kind: GroupKind) -> str:
        return definitions.held_reason(self._graph, kind)

    def installed_name(self, kind: GroupKind) -> str:
        return installed_definition(self._graph, kind)[0]

    def placement(self, instance: ObjectKey) -> RevisionPlacement:
        return placement(self._graph, instance)

    def applied(self, instance: ObjectKey) -> AppliedSnapshot | None:
        # Most objects of an instance have a kind without snapshots. One value for the kind serves them all.
        has_snapshots = _has_snapshots(self._graph, instance.group_kind)
        return applied_snapshot(self._graph, instance) if has_snapshots else None

    def is_gated(self, instance: ObjectKey) -> bool:
        return is_gated(self._graph, instance)

    def read_record(self, record: str) -> None:
        definitions.read_record(self._graph, record)

    def with_defaults(
        self, rendering: InstanceRendering, definition: Definition, declared: DeclaredObject, manifest: Manifest
    ) -> tuple[Manifest, Sequence[SchemaMistake]]:
        found = declared_instance(self._graph, rendering.owner.source, rendering.instance, rendering.revision)
        if found is None:
            raise LookupError(f"{rendering.instance} has no content at revision {rendering.revision}")
        return found

    def resolve(self, rendering: InstanceRendering, definition: Definition, manifest: Manifest) -> RenderedApplySet:
        return resources.rendered_set(self._graph, rendering)
