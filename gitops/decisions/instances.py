"""Sets of instances as queries: each declared instance with all instances nested in it.

A declared instance and the instances nested in it are one family. If two families nest one instance, the family has it
whose declaration comes first in the order of the sources. A declaration takes precedence over nesting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gitops.decisions import definitions, resources
from gitops.decisions.definitions import definition_at, installed_definition, sources
from gitops.decisions.resources import applied_snapshot, current_definition, declared, declared_instance
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from renderer.catalog.file_content import DeclaredObject
from renderer.definition.compile import Definition
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, is_same
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.instances import InstanceOwner, InstanceRenderer, InstanceRendering
from renderer.render.model import RenderedApplySet, RenderedNode
from renderer.render.order import declared_node
from renderer.render.revisions import AppliedSnapshot
from renderer.schema import SchemaMistake


class Root(NamedTuple):
    """Instance that a source wants."""

    source: str
    key: ObjectKey


class SourceHold(NamedTuple):
    """Reason why a source holds an instance, for example because two files declare the instance."""

    reason: str
    manifest: Manifest
    owner: InstanceOwner


roots: Final[Input[[], frozenset[Root]]] = Input("roots", initial=frozenset(), starts_unread=True)
"""Instances that the sources want, including instances that a source holds."""

source_hold: Final[Input[[Root], SourceHold | None]] = Input("source_hold", initial=None, starts_unread=False)
"""Hold of an instance, or None. The graph renders a held instance from its applied snapshot."""

placement: Final[Input[[ObjectKey], RevisionPlacement]] = Input(
    "placement", initial=RevisionPlacement(), starts_unread=False
)
"""Revisions that the rollout gives to an instance."""

is_gated: Final[Input[[ObjectKey], bool]] = Input("is_gated", initial=False, starts_unread=False)
"""Whether an instance waits at a gate, so that its applied snapshot is rendered as well."""


@query
def _snapshot_kinds(graph: QueryGraph, instance: ObjectKey) -> Mapping[GroupKind, None]:
    return {instance.group_kind: None} if applied_snapshot(graph, instance) else {}


class _Count:
    """Number of the members of an entry."""

    def __init__(self) -> None:
        self.members = 0

    def __bool__(self) -> bool:
        return self.members > 0

    def add(self, member: ObjectKey, contribution: None) -> None:
        self.members += 1

    def remove(self, member: ObjectKey, contribution: None) -> None:
        self.members -= 1


_snapshots: Final[QueryIndex[ObjectKey, GroupKind, None, _Count]] = QueryIndex(
    "_snapshots",
    order=1,
    members=applied_snapshot,
    contributions=_snapshot_kinds,
    new_entry=_Count,
    spreads_unread=False,
)
"""Number of instances with an applied snapshot, by kind."""


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
        and list(before.sets) == list(after.sets)
        and all(map(_is_same_set, before.sets.values(), after.sets.values()))
    )


def _is_same_set(before: RenderedApplySet, after: RenderedApplySet) -> bool:
    """Return whether two equal sets are equal in each JSON value. To Python, `1` and `True` are equal."""
    return before is after or (
        is_same([before.manifest, before.status], [after.manifest, after.status])
        and all(is_same(old.manifest, new.manifest) for old, new in zip(before.nodes, after.nodes, strict=True))
    )


@query
def _all_roots(graph: QueryGraph) -> frozenset[Root]:
    return roots(graph)


@query(same=_is_same_family)
def family(graph: QueryGraph, root: Root) -> InstanceFamily:
    """Return the sets of a declared instance and of all instances nested in it."""
    renderer = InstanceRenderer(_Inputs(graph))
    if hold := source_hold(graph, root):
        renderer.hold(root.key, hold.reason, hold.manifest, hold.owner)
        return InstanceFamily(renderer.sets, None, tuple(renderer.problems))
    found = declared(graph, *root)
    if found is None:
        return InstanceFamily({}, None, ())
    node = declared_node(found, namespaced=bool(root.key.namespace))
    if reason := renderer.undefined(root.key.group_kind):
        owner = InstanceOwner.of_source(root.source)
        renderer.hold(root.key, found.origin.prefixed(reason), node.manifest, owner)
        return InstanceFamily(renderer.sets, replace(node, error=node.error or reason), tuple(renderer.problems))
    node = renderer.declared(root.source, found, node.manifest, root.key)
    return InstanceFamily(renderer.sets, node, tuple(renderer.problems))


class FamilyClaim(NamedTuple):
    """Rank of a family among those that have a set of one instance, the lowest first."""

    is_nested: bool
    source_position: int
    file: str
    line: int


@query
def _claims(graph: QueryGraph, root: Root) -> Mapping[ObjectKey, FamilyClaim]:
    """Return the claim of a family to each of its sets."""
    found = declared(graph, *root)
    file, line = (found.origin.file, found.origin.line) if found else ("", 0)
    position = sources(graph).index(root.source)
    return {key: FamilyClaim(key != root.key, position, file, line) for key in family(graph, root).sets}


_claimed: Final[QueryIndex[Root, ObjectKey, FamilyClaim, Contributions[Root, FamilyClaim]]] = QueryIndex(
    "_claimed",
    order=2,
    members=_all_roots,
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


@query(same=lambda before, after: before == after and (before is None or _is_same_set(before, after)))
def instance_set(graph: QueryGraph, instance: ObjectKey) -> RenderedApplySet | None:
    """Return the set of an instance, or None if no source wants the instance."""
    root = owning_root(graph, instance)
    return family(graph, root).sets.get(instance) if root else None


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
        return found or (manifest, ())

    def resolve(self, rendering: InstanceRendering, definition: Definition, manifest: Manifest) -> RenderedApplySet:
        return resources.rendered_set(self._graph, rendering)
