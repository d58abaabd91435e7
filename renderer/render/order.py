"""The order of a source's own objects: levels by implied edges, by `depends-on`, and by what the children of instances use."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import field, replace

from renderer.catalog.file_content import DeclaredObject, declared_key
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.graph import implied_edges
from renderer.graph.levels import CycleError, add_unless_circular, compute_levels
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

Uses = Mapping[ObjectKey, frozenset[tuple[GroupKind, str]]]
"""Of instances: kind and namespace of their children, nested ones too. The namespace is empty where there is none, or none yet."""


def uses_of(keys: Iterable[ObjectKey], instances: Mapping[ObjectKey, RenderedApplySet]) -> Uses:
    """What the children of those of `keys` use that are instances; `instances` are all that are rendered."""
    return {key: frozenset(_used(key, instances)) for key in keys if key in instances}


def _used(key: ObjectKey, instances: Mapping[ObjectKey, RenderedApplySet]) -> Iterator[tuple[GroupKind, str]]:
    seen, pending = {key}, [key]
    while pending:
        rendered = instances.get(pending.pop())
        for node in rendered.nodes if rendered else ():
            yield node.group_kind, node.key.namespace if node.key else ""
            if node.key and node.key not in seen:
                seen.add(node.key)
                pending.append(node.key)


@dataclass
class SourceOrder:
    """Levels the nodes of a source; `uses` are those of its instances. Mistakes of authors are collected in `problems`."""

    uses: Uses
    problems: list[Problem] = field(default_factory=list)

    def levelled(self, nodes: dict[ObjectKey, RenderedNode]) -> tuple[RenderedNode, ...]:
        """Nodes of a source with their implied edges, in order of level, inside a level by kind, namespace and name."""
        ordered = dict(sorted(nodes.items(), key=lambda item: item[0].by_kind))
        ids = {key: node.id for key, node in ordered.items()}
        neighbours = implied_edges.ImpliedEdgeIndex.from_manifests(
            (key, node.manifest) for key, node in ordered.items()
        )
        parents: dict[str, list[str]] = {}
        healthy: dict[str, frozenset[str]] = {}
        for key, node in ordered.items():
            wanted, errors = self._explicit(node, ordered)
            found = {
                *implied_edges.edges(node.manifest, key, neighbours),
                *self._needs_of_children(key, neighbours.crds),
                *wanted,
            } - {key}
            parents[node.id] = sorted(ids[other] for other in found if other in ids)
            served = implied_edges.serving_workloads(node.manifest, key, neighbours)
            healthy[node.id] = frozenset(ids[other] for other in (*wanted, *served) if other in ids)
            if errors and not node.error:
                ordered[key] = replace(node, error=errors)
        for key, node in ordered.items():
            add_unless_circular(parents, node.id, map(str, implied_edges.soft_edges(node.manifest, key, neighbours)))
        by_id = {node.id: node for node in ordered.values()}
        node_levels, circles = self._without_circles(parents, {name: node.origin for name, node in by_id.items()})
        return tuple(
            by_id[node_id].placed(level, tuple(parents[node_id]), healthy[node_id], circles.get(node_id, ""))
            for level, ids in enumerate(node_levels)
            for node_id in ids
        )

    def _explicit(self, node: RenderedNode, known: Container[ObjectKey]) -> tuple[list[ObjectKey], str]:
        """What the annotation `depends-on` names, and what is wrong with it."""
        try:
            wanted = implied_edges.parse_depends_on(node.manifest)
        except implied_edges.DependsOnError as error:
            return [], self._wrong(node, str(error))
        strangers = ", ".join(str(key) for key in wanted if key not in known)
        wrong = self._wrong(node, f"depends on {strangers}, which this source does not hold") if strangers else ""
        return wanted, wrong

    def _wrong(self, node: RenderedNode, message: str) -> str:
        self.problems.append(Problem(node.origin.file, node.origin.line, "metadata.annotations", message))
        return message

    def _needs_of_children(self, key: ObjectKey, providers: Mapping[GroupKind, ObjectKey]) -> Iterator[ObjectKey]:
        """Namespaces and CRDs that the children of an instance use, nested ones too: they come before it and go after it."""
        for kind, namespace in self.uses.get(key, ()):
            if namespace:
                yield ObjectKey("", "Namespace", "", namespace)
            if provider := providers.get(kind):
                yield provider

    def _without_circles(
        self, parents: dict[str, list[str]], origins: Mapping[str, SourceLocation]
    ) -> tuple[list[list[str]], dict[str, str]]:
        """Levels; nodes of a circle are reported, marked and lose the edges among one another, so that all others go on."""
        circles: dict[str, str] = {}
        while True:
            try:
                return compute_levels(parents), circles
            except CycleError as error:
                for node in error.path:
                    circles[node] = str(error)
                    parents[node] = [other for other in parents[node] if other not in error.path]
                origin = origins[error.path[0]]
                self.problems.append(Problem(origin.file, origin.line, "", str(error)))


def declared_node(declared: DeclaredObject, *, namespaced: bool) -> RenderedNode:
    """A declared object as a node of its source's set, in its namespace."""
    key = declared_key(declared, namespaced=namespaced)
    metadata = {name: value for name, value in declared.manifest["metadata"].items() if name != "namespace"}
    namespace_field = {"namespace": key.namespace} if namespaced else {}
    manifest = {**declared.manifest, "metadata": {**metadata, **namespace_field}}
    return source_node(manifest, key, declared.origin, error=declared.refused_reason)


def source_node(
    manifest: Manifest, key: ObjectKey, origin: SourceLocation, *, error: str = "", waiting: tuple[str, ...] = ()
) -> RenderedNode:
    """A node of a source's set, before its place in the order is known."""
    return RenderedNode(
        id=str(key),
        level=0,
        depends_on=(),
        group_kind=key.group_kind,
        manifest=manifest,
        key=key,
        waiting=waiting,
        error=error,
        origin=origin,
    )
