"""Plans of the nodes of a set by themselves, as queries: no dependency, window, gate or person counts.

Gates and rollouts judge an instance by these plans, so that a gate never depends on its own answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from applier.applyset.inventory import Scope
from applier.plan.barriers import WriteBarriers
from applier.plan.drain_progress import DrainProgressFinder
from applier.plan.model import ApplySetPlan, ChangePermissions, is_same_set_plan
from applier.plan.node_planner import NodePlanner
from applier.plan.node_state import NodeState
from applier.plan.set_planner import select_former_nodes
from gitops.decisions import live
from gitops.decisions.definitions import source_commit, sources_by_id
from gitops.decisions.live_view import LiveView, Lookup
from gitops.decisions.node_states import SetPlace, SetRendering, node_state
from gitops.decisions.plan_inputs import constraints_of
from gitops.decisions.planned import planned_parent, planned_set
from gitops.decisions.prune_order import wanting_lookup
from gitops.decisions.source_sets import set_without_nodes
from gitops.queries import QueryGraph, query
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet


@dataclass(frozen=True, slots=True)
class _GraphNodeStates:
    """States of the nodes of one set from a graph. Implements `applier.plan.node_planner.NodeStates`."""

    graph: QueryGraph
    source: str
    planned: RenderedApplySet

    def states_of(self, rendered: RenderedApplySet) -> Iterator[NodeState]:
        """Yield the state of each node of the set, or of its applied rendering, in the order of the set."""
        is_applied = rendered is self.planned.applied_rendering
        place = SetPlace(self.source, self.planned.parent, SetRendering.APPLIED if is_applied else SetRendering.WANTED)
        for node in rendered.nodes:
            if (state := node_state(self.graph, place, node.id)) is None:
                raise LookupError(f"{place} has no state of its node {node.id}")
            yield state


def _set_of(graph: QueryGraph, set_id: str) -> RenderedApplySet | None:
    """Return the set with an id, without its nodes for the set of a source. No plan of another set reads these."""
    if source := sources_by_id(graph).get(set_id):
        return set_without_nodes(graph, source)
    found = planned_parent(graph, set_id)
    return planned_set(graph, found) if found else None


def _sets_and_commits(graph: QueryGraph) -> tuple[Mapping[str, RenderedApplySet], Mapping[str, str]]:
    """Return the sets to plan by id, and the commits of the sources by name."""
    sets = Lookup[str, RenderedApplySet](partial(_set_of, graph), "sets")
    return sets, Lookup[str, str](lambda source: source_commit(graph, source).commit, "commits")


def drain_progress_finder(graph: QueryGraph) -> DrainProgressFinder:
    """Return the finder of the progress of sets toward their targets."""
    return DrainProgressFinder(LiveView(graph, graph.now), wanting_lookup(graph), *_sets_and_commits(graph))


def node_planner(
    graph: QueryGraph, planned: RenderedApplySet, brakes: Mapping[str, str], permissions: ChangePermissions
) -> NodePlanner:
    """Return the planner of the nodes of a set.

    Args:
        brakes: messages of the deletion brake, by source.
    """
    barriers = WriteBarriers(
        LiveView(graph, graph.now),
        wanting_lookup(graph),
        *_sets_and_commits(graph),
        constraints_of(graph, brakes),
        permissions,
    )
    return NodePlanner(_GraphNodeStates(graph, planned.source if planned.is_source else "", planned), barriers)


@query(same=is_same_set_plan)
def standalone_plan(graph: QueryGraph, parent: ObjectKey) -> ApplySetPlan | None:
    """Return the nodes of a set, each by itself, or None if there is nothing to plan for the parent.

    The plan has no prune candidates, and no actions on the parent.
    """
    planned = planned_set(graph, parent)
    if planned is None:
        return None
    planner = node_planner(graph, planned, {}, ChangePermissions())
    nodes = planner.standalone_nodes(planned)
    applied_nodes = planner.standalone_nodes(planned.applied_rendering) if planned.applied_rendering else ()
    former_nodes = select_former_nodes(applied_nodes, nodes)
    return ApplySetPlan(planned, live.live(graph, parent), Scope(), nodes, former_nodes=former_nodes)
