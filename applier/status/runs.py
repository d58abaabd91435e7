"""What runs to an end: Pods and Jobs."""

from __future__ import annotations

from datetime import timedelta

from applier.status.model import HealthResult, HealthView, KStatus, current, describe_condition, failed, progress

UNSCHEDULABLE_AFTER = timedelta(seconds=15)
"""How long the scheduler may fail to place a Pod before the Pod counts as Failed (kstatus)."""


ENDED = frozenset({"Succeeded", "Failed"})
"""Phases of a Pod that runs no more."""


def pod(view: HealthView) -> HealthResult:
    match view.at("status", "phase"):
        case "Succeeded":
            return current("completed")
        case "Failed":
            return _ended_pod(view)
        case "Running":
            return _running_pod(view)
        case "Pending":
            return _pending_pod(view)
        case None | "":
            return progress("no phase yet")
        case phase:
            return HealthResult(KStatus.UNKNOWN, f"phase {phase}")


def _ended_pod(view: HealthView) -> HealthResult:
    """A controller replaces or counts its failed Pods itself; nobody does that for a Pod of its own."""
    text = f"failed: {view.at('status', 'reason') or view.at('status', 'message') or 'a container ended with an error'}"
    owners = view.at("metadata", "ownerReferences") or []
    return current(text) if any(owner.get("controller") for owner in owners) else failed(text)


def _running_pod(view: HealthView) -> HealthResult:
    if view.is_true("Ready"):
        return current("running and ready")
    crashing = [
        container.get("name")
        for group in ("containerStatuses", "initContainerStatuses")
        for container in view.at("status", group) or []
        if ((container.get("state") or {}).get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    ]
    return failed(f"containers crash: {', '.join(map(str, crashing))}") if crashing else progress("not ready yet")


def _pending_pod(view: HealthView) -> HealthResult:
    scheduled = view.condition("PodScheduled")
    stuck = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    if not stuck:
        return progress("pending")
    why = describe_condition(scheduled)
    since = scheduled.get("lastTransitionTime")
    return view.aged(UNSCHEDULABLE_AFTER, since, young=progress(why), old=failed(why))


def job(view: HealthView) -> HealthResult:
    for condition in view.conditions:
        match condition.get("type"), condition.get("status"):
            case "Failed", "True":
                return failed(describe_condition(condition))
            case "Complete", "True":
                return current("completed")
            case "Suspended", "True" if view.at("spec", "suspend"):
                return current("suspended")
    if not view.at("status", "startTime"):
        return progress("not started yet")
    counts = ", ".join(f"{view.status(name)} {name}" for name in ("active", "succeeded", "failed"))
    return progress(f"running: {counts}")
