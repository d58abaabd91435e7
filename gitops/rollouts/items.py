"""Items of a rollout, read from the plans of its instances. The status of each instance stores the item's progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.plan.model import ApplySetPlan, NodePlan
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import TargetRevision
from gitops.timestamps import timestamp
from renderer.levelgate_status import LevelgateStatus


class ItemObservation(NamedTuple):
    """Observation of an item with a grant. See `ItemProgress.with_observation` for the fields."""

    is_healthy: bool
    levels: int
    is_waiting: bool

    def is_reflected_in(self, progress: ItemProgress) -> bool:
        """Return whether the observation does not change `progress`."""
        return progress.reflects(is_healthy=self.is_healthy, levels=self.levels, is_waiting=self.is_waiting)

    def added_to(self, progress: ItemProgress, now: datetime, bake: timedelta) -> ItemProgress:
        """Return `progress` after the observation.

        Args:
            now: time of the observation in UTC.
            bake: bake time of the item's wave.
        """
        return progress.with_observation(
            now, is_healthy=self.is_healthy, levels=self.levels, is_waiting=self.is_waiting, bake=bake
        )


class ObservedItem(NamedTuple):
    """Item of a rollout as a plan shows it at any time."""

    item: RolloutItem
    """Item without progress, because progress depends on the times of observations."""
    observation: ItemObservation | None
    """Observation for the progress, or None for an item without a grant."""


def observe_plan(
    item: RolloutItem, plan: ApplySetPlan, target: TargetRevision, *, is_creation_paced: bool
) -> ObservedItem:
    """Return `item` with the state that the plan of its instance shows.

    If the plan has an error, or the instance does not fit the schema of the target, the item counts as held. So the
    rollout does not wait for the item. If a person has deleted the object of the instance, the nodes alone determine
    the state of the item. A move would not restore the object, but healing does. The item bakes again, because the
    status of the instance is lost.

    Args:
        item: item with labels, priority, grant, hold and closed gate.
        plan: plan of the instance.
        target: target of the item's wave.
        is_creation_paced: whether a failed first creation counts against the rollout.
    """
    rendered = plan.rendered
    granted = item.granted or (plan.target_revision or rendered.applied) == target.revision
    at_target = rendered.revision == target.revision
    managed_nodes = [node for node in plan.nodes if not node.node.external]
    has_started = plan.parent is not None or rendered.applied > 0
    causes = [node.blocked for node in managed_nodes if node.blocked] if granted else []
    gate_cause = next((cause for cause in causes if cause.reason.is_missing_permission), None)
    failure = next((cause for cause in causes if cause.reason.is_failure), None)
    is_applied = at_target and all(node.is_applied for node in managed_nodes)
    observed = replace(
        item,
        updated=at_target and (rendered.applied == target.revision or is_applied),
        granted=granted,
        healthy=has_started and plan.error is None and all(node.healthy for node in managed_nodes),
        is_new=not rendered.applied and not plan.target_revision,
        is_isolated=not rendered.applied and not is_creation_paced,
        error=failure.message if failure else "",
        held=item.held or plan.error or _incompatibility(plan, target),
        # If a gate closes after the last write of the move, it does not keep the instance.
        blocked=gate_cause or (None if is_applied else item.blocked),
    )
    if not granted:
        return ObservedItem(observed, None)
    is_healthy, is_waiting = observed.healthy and observed.updated, gate_cause is not None or observed.is_passed_over
    return ObservedItem(observed, ItemObservation(is_healthy, _count_ready_levels(plan.nodes), is_waiting))


def _incompatibility(plan: ApplySetPlan, target: TargetRevision) -> Cause | None:
    """Return the cause if the spec in Git does not fit the schema of `target`, or None if the spec fits."""
    incompatible_reason = plan.rendered.incompatible_reason
    return Cause(Reason.RENDER_FAILED, f"does not fit {target}: {incompatible_reason}") if incompatible_reason else None


def recorded_progress(instance: Object | None, target: TargetRevision) -> ItemProgress | None:
    """Return the progress towards `target` from the status of a live instance, or None if the status stores none.

    Unreadable progress counts as missing, so that the progress starts again, and the item neither settles nor fails.
    """
    stored = LevelgateStatus.from_instance(instance).progress
    return ItemProgress.from_dict(stored) if stored.get("revision") == target.revision else None


def progress_to_dict(rollout_item: RolloutItem, target: TargetRevision, policy: Policy) -> dict[str, Any]:
    """Return the progress of an item as JSON for the status of its instance.

    The field `deadline` is the time in UTC at which the item fails. While the clock is paused, `deadline` is absent.
    """
    deadline_at = rollout_item.progress.overdue_after(policy.progress_deadline)
    deadline = {"deadline": timestamp(deadline_at)} if deadline_at else {}
    return {"revision": target.revision, **rollout_item.progress.to_dict(), **deadline}


def _count_ready_levels(nodes: tuple[NodePlan, ...]) -> int:
    """Return the number of levels, counted from the first, whose nodes are all applied and ready."""
    unready = [node.node.level for node in nodes if not node.is_applied_and_ready]
    return min(unready, default=1 + max((node.node.level for node in nodes), default=-1))
