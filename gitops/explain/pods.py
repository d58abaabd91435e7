"""Reasons why Pods of a workload do not run, from the kubelet and the scheduler.

The status of a workload itself reports only the number of missing Pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from applier.cluster import Cluster, Object
from applier.errors import Denied
from renderer.identity import GroupKind, ObjectKey

POD: Final = GroupKind("", "Pod")
WORKLOADS: Final = frozenset(
    {GroupKind("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")}
    | {GroupKind("batch", "Job"), POD}
)
MAX_POD_REASONS: Final = 3
"""Maximum number of reasons for a workload. Pods of one workload usually have the same reason."""

_STARTING_REASONS: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a container that starts normally."""


async def find_pod_problems(cluster: Cluster, key: ObjectKey) -> tuple[str, ...]:
    """Return the reasons why Pods of the workload `key` do not run, each with the first Pod that has the reason.

    If the workload has no Pods, or if the server denies the read of Pods, return an empty tuple. Example: `Pod
    shop-6d4, container web: ImagePullBackOff: Back-off pulling image "nosuch"`.

    Raises: ClusterError, but not Denied.
    """
    if key.group_kind not in WORKLOADS:
        return ()
    try:
        workload = await cluster.get(key)
        labels = ((workload or {}).get("spec", {}).get("selector") or {}).get("matchLabels") or {}
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        pods = await cluster.list(POD, key.namespace, selector=selector) if selector else []
    except Denied:
        return ()
    if workload and key.group_kind == POD:
        pods = [workload]
    problems: dict[str, str] = {}
    for pod in pods:
        for reason in _pod_reasons(pod):
            problems.setdefault(reason, f"Pod {pod['metadata']['name']}, {reason}")
    return tuple(problems.values())[:MAX_POD_REASONS]


def _pod_reasons(pod: Object) -> Iterator[str]:
    status: dict[str, Any] = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _join_reason("not scheduled", condition)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, (container.get("lastState") or {}).get("terminated") or {}
        if waiting.get("reason", "") not in _STARTING_REASONS:
            code = f", exit code {ended['exitCode']}" if "exitCode" in ended else ""
            yield _join_reason(f"container {container['name']}", waiting) + code


def _join_reason(subject: str, state: dict[str, Any]) -> str:
    return ": ".join(filter(None, (subject, state.get("reason", ""), state.get("message", ""))))
