"""Health rules for individual kinds: Pods, Jobs, other workloads, claims and Services.

Source: the rules of kstatus (sigs.k8s.io/cli-utils).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from applier.status.model import (
    HealthResult,
    HealthView,
    KStatus,
    check_minimum,
    check_surplus,
    current_result,
    describe_condition,
    failed_result,
    first_result,
    progress_result,
)
from renderer.identity import GroupKind
from renderer.kinds import CRD

UNSCHEDULABLE_AFTER = timedelta(seconds=15)
"""Time for which the scheduler may fail to place a Pod before the Pod counts as Failed (kstatus)."""


ENDED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases of a Pod that no longer runs."""


def pod(view: HealthView) -> HealthResult:
    """Return the health of a Pod.

    Source: `podConditions` of kstatus.
    """
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
    """Return the health of a failed Pod.

    If a controller owns the Pod, the Pod is Current, because the controller replaces or counts the Pod. If no
    controller owns the Pod, the Pod is Failed.
    """
    reason = view.value_at("status", "reason") or view.value_at("status", "message")
    text = f"failed: {reason or 'a container ended with an error'}"
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
    """Return the health of a Job.

    In contrast to kstatus, a running Job is InProgress.

    Source: `jobConditions` of kstatus.
    """
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


_NO_DEADLINE = 2**31 - 1


def deployment(view: HealthView) -> HealthResult:
    """Return the health of a Deployment.

    Source: `deploymentConditions` of kstatus.
    """
    progressing = view.condition("Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return failed_result(describe_condition(progressing))
    desired, updated = view.replicas, view.status_number("updatedReplicas")
    shortage = first_result(
        check_minimum("created", view.status_number("replicas"), desired),
        check_minimum("updated", updated, desired),
        check_surplus(view.status_number("replicas"), desired),
        check_minimum("available", view.status_number("availableReplicas"), updated),
        check_minimum("ready", view.status_number("readyReplicas"), desired),
    )
    if shortage:
        return shortage
    has_deadline = view.number("spec", "progressDeadlineSeconds", default=_NO_DEADLINE) != _NO_DEADLINE
    is_rolled_out = progressing.get("status") == "True" and progressing.get("reason") == "NewReplicaSetAvailable"
    if has_deadline and not is_rolled_out:
        return progress_result("the new ReplicaSet is not available yet")
    return (
        current_result(f"{desired} available")
        if view.is_condition_true("Available")
        else progress_result("condition Available is not True")
    )


def replica_set(view: HealthView) -> HealthResult:
    """Return the health of a ReplicaSet.

    Source: `replicasetConditions` of kstatus.
    """
    if view.is_condition_true("ReplicaFailure"):
        return progress_result(describe_condition(view.condition("ReplicaFailure")))
    desired = view.replicas
    return first_result(
        check_minimum("labelled", view.status_number("fullyLabeledReplicas"), desired),
        check_minimum("available", view.status_number("availableReplicas"), desired),
        check_minimum("ready", view.status_number("readyReplicas"), desired),
        check_surplus(view.status_number("replicas"), desired),
    ) or current_result(f"{desired} available")


def stateful_set(view: HealthView) -> HealthResult:
    """Return the health of a StatefulSet.

    Source: `stsConditions` of kstatus.
    """
    if view.value_at("spec", "updateStrategy", "type") == "OnDelete":
        return current_result("the controller replaces a Pod only after its deletion (OnDelete)")
    desired = view.replicas
    shortage = first_result(
        check_minimum("created", view.status_number("replicas"), desired),
        check_minimum("ready", view.status_number("readyReplicas"), desired),
        check_surplus(view.status_number("replicas"), desired),
    )
    if shortage:
        return shortage
    partition = view.value_at("spec", "updateStrategy", "rollingUpdate", "partition")
    if partition is not None:
        updated_shortage = check_minimum("updated", view.status_number("updatedReplicas"), desired - partition)
        return updated_shortage or current_result(f"{desired} ready")
    return check_minimum("current", view.status_number("currentReplicas"), desired) or _revision_result(view)


def _revision_result(view: HealthView) -> HealthResult:
    running, update = view.value_at("status", "currentRevision"), view.value_at("status", "updateRevision")
    return (
        current_result(f"at revision {running}")
        if running == update
        else progress_result(f"the update from {running} to {update} is in progress")
    )


def daemon_set(view: HealthView) -> HealthResult:
    """Return the health of a DaemonSet.

    Source: `daemonsetConditions` of kstatus.
    """
    if view.value_at("metadata", "generation") is None or view.value_at("status", "observedGeneration") is None:
        return progress_result("the controller has not observed the generation yet")
    desired = view.value_at("status", "desiredNumberScheduled")
    if desired is None:
        return progress_result("the number of nodes is not known yet")
    return first_result(
        check_minimum("scheduled", view.status_number("currentNumberScheduled"), desired),
        check_minimum("updated", view.status_number("updatedNumberScheduled"), desired),
        check_minimum("available", view.status_number("numberAvailable"), desired),
        check_minimum("ready", view.status_number("numberReady"), desired),
    ) or current_result(f"{desired} ready")


CLAIM_KIND = GroupKind("", "PersistentVolumeClaim")


def _always_current(view: HealthView) -> HealthResult:
    return current_result("exists")


def _claim_health(view: HealthView) -> HealthResult:
    phase = view.value_at("status", "phase")
    return (
        current_result("bound")
        if phase == "Bound"
        else progress_result(f"the phase is {phase or 'not set'}, not Bound")
    )


def _service_health(view: HealthView) -> HealthResult:
    if view.value_at("spec", "type") == "LoadBalancer" and not view.value_at("spec", "clusterIP"):
        return progress_result("no cluster address yet")
    return current_result("exists")


def _crd_health(view: HealthView) -> HealthResult:
    names, established = view.condition("NamesAccepted"), view.condition("Established")
    if names.get("status") == "False":
        return failed_result(describe_condition(names))
    if established.get("status") == "True":
        return current_result("established")
    if established.get("status") == "False" and established.get("reason") != "Installing":
        return failed_result(describe_condition(established))
    return progress_result("not established yet")


HEALTH_RULES: Mapping[GroupKind, Callable[[HealthView], HealthResult]] = {
    GroupKind("apps", "Deployment"): deployment,
    GroupKind("extensions", "Deployment"): deployment,
    GroupKind("apps", "ReplicaSet"): replica_set,
    GroupKind("extensions", "ReplicaSet"): replica_set,
    GroupKind("apps", "StatefulSet"): stateful_set,
    GroupKind("apps", "DaemonSet"): daemon_set,
    GroupKind("extensions", "DaemonSet"): daemon_set,
    GroupKind("", "Pod"): pod,
    GroupKind("batch", "Job"): job,
    GroupKind("batch", "CronJob"): _always_current,
    GroupKind("", "ConfigMap"): _always_current,
    GroupKind("", "Secret"): _always_current,
    GroupKind("policy", "PodDisruptionBudget"): _always_current,
    CLAIM_KIND: _claim_health,
    GroupKind("", "Service"): _service_health,
    CRD: _crd_health,
}

OBSERVING_KINDS = frozenset(
    {
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "StatefulSet"),
        GroupKind("apps", "DaemonSet"),
        GroupKind("apps", "ReplicaSet"),
        GroupKind("", "ReplicationController"),
        GroupKind("policy", "PodDisruptionBudget"),
    }
)
"""Kinds whose controllers always publish `status.observedGeneration`. If the field is missing, no controller has
observed the object yet.
"""
