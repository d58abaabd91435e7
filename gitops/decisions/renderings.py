"""Everything that the sources of a cluster want, and all that is due, for readers outside of the graph."""

from __future__ import annotations

import operator
from typing import Final

from applier.plan.model import Plan
from gitops.decisions.actions import all_overrides, whole_plan
from gitops.decisions.definitions import catalog, definitions, sources
from gitops.decisions.instances import former_set, leaving_set, snapshot_owners
from gitops.decisions.source_sets import new_revisions, problems, source_set
from gitops.decisions.wanted import wanted_instances, wanted_set
from gitops.queries import QueryGraph, Roots, query
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, Rendering


@query(same=operator.is_)
def whole_rendering(graph: QueryGraph) -> Rendering:
    """Return the sets of all sources and instances. The records that have to be read first are unread, not named."""
    names, found = sources(graph), definitions(graph)
    instances = {key: rendered for key in wanted_instances(graph) if (rendered := wanted_set(graph, key))}
    leaving, former = dict[ObjectKey, RenderedApplySet](), dict[ObjectKey, RenderedApplySet]()
    for key in sorted({key for source in names for key in snapshot_owners(graph, source)} - instances.keys()):
        if rendered := leaving_set(graph, key):
            leaving[key] = rendered
        if rendered := former_set(graph, key):
            former[key] = rendered
    return Rendering(
        {source: source_set(graph, source) for source in names},
        instances,
        leaving,
        former,
        problems=problems(graph),
        issued=new_revisions(graph),
        definitions=found.current,
        owners=found.owners,
        commits={source: catalog(graph, source).commit for source in names},
    )


@query
def _the_cluster(_graph: QueryGraph) -> frozenset[None]:
    return frozenset({None})


@query(same=operator.is_)
def _the_rendering(graph: QueryGraph, _cluster: None) -> Rendering:
    return whole_rendering(graph)


@query(same=operator.is_)
def _the_plan(graph: QueryGraph, _cluster: None) -> Plan:
    all_overrides(graph)
    return whole_plan(graph)


RENDERING: Final = Roots("rendering", order=7, members=_the_cluster, result=_the_rendering)
"""Rendering of everything. The records that have to be read first are unread, not named."""

PLAN: Final = Roots("plan", order=10, members=_the_cluster, result=_the_plan)
"""Plan of everything, and the changes that bypass windows."""
