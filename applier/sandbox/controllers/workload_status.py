"""Builders of the statuses of workloads, with the messages of the real workload controllers.

A status depends on the progress of the workload.

Source: the Kubernetes API reference of each kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from applier.cluster import Object
from renderer.frozen import dataclass

Patches = Mapping[str, Object]
"""Merge patches by subresource, in the order of the requests. The key "" represents the object itself."""


@dataclass(frozen=True, slots=True)
class WorkloadProgress:
    """Progress of a workload's rollout."""

    fraction: float
    """Completed part of the rollout, from 0 to 1."""
    failed: bool
    """True if the rollout has ended without success."""
    previously_available: int
    """Number of replicas that were available before the rollout."""
    now: str
    """Time at which the rollout has this progress, in RFC 3339 and UTC."""

    def count_done(self, count: int) -> int:
        return int(count * self.fraction)


def _build_condition(condition_type: str, is_true: bool, reason: str, message: str, now: str) -> Object:
    return {
        "type": condition_type,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }


def _status_patches(obj: Object, **fields: Any) -> Patches:
    """Return the patch that sets `fields` and the observed generation of `obj` in its status."""
    return {"status": {"status": {"observedGeneration": obj["metadata"].get("generation", 1), **fields}}}


def _desired_replicas(obj: Object) -> int:
    count = (obj.get("spec") or {}).get("replicas", 1)
    return count if isinstance(count, int) else 1


