"""The rule of each kind that has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from applier.status import rules, runs
from applier.status.model import HealthResult, HealthView, current, describe_condition, failed, progress
from renderer.identity import GroupKind
from renderer.kinds import CRD

CLAIM = GroupKind("", "PersistentVolumeClaim")


def _always(view: HealthView) -> HealthResult:
    return current("exists")


def _claim(view: HealthView) -> HealthResult:
    phase = view.at("status", "phase")
    return current("bound") if phase == "Bound" else progress(f"phase {phase or 'not set'}, wants Bound")


def _service(view: HealthView) -> HealthResult:
    if view.at("spec", "type") == "LoadBalancer" and not view.at("spec", "clusterIP"):
        return progress("no cluster address yet")
    return current("exists")


def _definition(view: HealthView) -> HealthResult:
    names, established = view.condition("NamesAccepted"), view.condition("Established")
    if names.get("status") == "False":
        return failed(describe_condition(names))
    if established.get("status") == "True":
        return current("established")
    if established.get("status") == "False" and established.get("reason") != "Installing":
        return failed(describe_condition(established))
    return progress("not established yet")


RULES: Mapping[GroupKind, Callable[[HealthView], HealthResult]] = {
    GroupKind("apps", "Deployment"): rules.deployment,
    GroupKind("extensions", "Deployment"): rules.deployment,
    GroupKind("apps", "ReplicaSet"): rules.replica_set,
    GroupKind("extensions", "ReplicaSet"): rules.replica_set,
    GroupKind("apps", "StatefulSet"): rules.stateful_set,
    GroupKind("apps", "DaemonSet"): rules.daemon_set,
    GroupKind("extensions", "DaemonSet"): rules.daemon_set,
    GroupKind("", "Pod"): runs.pod,
    GroupKind("batch", "Job"): runs.job,
    GroupKind("batch", "CronJob"): _always,
    GroupKind("", "ConfigMap"): _always,
    GroupKind("", "Secret"): _always,
    GroupKind("policy", "PodDisruptionBudget"): _always,
    CLAIM: _claim,
    GroupKind("", "Service"): _service,
    CRD: _definition,
}

OBSERVERS = frozenset(
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
