"""Causes for which a set and its nodes are not in the desired state, the worst cause first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, NodePlan
from applier.state.observed import is_terminating

_SEVERITY_RANKS = {
    reason: rank
    for rank, reason in enumerate(
        (
            Reason.RENDER_FAILED,
            Reason.APPLY_FAILED,
            Reason.CONFLICT,
            Reason.OWNED_ELSEWHERE,
            Reason.UNHEALTHY,
            Reason.DELETION_BLOCKED,
            Reason.STILL_READ,
            Reason.DEADLOCKED,
        )
    )
}


def set_causes(plan: ApplySetPlan) -> list[Cause]:
    """Return the causes of a set and its nodes, each with the nodes that wait only because of this cause.

    The worst causes come first. Causes of equal severity are in rendering order. If the parent is terminating, members
    whose deletion is blocked come first, then the cause of the parent, then all other causes. In this case the result
    omits a failure to render the set, because the source of the set reports the failure.
    """
    if plan.deletion:
        others = [
            cause for cause in set_causes(replace(plan, deletion=None, not_moved=None)) if not _is_rendering(cause)
        ]
        members = [cause for cause in others if cause.reason is Reason.DELETION_BLOCKED]
        return [*members, plan.deletion, *(cause for cause in others if cause not in members)]
    if plan.error:
        return [plan.error, *_deletion_causes(plan)]
    if plan.parent is None and not (plan.rendered.is_source or plan.is_lost):
        return []  # the owner reports why this parent does not exist yet
    blocked_nodes = [node for node in plan.nodes if node.blocked or node.unhealthy_message]
    by_node = {
        node.node.id: node.blocked
        for node in blocked_nodes
        if node.blocked and node.blocked.reason is not Reason.DEPENDENCY_NOT_READY
    }
    by_node |= {
        node.node.id: Cause(Reason.PROGRESSING, node.unhealthy_message)
        for node in blocked_nodes
        if _is_only_unhealthy(node)
    }
    dependents: dict[str, list[str]] = {}
    for node in blocked_nodes:
        if node.blocked and node.blocked.reason is Reason.DEPENDENCY_NOT_READY:
            for blocker in node.blocked.blockers:
                dependents.setdefault(blocker, []).append(node.node.id)
            if by_node.keys().isdisjoint(node.blocked.blockers):
                by_node.setdefault(node.node.id, node.blocked)
    causes = [cause for cause in (plan.parent_error, plan.deadlock, plan.not_moved) if cause]
    causes += [
        replace(cause, node=node_id, dependents=tuple(dependents.get(node_id, ())))
        for node_id, cause in by_node.items()
    ]
    causes += [
        replace(cause, node=candidate.member.node_id or str(candidate.member.key))
        for candidate in plan.prune_candidates
        for cause in (candidate.blocked, candidate.still_read_cause)
        if cause
    ]
    return sorted(causes, key=lambda cause: _SEVERITY_RANKS.get(cause.reason, len(_SEVERITY_RANKS)))


def _is_rendering(cause: Cause) -> bool:
    """Return whether `cause` reports a failure to render a whole set."""
    return cause.reason is Reason.RENDER_FAILED and not cause.node


def _deletion_causes(plan: ApplySetPlan) -> Iterator[Cause]:
    """Yield the causes that delay the deletion of members by another client, whether or not a set wants the members."""
    for node in plan.nodes:
        if node.blocked and node.live and is_terminating(node.live):
            yield replace(node.blocked, node=node.node.id)
    for candidate in plan.prune_candidates:
        if candidate.blocked and candidate.member.is_terminating:
            yield replace(candidate.blocked, node=candidate.member.node_id or str(candidate.member.key))


def _is_only_unhealthy(node: NodePlan) -> bool:
    """Return whether a node is applied and unhealthy, and no cause blocks the node."""
    return bool(node.unhealthy_message) and node.blocked is None and node.is_applied
