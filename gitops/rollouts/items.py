"""An instance as its rollout sees it: from what was planned for it, and what its own status remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from applier.causes import Reason
from applier.plan.model import ApplySetPlan, NodePlan
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import Policy
from gitops.rollouts.queue_position import Wait
from gitops.rollouts.state import TargetRevision
from renderer.identity import ObjectKey
from renderer.levelgate_status import LevelgateStatus


def name_of(key: ObjectKey) -> str:
    """How an instance is called among the instances of its definition; the order of these names is their order in a rollout."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def item(
    plan: ApplySetPlan,
    target: TargetRevision,
    *,
    now: datetime,
    bake: timedelta,
    labels: Mapping[str, str],
    priority: int = 0,
    held: Wait | None = None,
    blocked: Wait | None = None,
    granted: bool = False,
    paced: bool = True,
) -> RolloutItem:
    """How one instance stands to its target. `granted` may come from this very pass; what is on the instance counts as well. Where creation is not
    `paced`, one that never ran anything is nobody's concern but its own. One whose object somebody deleted is as what it is made of: the object comes
    again by itself, and no move would mend it. How long it has been healthy went with it, so it begins to bake anew.

    An instance that Git cannot say is passed like one that is held: it stays at its applied pair whatever the rollout does.
    """
    rendered = plan.rendered
    granted = granted or (plan.target or rendered.applied) == target.revision
    at_target = rendered.revision == target.revision
    mine = [node for node in plan.nodes if not node.node.external]
    is_begun = plan.parent is not None or rendered.applied > 0
    healthy = is_begun and plan.error is None and all(node.healthy for node in mine)
    causes = [node.blocked for node in mine if node.blocked] if granted else []
    gated = next((cause for cause in causes if cause.reason.is_gate), None)
    failure = next((cause for cause in causes if cause.reason.is_failure), None)
    is_there = at_target and all(node.is_current for node in mine)  # what closes then holds nothing of it
    found = RolloutItem(
        name_of(rendered.parent),
        labels=labels,
        priority=priority,
        updated=at_target and (rendered.applied == target.revision or is_there),
        granted=granted,
        healthy=healthy,
        is_new=not rendered.applied and not plan.target,
        alone=not rendered.applied and not paced,
        error=failure.message if failure else "",
        held=held or (Wait.of(plan.error) if plan.error else None) or _unfit(plan, target),
        blocked=Wait.of(gated) if gated else None if is_there else blocked,
    )
    waiting = gated is not None or found.passed
    return found if not granted else _with_progress(found, plan, target, now=now, bake=bake, waiting=waiting)


def _unfit(plan: ApplySetPlan, target: TargetRevision) -> Wait | None:
    """What Git wants of the instance does not fit the target: it stays where it is until somebody changes one of the two."""
    unfit = plan.rendered.incompatible_reason
    return Wait(Reason.RENDER_FAILED, f"does not fit {target}: {unfit}") if unfit else None


def _with_progress(
    found: RolloutItem, plan: ApplySetPlan, target: TargetRevision, *, now: datetime, bake: timedelta, waiting: bool
) -> RolloutItem:
    before = remembered(plan, target, now)
    levels = _levels_ready(plan.nodes)
    progress = before.observed(now, healthy=found.healthy and found.updated, levels=levels, waiting=waiting, bake=bake)
    return replace(found, progress=progress)


def remembered(plan: ApplySetPlan, target: TargetRevision, now: datetime) -> ItemProgress:
    """What the instance's status says of the way to this target; begun now where it says nothing."""
    stored = LevelgateStatus.of(plan.parent).progress
    return ItemProgress.read(stored, now) if stored.get("revision") == target.revision else ItemProgress.begun(now)


def stored_progress(found: RolloutItem, target: TargetRevision, policy: Policy) -> dict[str, Any]:
    """For the instance's status; `deadline` is when it will have failed, while that clock runs."""
    ends = found.progress.overdue_after(policy.progress_deadline)
    deadline = {"deadline": ends.strftime("%Y-%m-%dT%H:%M:%SZ")} if ends else {}
    return {"revision": target.revision, **found.progress.stored(), **deadline}


def _levels_ready(nodes: tuple[NodePlan, ...]) -> int:
    """How many levels, counted from the first, carry what the target wants and are ready."""
    unready = [node.node.level for node in nodes if not node.settled]
    return min(unready, default=1 + max((node.node.level for node in nodes), default=-1))
