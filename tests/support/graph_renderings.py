"""Renderings of all sources, and states of all nodes, in a graph, compared with those from scratch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from applier.plan.comparison import compare_with_live
from applier.plan.constraints import PlanConstraints
from applier.plan.node_state import NodeState, NodeStateReader
from applier.state.observed_view import ObservedView
from gitops.decisions import declarations, definitions, instances, source_sets, wanted
from gitops.decisions.declarations import Root
from gitops.decisions.node_states import SetPlace, SetRendering, node_state, set_at
from gitops.queries import QueryGraph, Roots, query
from renderer.render.model import RenderedApplySet, Rendering, is_same_set
from tests.support.graph_inputs import changed
from tests.support.reference_plan import ObservedNodeStates, index_wanting_sets


@query
def all_sets(graph: QueryGraph, root: Root) -> tuple[RenderedApplySet | None, ...]:
    return tuple(instances.instance_set(graph, key) for key in instances.family(graph, root).sets)


@query
def all_sources(graph: QueryGraph) -> frozenset[str]:
    return frozenset(definitions.sources(graph))


@query
def source_result(graph: QueryGraph, source: str) -> tuple[Any, ...]:
    return source_sets.source_set(graph, source), source_sets.problems(graph), source_sets.new_revisions(graph)


def states_of(graph: QueryGraph, place: SetPlace) -> tuple[NodeState | None, ...]:
    """Return the states of all nodes of a set in a graph."""
    found = set_at(graph, place)
    return tuple(node_state(graph, place, node.id) for node in found.nodes) if found else ()


@query
def family_states(graph: QueryGraph, root: Root) -> tuple[tuple[NodeState | None, ...], ...]:
    places = (SetPlace("", key, rendering) for key in instances.family(graph, root).sets for rendering in SetRendering)
    return tuple(states_of(graph, place) for place in places)


@query
def source_states(graph: QueryGraph, source: str) -> tuple[NodeState | None, ...]:
    return states_of(graph, SetPlace.of_source(source))


FAMILIES = Roots("families", order=99, members=declarations.instance_roots, result=all_sets)
SOURCES = Roots("sources", order=99, members=all_sources, result=source_result)
FAMILY_STATES = Roots("family states", order=99, members=declarations.instance_roots, result=family_states)
SOURCE_STATES = Roots("source states", order=99, members=all_sources, result=source_states)


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
        # The progress of a source is an input, and is not rendered.
        unmoved = source_sets.SourceProgress()._asdict()
        rendered = replace(source_sets.source_set(graph, source), **unmoved)
        whole = replace(expected.sources[source], **unmoved)
        assert is_same_set(rendered, whole)
        assert [node.id for node in rendered.nodes] == [node.id for node in whole.nodes]
    for key, rendered in (*expected.leaving.items(), *expected.former.items()):
        former = instances.leaving_set if key in expected.leaving else instances.former_set
        assert is_same_set(former(graph, key), rendered)
    wanting = index_wanting_sets(expected)
    assert {key: list(wanted.wanting_sets(graph, key)) for key in wanting} == wanting
    reading = {key: reads for rendered in expected.sets for key, reads in rendered.member_reads.items()}
    for read in {read for reads in reading.values() for read in reads}:
        assert wanted.wanted_readers(graph, read) == {key for key, reads in reading.items() if read in reads}
    assert all(wanted.wanted_parent(graph, rendered.id) == rendered.parent for rendered in expected.sets)
    assert source_sets.problems(graph) == expected.problems
    assert source_sets.new_revisions(graph) == expected.issued


def assert_states(graph: QueryGraph, expected: Rendering, observed: ObservedView) -> None:
    """Assert that the graph has the states that the nodes of a rendering have from scratch."""
    changed(graph, FAMILY_STATES)
    changed(graph, SOURCE_STATES)
    kinds = frozenset(key.group_kind for key in expected.instances)
    states = ObservedNodeStates(NodeStateReader(observed, kinds, compare_with_live), PlanConstraints())
    sets = {SetPlace.of_source(source): rendered for source, rendered in expected.sources.items()}
    for key, rendered in expected.instances.items():
        sets[SetPlace.of_instance(key)] = rendered
        if rendered.applied_rendering:
            sets[SetPlace("", key, SetRendering.APPLIED)] = rendered.applied_rendering
    for place, rendered in sets.items():
        assert states_of(graph, place) == tuple(states.states_of(rendered))
