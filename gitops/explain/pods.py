"""Why the Pods of a workload do not run, as the kubelet and the scheduler say it: what a workload itself tells is only how many are missing."""

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
MOST: Final = 3
"""Pods of one workload mostly say the same."""

_USUAL: Final = frozenset({"", "ContainerCreating", "PodInitializing"})


async def stuck(cluster: Cluster, key: ObjectKey) -> tuple[str, ...]:
    """`Pod shop-6d4, container web: ImagePullBackOff: Back-off pulling image "nosuch"`, each reason once; nothing for what has no Pods. Raises
    ClusterError, but not for want of rights.
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
    found: dict[str, str] = {}
    for pod in pods:
        for why in _reasons(pod):
            found.setdefault(why, f"Pod {pod['metadata']['name']}, {why}")
    return tuple(found.values())[:MOST]


def _reasons(pod: Object) -> Iterator[str]:
    status: dict[str, Any] = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _told("not scheduled", condition)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, (container.get("lastState") or {}).get("terminated") or {}
        if waiting.get("reason", "") not in _USUAL:
            code = f", exit code {ended['exitCode']}" if "exitCode" in ended else ""
            yield _told(f"container {container['name']}", waiting) + code


def _told(what: str, why: dict[str, Any]) -> str:
    return ": ".join(filter(None, (what, why.get("reason", ""), why.get("message", ""))))
