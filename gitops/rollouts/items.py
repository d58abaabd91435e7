"""An instance as its rollout sees it: from what was planned for it, and what its own status remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, NodePlan
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import TargetRevision
from gitops.timestamps import timestamp
from renderer.levelgate_status import LevelgateStatus


def make_item(
    plan: ApplySetPlan,
    target: TargetRevision,
    *,
    now: datetime,
    bake: timedelta,
    labels: Mapping[str, str],
    priority: int,
    held: Cause | None,
    blocked: Cause | None,
    granted: bool,
    is_creation_paced: bool,
) -> RolloutItem:
    """How one instance stands to its target. `granted` may come from this very pass; what is on the instance counts as well. Where creation is not
    `paced`, one that never ran anything is nobody's concern but its own. One whose object somebody deleted is as what it is made of: the object comes
    again by itself, and no move would mend it. How long it has been healthy went with it, so it begins to bake anew.

    An instance that Git cannot say is passed like one that is held: it stays at its applied pair whatever the rollout does.
    """
    rendered = plan.rendered
    granted = granted or (plan.target_revision or rendered.applied) == target.revision
    at_target = rendered.revision == target.revision
    managed_nodes = [node for node in plan.nodes if not node.node.external]
    has_started = plan.parent is not None or rendered.applied > 0
    healthy = has_started and plan.error is None and all(node.healthy for node in managed_nodes)
    causes = [node.blocked for node in managed_nodes if node.blocked] if granted else []
    gate_cause = next((cause for cause in causes if cause.reason.is_missing_permission), None)
    failure = next((cause for cause in causes if cause.reason.is_failure), None)
    is_applied = at_target and all(node.is_applied for node in managed_nodes)  # what closes then holds nothing of it
    rollout_item = RolloutItem(
        rendered.parent.qualified_name,
        labels=labels,
        priority=priority,
        updated=at_target and (rendered.applied == target.revision or is_applied),
        granted=granted,
        healthy=healthy,
        is_new=not rendered.applied and not plan.target_revision,
        is_isolated=not rendered.applied and not is_creation_paced,
        error=failure.message if failure else "",
        held=held or plan.error or _incompatibility_wait(plan, target),
        blocked=gate_cause or (None if is_applied else blocked),
    )
    is_waiting = gate_cause is not None or rollout_item.is_passed_over
    return (
        rollout_item
        if not granted
        else _with_progress(rollout_item, plan, target, now=now, bake=bake, is_waiting=is_waiting)
    )


def _incompatibility_wait(plan: ApplySetPlan, target: TargetRevision) -> Cause | None:
    """What Git wants of the instance does not fit the target: it stays where it is until somebody changes one of the two."""
    incompatible_reason = plan.rendered.incompatible_reason
    return Cause(Reason.RENDER_FAILED, f"does not fit {target}: {incompatible_reason}") if incompatible_reason else None


def _with_progress(
    rollout_item: RolloutItem,
    plan: ApplySetPlan,
    target: TargetRevision,
    *,
    now: datetime,
    bake: timedelta,
    is_waiting: bool,
) -> RolloutItem:
    previous = read_progress(plan, target, now)
    levels = _count_ready_levels(plan.nodes)
    progress = previous.with_observation(
        now, is_healthy=rollout_item.healthy and rollout_item.updated, levels=levels, is_waiting=is_waiting, bake=bake
    )
    return replace(rollout_item, progress=progress)


def read_progress(plan: ApplySetPlan, target: TargetRevision, now: datetime) -> ItemProgress:
    """What the instance's status says of the way to this target; begun now where it says nothing."""
    stored = LevelgateStatus.from_instance(plan.parent).progress
    return ItemProgress.from_dict(stored, now) if stored.get("revision") == target.revision else ItemProgress.start(now)


def progress_to_dict(rollout_item: RolloutItem, target: TargetRevision, policy: Policy) -> dict[str, Any]:
    """For the instance's status; `deadline` is when it will have failed, while that clock runs."""
    deadline_at = rollout_item.progress.overdue_after(policy.progress_deadline)
    deadline = {"deadline": timestamp(deadline_at)} if deadline_at else {}
    return {"revision": target.revision, **rollout_item.progress.to_dict(), **deadline}


def _count_ready_levels(nodes: tuple[NodePlan, ...]) -> int:
    """How many levels, counted from the first, carry what the target wants and are ready."""
    unready = [node.node.level for node in nodes if not node.is_applied_and_ready]
    return min(unready, default=1 + max((node.node.level for node in nodes), default=-1))