def _deployment_status(obj: Object, progress: WorkloadProgress) -> Patches:
    desired, updated = _desired_replicas(obj), progress.count_done(_desired_replicas(obj))
    available = min(desired, max(updated, progress.previously_available))
    is_available = available >= desired
    name = obj["metadata"]["name"]
    if progress.failed:
        progressing = (False, "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
    elif progress.fraction == 1:
        progressing = (True, "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
    else:
        progressing = (True, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    availability = (
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        if is_available
        else ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    conditions = [
        _build_condition("Available", is_available, *availability, progress.now),
        _build_condition("Progressing", *progressing, progress.now),
    ]
    return _status_patches(
        obj,
        replicas=desired,
        updatedReplicas=updated,
        readyReplicas=available,
        availableReplicas=available,
        unavailableReplicas=desired - available or None,
        conditions=[{**condition, "lastUpdateTime": progress.now} for condition in conditions],
    )


def _revision_name(obj: Object) -> str:
    """Return a name for the pod template of `obj`, in the form that names of ControllerRevisions have."""
    template = orjson.dumps((obj.get("spec") or {}).get("template"), option=orjson.OPT_SORT_KEYS)
    return f"{obj['metadata']['name']}-{hashlib.blake2b(template, digest_size=5).hexdigest()}"


def _stateful_set_status(obj: Object, progress: WorkloadProgress) -> Patches:
    desired, updated, revision = (
        _desired_replicas(obj),
        progress.count_done(_desired_replicas(obj)),
        _revision_name(obj),
    )
    current_revision = (obj.get("status") or {}).get("currentRevision") or revision
    available = min(desired, max(updated, progress.previously_available))
    is_done = progress.fraction == 1
    return _status_patches(
        obj,
        replicas=desired,
        readyReplicas=available,
        availableReplicas=available,
        updatedReplicas=updated,
        currentReplicas=desired if is_done else desired - updated,
        updateRevision=revision,
        currentRevision=revision if is_done else current_revision,
    )


def _daemon_set_status(obj: Object, progress: WorkloadProgress) -> Patches:
    """Return the status of a DaemonSet, for the cluster with a single node that the sandbox simulates."""
    ready = int(progress.fraction)
    return _status_patches(
        obj,
        desiredNumberScheduled=1,
        currentNumberScheduled=1,
        numberMisscheduled=0,
        updatedNumberScheduled=ready,
        numberReady=ready,
        numberAvailable=ready,
        numberUnavailable=None if ready else 1,
    )


def _replica_set_status(obj: Object, progress: WorkloadProgress) -> Patches:
    desired, ready = _desired_replicas(obj), progress.count_done(_desired_replicas(obj))
    return _status_patches(
        obj, replicas=desired, readyReplicas=ready, availableReplicas=ready, fullyLabeledReplicas=desired
    )


def _disruption_budget_status(obj: Object, progress: WorkloadProgress) -> Patches:
    """Return the status of a PodDisruptionBudget that selects no pods, so that no disruption is allowed."""
    condition = _build_condition("DisruptionAllowed", False, "InsufficientPods", "", progress.now)
    counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0)
    conditions = [{**condition, "observedGeneration": obj["metadata"].get("generation", 1)}]
    return _status_patches(obj, **counts, conditions=conditions)


def _job_status(obj: Object, progress: WorkloadProgress) -> Patches:
    completions, previous = (obj.get("spec") or {}).get("completions") or 1, obj.get("status") or {}
    status: Object = {"startTime": previous.get("startTime") or progress.now}
    if progress.failed:
        reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        status |= {"active": None, "failed": 1, "ready": 0}
        status["conditions"] = _end_conditions(("FailureTarget", "Failed"), reason, message, progress.now)
    elif progress.fraction == 1:
        reason, message = "CompletionsReached", "Reached expected number of succeeded pods"
        completion_time = previous.get("completionTime") or progress.now
        status |= {"active": None, "succeeded": completions, "ready": 0, "completionTime": completion_time}
        status["conditions"] = _end_conditions(("SuccessCriteriaMet", "Complete"), reason, message, progress.now)
    else:
        status |= {"active": 1, "ready": 1, "succeeded": progress.count_done(completions) or None}
    return {"status": {"status": status}}


def _end_conditions(condition_types: tuple[str, str], reason: str, message: str, now: str) -> list[Object]:
    return [_build_condition(condition_type, True, reason, message, now) for condition_type in condition_types]


def _pod_status(obj: Object, progress: WorkloadProgress) -> Patches:
    if progress.failed:
        return {"status": {"status": {"phase": "Failed", "reason": "Error"}}}
    ready = progress.fraction == 1
    reason = "" if ready else "ContainersNotReady"
    condition_types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    conditions = [
        _build_condition(condition_type, ready or condition_type in condition_types[:2], reason, "", progress.now)
        for condition_type in condition_types
    ]
    containers = [
        {
            "name": container.get("name", ""),
            "ready": ready,
            "restartCount": 0,
            "image": container.get("image", ""),
            "imageID": "",
        }
        for container in (obj.get("spec") or {}).get("containers") or ()
    ]
    phase = "Running" if ready else "Pending"
    return {"status": {"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers}}}


def _service_status(obj: Object, progress: WorkloadProgress) -> Patches:
    """Return a status with an unreachable address (TEST-NET-1, RFC 5737) for a Service of type LoadBalancer."""
    if (obj.get("spec") or {}).get("type") != "LoadBalancer" or progress.fraction < 1:
        return {}
    return {"status": {"status": {"loadBalancer": {"ingress": [{"ip": _load_balancer_ip(obj), "ipMode": "VIP"}]}}}}


def _ingress_status(obj: Object, progress: WorkloadProgress) -> Patches:
    if progress.fraction < 1:
        return {}
    return {"status": {"status": {"loadBalancer": {"ingress": [{"ip": _load_balancer_ip(obj)}]}}}}


def _load_balancer_ip(obj: Object) -> str:
    return f"192.0.2.{int(hashlib.blake2b(obj['metadata']['uid'].encode(), digest_size=2).hexdigest(), 16) % 254 + 1}"


def _claim_patches(obj: Object, progress: WorkloadProgress) -> Patches:
    if progress.fraction < 1:
        return {}
    spec = obj.get("spec") or {}
    requests = (spec.get("resources") or {}).get("requests") or {}
    volume = spec.get("volumeName") or f"pvc-{obj['metadata']['uid']}"
    capacity = {"storage": requests.get("storage", "1Gi")}
    status = {"phase": "Bound", "accessModes": spec.get("accessModes", []), "capacity": capacity}
    return {"": {"spec": {"volumeName": volume}}, "status": {"status": status}}


STATUS_BUILDERS: Final[Mapping[str, Callable[[Object, WorkloadProgress], Patches]]] = {
    "daemonsets.apps": _daemon_set_status,
    "deployments.apps": _deployment_status,
    "ingresses.networking.k8s.io": _ingress_status,
    "jobs.batch": _job_status,
    "persistentvolumeclaims": _claim_patches,
    "poddisruptionbudgets.policy": _disruption_budget_status,
    "pods": _pod_status,
    "replicasets.apps": _replica_set_status,
    "replicationcontrollers": _replica_set_status,
    "services": _service_status,
    "statefulsets.apps": _stateful_set_status,
}
"""Functions, by resource, that build the patches of an object from its progress."""
