"""Reasons why the Pods of a workload do not run."""

from __future__ import annotations

from typing import Any

from applier.cluster import ClusterName, Discovery, Object
from applier.recorded_cluster import RecordedCluster
from gitops.explain.pods import MAX_POD_REASONS, find_pod_problems
from renderer.identity import ObjectKey

WEB = ObjectKey("apps", "Deployment", "prod", "web")


def pod(name: str, **status: Any) -> tuple[ObjectKey, Object]:
    metadata = {"name": name, "namespace": "prod", "labels": {"app": "web"}}
    return ObjectKey("", "Pod", "prod", name), {"metadata": metadata, "status": status}


def container(reason: str, message: str = "", exit_code: int | None = None) -> dict[str, Any]:
    ended = {} if exit_code is None else {"terminated": {"exitCode": exit_code}}
    return {"name": "web", "state": {"waiting": {"reason": reason, "message": message}}, "lastState": ended}


async def problems(*pods: tuple[ObjectKey, Object]) -> tuple[str, ...]:
    deployment = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    cluster = RecordedCluster(ClusterName("prod-eu"), {WEB: deployment, **dict(pods)}, Discovery({}))
    return await find_pod_problems(cluster, WEB)


async def test_each_reason_is_named_once_with_the_first_pod() -> None:
    pulling = container("ImagePullBackOff", 'Back-off pulling image "nosuch"')
    found = await problems(pod("web-a", containerStatuses=[pulling]), pod("web-b", containerStatuses=[pulling]))
    assert found == ('Pod web-a, container web: ImagePullBackOff: Back-off pulling image "nosuch"',)


async def test_a_container_that_ended_has_its_exit_code() -> None:
    crashed = container("CrashLoopBackOff", exit_code=137)
    found = await problems(pod("web-a", containerStatuses=[crashed]))
    assert found == ("Pod web-a, container web: CrashLoopBackOff, exit code 137",)


async def test_a_pod_that_has_no_machine_says_why() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}
    assert await problems(pod("web-a", conditions=[condition])) == (
        "Pod web-a, not scheduled: Unschedulable: no node fits",
    )


async def test_a_pod_that_starts_is_no_problem_and_reasons_are_bounded() -> None:
    assert await problems(pod("web-a", containerStatuses=[container("ContainerCreating")])) == ()
    many = [pod(f"web-{number}", containerStatuses=[container(f"Broken{number}")]) for number in range(9)]
    assert len(await problems(*many)) == MAX_POD_REASONS


async def test_a_kind_without_pods_has_none() -> None:
    cluster = RecordedCluster(ClusterName("prod-eu"), {}, Discovery({}))
    assert await find_pod_problems(cluster, ObjectKey("", "Service", "prod", "web")) == ()
