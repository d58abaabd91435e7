"""The rule of each kind that has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from applier.status import rules, runs
from applier.status.model import (
    HealthResult,
    HealthView,
    current_result,
    describe_condition,
    failed_result,
    progress_result,
)
from renderer.identity import GroupKind
from renderer.kinds import CRD

CLAIM_KIND = GroupKind("", "PersistentVolumeClaim")


def _always_current(view: HealthView) -> HealthResult:
    return current_result("exists")


def _claim_health(view: HealthView) -> HealthResult:
    phase = view.value_at("status", "phase")
    return current_result("bound") if phase == "Bound" else progress_result(f"phase {phase or 'not set'}, wants Bound")


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
    GroupKind("apps", "Deployment"): rules.deployment,
    GroupKind("extensions", "Deployment"): rules.deployment,
    GroupKind("apps", "ReplicaSet"): rules.replica_set,
    GroupKind("extensions", "ReplicaSet"): rules.replica_set,
    GroupKind("apps", "StatefulSet"): rules.stateful_set,
    GroupKind("apps", "DaemonSet"): rules.daemon_set,
    GroupKind("extensions", "DaemonSet"): rules.daemon_set,
    GroupKind("", "Pod"): runs.pod,
    GroupKind("batch", "Job"): runs.job,
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
"""Kinds whose controllers always publish `status.observedGeneration`, so that its absence means: not looked at yet."""
