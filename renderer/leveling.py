"""The nodes of one instance, put in order: each object once, in levels of dependency, written and implied edges together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from renderer import graph, implied
from renderer.identity import ObjectKey
from renderer.model import RenderedNode


def unique(nodes: Mapping[str, RenderedNode]) -> dict[str, RenderedNode]:
    """Nodes that are one and the same object are all in error: which of them would be right nobody can tell."""
    same: dict[ObjectKey, list[str]] = {}
    for node in nodes.values():
        if node.key and not node.external:
            same.setdefault(node.key, []).append(node.id)
    found = dict(nodes)
    for key, ids in same.items():
        if len(ids) > 1:
            listed = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
            error = f"identity collision: {listed} are all {key}; give each a name of its own"
            found |= {name: replace(nodes[name], error=nodes[name].error or error) for name in ids}
    return found


def in_levels(nodes: Mapping[str, RenderedNode]) -> tuple[RenderedNode, ...]:
    """Nodes with their implied edges (namespace, CRD, RBAC, references) beside those of expressions, in order of level.

    Where the two contradict one another, expressions win: an implied edge that would close a circle is left out.
    """
    by_key = {node.key: node.id for node in nodes.values() if node.key}
    providers = implied.crd_providers(
        (node.key, node.manifest) for node in nodes.values() if node.key and not node.waiting
    )
    parents = {node.id: [name for name in node.depends_on if name in nodes] for node in nodes.values()}
    for node in nodes.values():
        if node.key is None:
            continue
        for key in implied.edges(node.manifest, node.key, providers):
            parent = by_key.get(key, node.id)
            if (
                parent != node.id
                and parent not in parents[node.id]
                and node.id not in graph.ancestors(parents, [parent])
            ):
                parents[node.id].append(parent)
    return tuple(
        replace(nodes[name], level=level, depends_on=tuple(parents[name]))
        for level, names in enumerate(graph.levels(parents))
        for name in names
    )
