"""What runs to an end: Pods and Jobs."""

from __future__ import annotations

from datetime import timedelta

from applier.status.model import (
    HealthResult,
    HealthView,
    KStatus,
    current_result,
    describe_condition,
    failed_result,
    progress_result,
)

UNSCHEDULABLE_AFTER = timedelta(seconds=15)
"""How long the scheduler may fail to place a Pod before the Pod counts as Failed (kstatus)."""


ENDED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases of a Pod that runs no more."""


def pod(view: HealthView) -> HealthResult:
    match view.value_at("status", "phase"):
        case "Succeeded":
            return current_result("completed")
        case "Failed":
            return _ended_pod(view)
        case "Running":
            return _running_pod(view)
        case "Pending":
            return _pending_pod(view)
        case None | "":
            return progress_result("no phase yet")
        case phase:
            return HealthResult(KStatus.UNKNOWN, f"phase {phase}")


def _ended_pod(view: HealthView) -> HealthResult:
    """A controller replaces or counts its failed Pods itself; nobody does that for a Pod of its own."""
    text = f"failed: {view.value_at('status', 'reason') or view.value_at('status', 'message') or 'a container ended with an error'}"
    owners = view.value_at("metadata", "ownerReferences") or []
    return current_result(text) if any(owner.get("controller") for owner in owners) else failed_result(text)


def _running_pod(view: HealthView) -> HealthResult:
    if view.is_condition_true("Ready"):
        return current_result("running and ready")
    crashing = [
        container.get("name")
        for group in ("containerStatuses", "initContainerStatuses")
        for container in view.value_at("status", group) or []
        if ((container.get("state") or {}).get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    ]
    return (
        failed_result(f"containers crash: {', '.join(map(str, crashing))}")
        if crashing
        else progress_result("not ready yet")
    )


def _pending_pod(view: HealthView) -> HealthResult:
    scheduled = view.condition("PodScheduled")
    is_unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    if not is_unschedulable:
        return progress_result("pending")
    message = describe_condition(scheduled)
    since = scheduled.get("lastTransitionTime")
    return view.result_by_age(UNSCHEDULABLE_AFTER, since, young=progress_result(message), old=failed_result(message))


def job(view: HealthView) -> HealthResult:
    for condition in view.conditions:
        match condition.get("type"), condition.get("status"):
            case "Failed", "True":
                return failed_result(describe_condition(condition))
            case "Complete", "True":
                return current_result("completed")
            case "Suspended", "True" if view.value_at("spec", "suspend"):
                return current_result("suspended")
    if not view.value_at("status", "startTime"):
        return progress_result("not started yet")
    counts = ", ".join(f"{view.status_number(name)} {name}" for name in ("active", "succeeded", "failed"))
    return progress_result(f"running: {counts}")
