"""Everything that the sources of a cluster want, and all that is due, for readers outside of the graph."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from applier.plan.model import Plan
from gitops.decisions.actions import all_overrides, set_plan, whole_plan
from gitops.decisions.declarations import Root, instance_roots, is_instance_kind
from gitops.decisions.definitions import definitions, planned_sources, source_commit, sources
from gitops.decisions.instances import family, former_set, leaving_set, snapshot_owners
from gitops.decisions.placements import decided_placement
from gitops.decisions.rollout_members import all_instances
from gitops.decisions.set_plans import source_node_plan
from gitops.decisions.source_sets import new_revisions, placed_node, problems, set_without_nodes, source_set
from gitops.decisions.wanted import wanted_instances, wanted_set
from gitops.queries import QueryGraph, Roots, query
from renderer.identity import ObjectKey
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.model import RenderedApplySet, Rendering


@query(same=operator.is_)
def _rendering_without_sets(graph: QueryGraph) -> Rendering:
    """Return what all sets share: the definitions, the commits, and the revisions to store."""
    found = definitions(graph)
    return Rendering(
        {},
        {},
        {},
        {},
        issued=new_revisions(graph),
        definitions=found.current,
        owners=found.owners,
        commits={source: source_commit(graph, source).commit for source in sources(graph)},
    )


@query(same=operator.is_)
def whole_rendering(graph: QueryGraph) -> Rendering:
    """Return the sets of all planned sources and of all instances. The records that have to be read first are unread, not named."""
    instances = {key: rendered for key in wanted_instances(graph) if (rendered := wanted_set(graph, key))}
    leaving, former = dict[ObjectKey, RenderedApplySet](), dict[ObjectKey, RenderedApplySet]()
    for key in sorted({key for source in sources(graph) for key in snapshot_owners(graph, source)} - instances.keys()):
        if rendered := leaving_set(graph, key):
            leaving[key] = rendered
        if rendered := former_set(graph, key):
            former[key] = rendered
    return replace(
        _rendering_without_sets(graph),
        sources={source: source_set(graph, source) for source in planned_sources(graph)},
        instances=instances,
        leaving=leaving,
        former=former,
        problems=problems(graph),
    )


@query(same=operator.is_)
def _rendered_object(graph: QueryGraph, root: Root) -> Rendering:
    """Return the rendering of one object of a source: its node in the set of the source, and the sets of an instance."""
    node, sets = placed_node(graph, *root), dict[ObjectKey, RenderedApplySet]()
    if is_instance_kind(graph, root.key.group_kind):
        own = sorted(family(graph, root).sets, key=lambda key: key.by_kind)
        sets = {key: rendered for key in own if (rendered := wanted_set(graph, key))}
    source = replace(set_without_nodes(graph, root.source), nodes=(node,) if node else ())
    return replace(_rendering_without_sets(graph), sources={root.source: source}, instances=sets)


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


@query
def _the_placements(graph: QueryGraph, _cluster: None) -> Mapping[ObjectKey, RevisionPlacement]:
    return {key: decided_placement(graph, key) for key in all_instances(graph)}


ALL_PLACEMENTS: Final = Roots("all_placements", order=9, members=_the_cluster, result=_the_placements)
"""Placement of each wanted instance. No placement depends on a plan."""

RENDERING: Final = Roots("rendering", order=7, members=_the_cluster, result=_the_rendering)
"""Rendering of everything. The records that have to be read first are unread, not named."""

RENDERED_OBJECTS: Final = Roots("rendered_objects", order=7, members=instance_roots, result=_rendered_object)
"""Renderings of single objects of sources. Any object of a source may be asked for, and not only an instance."""

SET_PLANS: Final = Roots("set_plans", order=10, members=all_instances, result=set_plan)
"""Plans of the sets of instances."""

NODE_PLANS: Final = Roots("node_plans", order=10, members=instance_roots, result=source_node_plan)
"""Plans of the nodes of sources. Any object of a source may be asked for, and not only an instance."""

PLAN: Final = Roots("plan", order=10, members=_the_cluster, result=_the_plan)
"""Plan of everything, and the changes that bypass windows."""
