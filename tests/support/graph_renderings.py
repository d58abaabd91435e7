"""Renderings of all sources in a graph, compared with renderings from scratch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gitops.decisions import declarations, definitions, instances, source_sets
from gitops.decisions.declarations import Root
from gitops.queries import QueryGraph, Roots, query
from renderer.render.model import RenderedApplySet, Rendering, is_same_set
from tests.support.graph_inputs import changed


@query
def all_sets(graph: QueryGraph, root: Root) -> tuple[RenderedApplySet | None, ...]:
    return tuple(instances.instance_set(graph, key) for key in instances.family(graph, root).sets)


@query
def all_sources(graph: QueryGraph) -> frozenset[str]:
    return frozenset(definitions.sources(graph))


@query
def source_result(graph: QueryGraph, source: str) -> tuple[Any, ...]:
    return source_sets.source_set(graph, source), source_sets.problems(graph), source_sets.new_revisions(graph)


FAMILIES = Roots("families", members=declarations.instance_roots, result=all_sets)
SOURCES = Roots("sources", members=all_sources, result=source_result)


def settle(graph: QueryGraph) -> None:
    """Bring all renderings up to date. Raises: Fault of a query."""
    changed(graph, FAMILIES)
    changed(graph, SOURCES)


def assert_renders(graph: QueryGraph, expected: Rendering) -> None:
    """Assert that the graph has the sets, mistakes and new revisions of a rendering from scratch."""
    settle(graph)
    found = {key: instances.instance_set(graph, key) for key in expected.instances}
    assert all(is_same_set(found[key], expected.instances[key]) for key in found)
    families = (instances.family(graph, root).sets for root in declarations.instance_roots(graph))
    assert {key for sets in (*families, instances.kept_sets(graph)) for key in sets} == found.keys()
    for source in expected.sources:
        rendered = source_sets.source_set(graph, source)
        wanted = replace(expected.sources[source], is_applied=False)
        assert is_same_set(rendered, wanted)
        assert [node.id for node in rendered.nodes] == [node.id for node in wanted.nodes]
    assert source_sets.problems(graph) == expected.problems
    assert source_sets.new_revisions(graph) == expected.issued
