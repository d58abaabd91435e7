"""What the controllers of workloads must have got done: Deployments, ReplicaSets, StatefulSets, DaemonSets."""

from __future__ import annotations

from applier.status.model import (
    HealthResult,
    HealthView,
    check_minimum,
    check_surplus,
    current_result,
    describe_condition,
    failed_result,
    first_result,
    progress_result,
)

_NO_DEADLINE = 2**31 - 1


def deployment(view: HealthView) -> HealthResult:
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
    if view.value_at("spec", "updateStrategy", "type") == "OnDelete":
        return current_result("its Pods are replaced by whoever deletes them (OnDelete)")
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
        else progress_result(f"moves from {running} to {update}")
    )


def daemon_set(view: HealthView) -> HealthResult:
    if view.value_at("metadata", "generation") is None or view.value_at("status", "observedGeneration") is None:
        return progress_result("its generation is not observed yet")
    desired = view.value_at("status", "desiredNumberScheduled")
    if desired is None:
        return progress_result("the number of nodes is not known yet")
    return first_result(
        check_minimum("scheduled", view.status_number("currentNumberScheduled"), desired),
        check_minimum("updated", view.status_number("updatedNumberScheduled"), desired),
        check_minimum("available", view.status_number("numberAvailable"), desired),
        check_minimum("ready", view.status_number("numberReady"), desired),
    ) or current_result(f"{desired} ready")
