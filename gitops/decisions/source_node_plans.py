"""Plans of the nodes of a source, each as a query of its own.

A source has a node for each instance that it declares. So a node that changes plans no other nodes again, except those
that depend on it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from applier.causes import Cause
from applier.plan.barriers import dependents_cause
from applier.plan.model import DrainProgress, NodePlan, is_same_node_plan
from applier.plan.node_planner import NodePlanner
from gitops.decisions.node_states import SetPlace, node_state
from gitops.decisions.permissions import IN_TURN, permissions_of
from gitops.decisions.plan_inputs import Brakes, assumed_permissions
from gitops.decisions.source_sets import source_progress, source_set
from gitops.decisions.standalone_plans import drain_progress_finder, node_planner
from gitops.queries import QueryGraph, query
from renderer.frozen import dataclass
from renderer.identity import source_parent
from renderer.render.model import RenderedApplySet, is_same_set


class PlannedNode(NamedTuple):
    """Plan of a node, and what the plan means for the nodes that depend on it."""

    plan: NodePlan
    """Plan as if writes of the set could start."""
    dependents_cause: Cause | None
    """Cause that keeps the dependents of the node from starting, or None if they may start."""


def _is_same_planned_node(before: PlannedNode | None, after: PlannedNode | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.dependents_cause == after.dependents_cause and is_same_node_plan(before.plan, after.plan)


@query(same=is_same_set)
def _set_without_nodes(graph: QueryGraph, source: str) -> RenderedApplySet:
    """Return the set of a source without its nodes, so that the plan of a node depends on no other node."""
    return RenderedApplySet(source_parent(source), source=source, **source_progress(graph, source)._asdict())


@query
def _drain_progress(graph: QueryGraph, source: str) -> DrainProgress | None:
    """Return the progress of a source's own objects toward the present commit."""
    return drain_progress_finder(graph).find_progress(source_set(graph, source))


@query(same=_is_same_planned_node)
def planned_node(graph: QueryGraph, source: str, node_id: str, brakes: Brakes) -> PlannedNode | None:
    """Return the plan of a node of a source, or None if the source has no such node.

    Args:
        brakes: sources whose deletions wait for an approval.
    """
    state = node_state(graph, SetPlace.of_source(source), node_id)
    if state is None:
        return None
    node, rendered = state.plan.node, _set_without_nodes(graph, source)
    # The nodes of a circle have an error and no edges among each other, but may still name what has to be healthy.
    dependencies = {name: found for name in node.depends_on if (found := planned_node(graph, source, name, brakes))}
    ancestor_cause = next(filter(None, (found.dependents_cause for found in dependencies.values())), None)
    permissions = assumed_permissions(graph) or permissions_of(graph, rendered.parent, IN_TURN)
    plan = node_planner(graph, rendered, dict(brakes), permissions).plan_node(
        rendered,
        state,
        plans={name: found.plan for name, found in dependencies.items()},
        ancestor_cause=ancestor_cause,
        drain_progress=partial(_drain_progress, graph, source),
    )
    return PlannedNode(plan, ancestor_cause or dependents_cause(plan))


@dataclass(frozen=True, slots=True)
class SourceNodePlans:
    """Plans of the nodes of one source from a graph. Implements `applier.plan.node_planner.NodePlans`."""

    graph: QueryGraph
    rendered: RenderedApplySet
    """The set of the source."""
    brakes: Brakes
    planner: NodePlanner
    """Planner of other renderings, such as what was last applied, and of a set that is held."""

    def plan_nodes(
        self, rendered: RenderedApplySet, *, ready_to_write: bool, hold_cause: Cause | None = None
    ) -> tuple[NodePlan, ...]:
        """Plan all nodes of the set *rendered*. See `NodePlanner.plan_nodes`."""
        if hold_cause or rendered is not self.rendered:
            return self.planner.plan_nodes(rendered, ready_to_write=ready_to_write, hold_cause=hold_cause)
        found = (planned_node(self.graph, rendered.source, node.id, self.brakes) for node in rendered.nodes)
        plans = (one.plan for one in found if one)
        return tuple(plans if ready_to_write else (plan._replace(allowed=False) for plan in plans))
