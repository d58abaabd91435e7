"""Plans of the nodes of one set, in level order: action, readiness and health of each node.

The module is pure. `barriers` decides which actions may not start yet. If a cause bars the action of a node, only the
descendants of the node stop, and other branches continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Protocol

from applier.applyset import member
from applier.causes import Cause
from applier.cluster import Object
from applier.errors import ClusterError, Immutable
from applier.plan.barriers import NodeWrite, WriteBarriers, dependents_cause, level_cause
from applier.plan.model import Barrier, DrainProgress, NodeAction, NodePlan
from applier.plan.node_state import NodeState
from applier.state.observed import annotation
from renderer import well_known
from renderer.frozen import dataclass
from renderer.render.model import RenderedApplySet, RenderedNode


class NodeStates(Protocol):
    """States of the nodes of sets."""

    def states_of(self, rendered: RenderedApplySet) -> Iterable[NodeState]:
        """Return the state of each node of `rendered`, in the order of the set."""


class NodePlans(Protocol):
    """Plans of the nodes of a set."""

    def plan_nodes(
        self, rendered: RenderedApplySet, *, ready_to_write: bool, hold_cause: Cause | None = None
    ) -> tuple[NodePlan, ...]:
        """Plan all nodes of the set `rendered`. See `NodePlanner.plan_nodes`."""


@dataclass(frozen=True, slots=True)
class NodePlanner:
    """Planner of the nodes of one set."""

    states: NodeStates
    barriers: WriteBarriers

    def plan_nodes(
        self, rendered: RenderedApplySet, *, ready_to_write: bool, hold_cause: Cause | None = None
    ) -> tuple[NodePlan, ...]:
        """Plan all nodes of the set `rendered`.

        Args:
            ready_to_write: true if writes of nodes may start now.
            hold_cause: cause of a hold, or None. In a hold, Levelgate creates, replaces, adopts and heals objects, but
                updates no object to another manifest.
        """
        plans: dict[str, NodePlan] = {}
        dependents_causes: dict[str, Cause | None] = {}
        drain_progress = cache(partial(self.barriers.drain_progress, rendered))  # costly, and rarely needed
        barrier = self.barriers.barrier_of(rendered)
        depended_on = {name for node in rendered.nodes for name in node.depends_on}
        for state in self.states.states_of(rendered):
            node = state.plan.node
            ancestor_cause = next(filter(None, map(dependents_causes.get, node.depends_on)), None)
            ancestor_cause = ancestor_cause or level_cause(barrier, node, plans.values(), dependents_causes)
            node_plan = self.plan_node(
                rendered, state, plans=plans, ancestor_cause=ancestor_cause, drain_progress=drain_progress
            )
            if not ready_to_write:
                node_plan = node_plan._replace(allowed=False)
            if hold_cause and node_plan.allowed and node_plan.action in {NodeAction.UPDATE, NodeAction.RECORD}:
                node_plan = node_plan._replace(allowed=False, blocked=hold_cause)
            plans[node.id] = node_plan
            if node.id in depended_on or barrier is not Barrier.PATH:
                dependents_causes[node.id] = ancestor_cause or dependents_cause(node_plan)
        return tuple(plans.values())

    def standalone_nodes(self, rendered: RenderedApplySet) -> tuple[NodePlan, ...]:
        """Plan each node of `rendered` by itself. Dependencies and permissions do not count, and no write is allowed.

        A cause that bars the object of a node counts, such as a failed write. While the node waits for a write, the
        readiness of its object does not count as a cause.
        """
        return tuple(self._standalone_node(rendered, state) for state in self.states.states_of(rendered))

    def _standalone_node(self, rendered: RenderedApplySet, state: NodeState) -> NodePlan:
        write, failure = self._due_write(rendered, state)
        if write is None:
            return state.plan
        cause = self.barriers.object_cause(write, failure)
        own_cause = state.plan.blocked if write.action is NodeAction.NONE else None
        return state.plan._replace(action=write.action, blocked=cause or own_cause)

    def _due_write(self, rendered: RenderedApplySet, state: NodeState) -> tuple[NodeWrite | None, ClusterError | None]:
        """Return the write that is due for a node, and the error with which an equal write failed earlier.

        The write is None for a node that is not to be written.
        """
        plan, node, key = state.plan, state.plan.node, state.plan.node.key
        if state.is_final:
            return None, None
        assert key is not None
        failure = self.barriers.write_failure(rendered, node, key, plan.live)
        action = _action_after_refusal(node, plan.live, plan.action, failure)
        return NodeWrite(rendered, node, key, plan.live, action, is_repair=bool(plan.lost_fields)), failure

    def plan_node(
        self,
        rendered: RenderedApplySet,
        state: NodeState,
        *,
        plans: Mapping[str, NodePlan],
        ancestor_cause: Cause | None,
        drain_progress: Callable[[], DrainProgress | None],
    ) -> NodePlan:
        """Plan one node, as if writes could start.

        Args:
            rendered: the set of the node. Its nodes do not count.
            plans: plans of the dependencies of the node, by id.
            ancestor_cause: cause with which a dependency or an earlier level holds the node, or None.
            drain_progress: function that returns the progress of the set toward its target.
        """
        plan = state.plan
        write, failure = self._due_write(rendered, state)
        if write is None:
            return plan._replace(blocked=ancestor_cause or plan.blocked) if plan.node.external and plan.live else plan
        cause = self.barriers.find_cause(
            write, failure=failure, ancestor_cause=ancestor_cause, plans=plans, drain_progress=drain_progress
        )
        is_allowed = write.action is not NodeAction.NONE and cause is None
        return plan._replace(action=write.action, allowed=is_allowed, blocked=cause or plan.blocked)


def select_repairs(node_plans: Iterable[NodePlan], *, ready_to_write: bool) -> tuple[NodePlan, ...]:
    """Return the plans in `node_plans` that repair an object, or that read an object first.

    Args:
        node_plans: plans of the nodes of an applied snapshot, planned as if writes could start.
        ready_to_write: true if writes of nodes may start now.
    """
    heal_actions = {NodeAction.CREATE, NodeAction.HEAL}
    repairs_due = (
        node_plan
        for node_plan in node_plans
        if node_plan.action is NodeAction.READ or (node_plan.allowed and node_plan.action in heal_actions)
    )
    return tuple(node_plan._replace(allowed=node_plan.allowed and ready_to_write) for node_plan in repairs_due)


def _action_after_refusal(
    node: RenderedNode, live: Object | None, action: NodeAction, failure: ClusterError | None
) -> NodeAction:
    """Return the action to plan after the last attempt, which ended with `failure` or succeeded.

    If the object is immutable and may be replaced, return `replace`. Otherwise return `action`.
    """
    is_immutable = isinstance(failure, Immutable)
    if live is None or not is_immutable or action not in {NodeAction.UPDATE, NodeAction.HEAL}:
        return action
    is_replace_allowed = (
        _annotation_value(node, live, well_known.REPLACE) == "allowed"
        and annotation(live, well_known.PRUNE) != "disabled"
    )
    return NodeAction.REPLACE if is_replace_allowed and member.is_membership_proven(live) else action


def _annotation_value(node: RenderedNode, live: Object | None, key: str) -> str:
    """Return the value of the annotation `key` in Git. If Git has none, return the value on the live object."""
    return annotation(node.manifest, key) or (annotation(live, key) if live else "")
