"""Plans of the nodes of a source, each as a query of its own.

A source has a node for each instance that it declares. So a node that changes plans no other nodes again, except those
that depend on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from applier.causes import Cause
from applier.plan.barriers import dependents_cause
from applier.plan.model import NodePlan, is_same_node_plan
from applier.plan.node_planner import NodePlanner
from gitops.decisions.node_states import SetPlace, node_state
from gitops.decisions.permissions import IN_TURN, SourceNodeChecks, permissions_of
from gitops.decisions.plan_inputs import Brakes, assumed_permissions
from gitops.decisions.source_sets import is_node_applied, set_without_nodes
from gitops.decisions.standalone_plans import node_planner
from gitops.queries import QueryGraph, query
from renderer.frozen import dataclass
from renderer.render.model import RenderedApplySet


class PlannedNode(NamedTuple):
    """Plan of a node, and what the plan means for the nodes that depend on it."""

    plan: NodePlan
    """Plan as if writes of the set could start."""
    dependents_cause: Cause | None
    """Cause that keeps the dependents of the node from starting, or None if they may start."""


def is_same_planned_node(before: PlannedNode | None, after: PlannedNode | None) -> bool:
    """Return whether two plans of a node are equal."""
    if before is None or after is None:
        return before is after
    return before.dependents_cause == after.dependents_cause and is_same_node_plan(before.plan, after.plan)


def _no_progress() -> None:
    """Leave the progress to the checks of changes that windows close."""


@query(same=is_same_planned_node)
def planned_node(graph: QueryGraph, source: str, node_id: str, brakes: Brakes) -> PlannedNode | None:
    """Return the plan of a node of a source, or None if the source has no such node.

    Args:
        brakes: sources whose deletions wait for an approval.
    """
    state = node_state(graph, SetPlace.of_source(source), node_id)
    if state is None:
        return None
    node, rendered = state.plan.node, set_without_nodes(graph, source)
    is_applied = is_node_applied(graph, node.key) if node.key else None
    if is_applied is not None:
        rendered = replace(rendered, is_applied=is_applied)
    # The nodes of a circle have an error and no edges among each other, but may still name what has to be healthy.
    dependencies = {name: found for name in node.depends_on if (found := planned_node(graph, source, name, brakes))}
    ancestor_cause = next(filter(None, (found.dependents_cause for found in dependencies.values())), None)
    checks = SourceNodeChecks(graph, rendered.parent, IN_TURN)
    permissions = assumed_permissions(graph) or permissions_of(checks)
    plan = node_planner(graph, rendered, dict(brakes), permissions).plan_node(
        rendered,
        state,
        plans={name: found.plan for name, found in dependencies.items()},
        ancestor_cause=ancestor_cause,
        drain_progress=_no_progress,
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
