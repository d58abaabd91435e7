"""What the controllers of workloads must have got done: Deployments, ReplicaSets, StatefulSets, DaemonSets."""

from __future__ import annotations

from applier.status.model import (
    HealthResult,
    HealthView,
    above,
    below,
    current,
    describe_condition,
    failed,
    first,
    progress,
)

_NO_DEADLINE = 2**31 - 1


def deployment(view: HealthView) -> HealthResult:
    progressing = view.condition("Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return failed(describe_condition(progressing))
    wanted, updated = view.replicas, view.status("updatedReplicas")
    shortage = first(
        below("created", view.status("replicas"), wanted),
        below("updated", updated, wanted),
        above(view.status("replicas"), wanted),
        below("available", view.status("availableReplicas"), updated),
        below("ready", view.status("readyReplicas"), wanted),
    )
    if shortage:
        return shortage
    bounded = view.number("spec", "progressDeadlineSeconds", default=_NO_DEADLINE) != _NO_DEADLINE
    done = progressing.get("status") == "True" and progressing.get("reason") == "NewReplicaSetAvailable"
    if bounded and not done:
        return progress("the new ReplicaSet is not available yet")
    return current(f"{wanted} available") if view.is_true("Available") else progress("condition Available is not True")


def replica_set(view: HealthView) -> HealthResult:
    if view.is_true("ReplicaFailure"):
        return progress(describe_condition(view.condition("ReplicaFailure")))
    wanted = view.replicas
    return first(
        below("labelled", view.status("fullyLabeledReplicas"), wanted),
        below("available", view.status("availableReplicas"), wanted),
        below("ready", view.status("readyReplicas"), wanted),
        above(view.status("replicas"), wanted),
    ) or current(f"{wanted} available")


def stateful_set(view: HealthView) -> HealthResult:
    if view.at("spec", "updateStrategy", "type") == "OnDelete":
        return current("its Pods are replaced by whoever deletes them (OnDelete)")
    wanted = view.replicas
    shortage = first(
        below("created", view.status("replicas"), wanted),
        below("ready", view.status("readyReplicas"), wanted),
        above(view.status("replicas"), wanted),
    )
    if shortage:
        return shortage
    partition = view.at("spec", "updateStrategy", "rollingUpdate", "partition")
    if partition is not None:
        behind = below("updated", view.status("updatedReplicas"), wanted - partition)
        return behind or current(f"{wanted} ready")
    return below("current", view.status("currentReplicas"), wanted) or _same_revision(view)


def _same_revision(view: HealthView) -> HealthResult:
    running, update = view.at("status", "currentRevision"), view.at("status", "updateRevision")
    return current(f"at revision {running}") if running == update else progress(f"moves from {running} to {update}")


def daemon_set(view: HealthView) -> HealthResult:
    if view.at("metadata", "generation") is None or view.at("status", "observedGeneration") is None:
        return progress("its generation is not observed yet")
    wanted = view.at("status", "desiredNumberScheduled")
    if wanted is None:
        return progress("the number of nodes is not known yet")
    return first(
        below("scheduled", view.status("currentNumberScheduled"), wanted),
        below("updated", view.status("updatedNumberScheduled"), wanted),
        below("available", view.status("numberAvailable"), wanted),
        below("ready", view.status("numberReady"), wanted),
    ) or current(f"{wanted} ready")
