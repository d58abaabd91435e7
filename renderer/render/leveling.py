"""The nodes of one instance, put in order: each object once, in levels of dependency, written and implied edges together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from renderer.graph import implied_edges, levels
from renderer.identity import ObjectKey
from renderer.phrasing import join_names
from renderer.render.model import RenderedNode


def unique(nodes: Mapping[str, RenderedNode]) -> dict[str, RenderedNode]:
    """Nodes that are one and the same object are all in error: which of them would be right nobody can tell."""
    same: dict[ObjectKey, list[str]] = {}
    for node in nodes.values():
        if node.key and not node.external:
            same.setdefault(node.key, []).append(node.id)
    found = dict(nodes)
    for key, ids in same.items():
        if len(ids) > 1:
            error = f"identity collision: {join_names(ids)} are all {key}; give each a name of its own"
            found |= {name: replace(nodes[name], error=nodes[name].error or error) for name in ids}
    return found


def in_levels(nodes: Mapping[str, RenderedNode]) -> tuple[RenderedNode, ...]:
    """Nodes with their implied edges (namespace, CRD, RBAC, references) beside those of expressions, in order of level.

    Where the two contradict one another, expressions win: an implied edge that would close a circle is left out.
    """
    by_key = {node.key: node.id for node in nodes.values() if node.key}
    neighbours = implied_edges.ImpliedEdgeIndex.from_manifests(
        (node.key, node.manifest) for node in nodes.values() if node.key and not node.waiting
    )
    parents = {node.id: [name for name in node.depends_on if name in nodes] for node in nodes.values()}
    healthy: dict[str, frozenset[str]] = {}
    for node in nodes.values():
        if node.key is not None:
            found = (
                *implied_edges.edges(node.manifest, node.key, neighbours),
                *implied_edges.soft_edges(node.manifest, node.key, neighbours),
            )
            levels.add_unless_circular(parents, node.id, [by_key[key] for key in found if key in by_key])
            served = implied_edges.serving_workloads(node.manifest, node.key, neighbours)
            healthy[node.id] = frozenset(by_key[key] for key in served if key in by_key)
    return tuple(
        nodes[name].placed(level, tuple(parents[name]), healthy.get(name, frozenset()))
        for level, names in enumerate(levels.compute_levels(parents))
        for name in names
    )
