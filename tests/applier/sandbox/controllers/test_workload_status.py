"""Statuses of workloads, by how far they are."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.controllers.workload_status import STATUS_BUILDERS, WorkloadProgress
from applier.status import KStatus, health

NOW = "2026-01-01T00:00:00Z"
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "uid": "u", "generation": 2},
    "spec": {"replicas": 4, "progressDeadlineSeconds": 600},
}


@pytest.mark.parametrize(
    ("progress", "status"),
    [
        (WorkloadProgress(0.5, False, 0, NOW), KStatus.IN_PROGRESS),
        (WorkloadProgress(1.0, False, 0, NOW), KStatus.CURRENT),
        (WorkloadProgress(0.0, True, 0, NOW), KStatus.FAILED),
    ],
)
def test_a_deployment_is_as_healthy_as_its_rollout(progress: WorkloadProgress, status: KStatus) -> None:
    patch = STATUS_BUILDERS["deployments.apps"](DEPLOYMENT, progress)["status"]
    assert health({**DEPLOYMENT, **patch}).status is status


def test_old_replicas_stay_available_during_a_rollout() -> None:
    patch = STATUS_BUILDERS["deployments.apps"](DEPLOYMENT, WorkloadProgress(0.25, False, 3, NOW))["status"]["status"]
    assert (patch["updatedReplicas"], patch["availableReplicas"]) == (1, 3)


def test_only_a_load_balancer_gets_an_address() -> None:
    done = WorkloadProgress(1.0, False, 0, NOW)
    service = {"metadata": {"uid": "u"}, "spec": {"type": "ClusterIP"}}
    assert STATUS_BUILDERS["services"](service, done) == {}
    assert STATUS_BUILDERS["services"]({**service, "spec": {"type": "LoadBalancer"}}, done)
