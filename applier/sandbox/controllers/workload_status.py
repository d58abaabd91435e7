"""What the controllers of workloads report of an object, by how far it has come, worded as the real ones do.

Source: the Kubernetes API reference of each kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from renderer.frozen import dataclass

Object = dict[str, Any]
Patches = Mapping[str, Object]
"""Merge patches by subresource ("" is the object itself), in the order in which they are made."""


@dataclass(frozen=True, slots=True)
class WorkloadProgress:
    """Where a rollout is: `part` of it done (0 to 1), or `failed`. `earlier` replicas were available before it."""

    part: float
    failed: bool
    earlier: int
    now: str

    def of(self, count: int) -> int:
        return int(count * self.part)


def _condition(kind: str, held: bool, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": "True" if held else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "lastUpdateTime": now,
    }


def _replicas(obj: Object) -> int:
    count = (obj.get("spec") or {}).get("replicas", 1)
    return count if isinstance(count, int) else 1


def _deployment(obj: Object, progress: WorkloadProgress) -> Patches:
    wanted, updated = _replicas(obj), progress.of(_replicas(obj))
    available = min(wanted, max(updated, progress.earlier))
    enough = available >= wanted
    name = obj["metadata"]["name"]
    if progress.failed:
        rolled = (False, "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
    elif progress.part == 1:
        rolled = (True, "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
    else:
        rolled = (True, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    told = (
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "replicas": wanted,
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        "unavailableReplicas": wanted - available or None,
        "conditions": [
            _condition("Available", enough, *told, progress.now),
            _condition("Progressing", *rolled, progress.now),
        ],
    }
    return {"status": {"status": status}}


def _revision(obj: Object) -> str:
    """A name for the pod template, as controller revisions have."""
    template = orjson.dumps((obj.get("spec") or {}).get("template"), option=orjson.OPT_SORT_KEYS)
    return f"{obj['metadata']['name']}-{hashlib.blake2b(template, digest_size=5).hexdigest()}"


def _stateful_set(obj: Object, progress: WorkloadProgress) -> Patches:
    wanted, updated, revision = _replicas(obj), progress.of(_replicas(obj)), _revision(obj)
    current = (obj.get("status") or {}).get("currentRevision") or revision
    available = min(wanted, max(updated, progress.earlier))
    done = progress.part == 1
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "replicas": wanted,
        "readyReplicas": available,
        "availableReplicas": available,
        "updatedReplicas": updated,
        "currentReplicas": wanted if done else wanted - updated,
        "updateRevision": revision,
        "currentRevision": revision if done else current,
    }
    return {"status": {"status": status}}


def _daemon_set(obj: Object, progress: WorkloadProgress) -> Patches:
    """On the one node that there would be."""
    ready = int(progress.part)
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": 1,
        "numberMisscheduled": 0,
        "updatedNumberScheduled": ready,
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": None if ready else 1,
    }
    return {"status": {"status": status}}


def _replica_set(obj: Object, progress: WorkloadProgress) -> Patches:
    ready = progress.of(_replicas(obj))
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "replicas": _replicas(obj),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "fullyLabeledReplicas": _replicas(obj),
    }
    return {"status": {"status": status}}


def _disruption_budget(obj: Object, progress: WorkloadProgress) -> Patches:
    """There are no pods, so none may be disrupted."""
    condition = _plain(_condition("DisruptionAllowed", False, "InsufficientPods", "", progress.now))
    generation = obj["metadata"].get("generation", 1)
    counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0)
    conditions = [{**condition, "observedGeneration": generation}]
    return {"status": {"status": {"observedGeneration": generation, **counts, "conditions": conditions}}}


def _job(obj: Object, progress: WorkloadProgress) -> Patches:
    completions = (obj.get("spec") or {}).get("completions") or 1
    status: Object = {"startTime": (obj.get("status") or {}).get("startTime") or progress.now}
    if progress.failed:
        message = "Job has reached the specified backoff limit"
        held = [_condition(kind, True, "BackoffLimitExceeded", message, progress.now) for kind in _FAILED]
        status |= {"active": None, "failed": 1, "ready": 0, "conditions": [_plain(one) for one in held]}
    elif progress.part == 1:
        message = "Reached expected number of succeeded pods"
        held = [_condition(kind, True, "CompletionsReached", message, progress.now) for kind in _COMPLETE]
        ended = (obj.get("status") or {}).get("completionTime") or progress.now
        status |= {"active": None, "succeeded": completions, "ready": 0, "completionTime": ended}
        status["conditions"] = [_plain(one) for one in held]
    else:
        status |= {"active": 1, "ready": 1, "succeeded": progress.of(completions) or None}
    return {"status": {"status": status}}


_FAILED, _COMPLETE = ("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")


def _plain(condition: Object) -> Object:
    """A condition without lastUpdateTime, which only Deployments have."""
    return {name: value for name, value in condition.items() if name != "lastUpdateTime"}


def _pod(obj: Object, progress: WorkloadProgress) -> Patches:
    if progress.failed:
        return {"status": {"status": {"phase": "Failed", "reason": "Error"}}}
    ready = progress.part == 1
    reason = "" if ready else "ContainersNotReady"
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    conditions = [_plain(_condition(kind, ready or kind in kinds[:2], reason, "", progress.now)) for kind in kinds]
    containers = [
        {
            "name": one.get("name", ""),
            "ready": ready,
            "restartCount": 0,
            "image": one.get("image", ""),
            "imageID": "",
        }
        for one in (obj.get("spec") or {}).get("containers") or ()
    ]
    phase = "Running" if ready else "Pending"
    return {"status": {"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers}}}


def _service(obj: Object, progress: WorkloadProgress) -> Patches:
    """An address of TEST-NET-1 (RFC 5737), which leads nowhere, for those that ask for a load balancer."""
    if (obj.get("spec") or {}).get("type") != "LoadBalancer" or progress.part < 1:
        return {}
    return {"status": {"status": {"loadBalancer": {"ingress": [{"ip": _address(obj), "ipMode": "VIP"}]}}}}


def _ingress(obj: Object, progress: WorkloadProgress) -> Patches:
    if progress.part < 1:
        return {}
    return {"status": {"status": {"loadBalancer": {"ingress": [{"ip": _address(obj)}]}}}}


def _address(obj: Object) -> str:
    return f"192.0.2.{int(hashlib.blake2b(obj['metadata']['uid'].encode(), digest_size=2).hexdigest(), 16) % 254 + 1}"


def _claim(obj: Object, progress: WorkloadProgress) -> Patches:
    if progress.part < 1:
        return {}
    spec = obj.get("spec") or {}
    requests = (spec.get("resources") or {}).get("requests") or {}
    volume = spec.get("volumeName") or f"pvc-{obj['metadata']['uid']}"
    capacity = {"storage": requests.get("storage", "1Gi")}
    status = {"phase": "Bound", "accessModes": spec.get("accessModes", []), "capacity": capacity}
    return {"": {"spec": {"volumeName": volume}}, "status": {"status": status}}


STATUS: Final[Mapping[str, Callable[[Object, WorkloadProgress], Patches]]] = {
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "ingresses.networking.k8s.io": _ingress,
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "poddisruptionbudgets.policy": _disruption_budget,
    "pods": _pod,
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replica_set,
    "services": _service,
    "statefulsets.apps": _stateful_set,
}
"""What is reported, by resource."""
