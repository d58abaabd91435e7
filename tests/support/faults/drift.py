"""Drift by other managers: updates and applies of members, and scaled workloads; and their end, where they mean it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.faults.lane import Lane, Object, PathKey, path_of
from tests.support.platform import MERGE

REPLICAS = 2
"""What Git says of each workload."""

_SCRIPT, _OPERATOR, _AUTOSCALER = "script", "operator", "autoscaler"


async def members(lane: Lane, resource: str) -> Sequence[PathKey]:
    """Live members of a kind in the lane, in order; of ConfigMaps those whose text Git sets, as other fields are nobody's drift."""
    return sorted(
        key
        for key, obj in (await lane.objects()).items()
        if key.namespace == lane.namespace
        and key.resource == resource
        and "applyset.kubernetes.io/part-of" in (obj["metadata"].get("labels") or {})
        and (resource != "configmaps" or "text" in (obj.get("data") or {}))
    )


async def update(lane: Lane, key: PathKey, text: str = "by a script") -> None:
    """A script changes a field of Git: drift."""
    await _patch(lane, key, {"data": {"text": text}}, manager=_SCRIPT)


async def apply(lane: Lane, key: PathKey, text: str = "by an operator") -> None:
    """Another tool applies a field of Git by force: a conflict, until it withdraws."""
    await _apply(lane, key, {"data": {"text": text}})


async def scale(lane: Lane, key: PathKey, replicas: int = 5) -> None:
    """An autoscaler scales a workload: a conflict, until it is back at what Git says."""
    path = f"{path_of(key)}/scale?fieldManager={_AUTOSCALER}"
    await lane.ask("PATCH", path, {"spec": {"replicas": replicas}}, kind=MERGE)


async def meddle(lane: Lane, rng: random.Random) -> None:
    """One of these, on some member; nothing where there is none."""
    act = rng.choice((update, apply, scale))
    if keys := await members(lane, "deployments" if act is scale else "configmaps"):
        await act(lane, rng.choice(keys))


async def withdraw(lane: Lane) -> None:
    """The others no longer mean anything: what they applied is nobody's, and what they scaled is as Git says.

    The operator withdraws from objects as well whose label a person has taken off since.
    """
    for key, obj in (await lane.objects()).items():
        is_operated = any(entry["manager"] == _OPERATOR for entry in obj["metadata"].get("managedFields") or ())
        if key.resource == "configmaps" and is_operated:
            await _apply(lane, key, {})
    for key in await members(lane, "deployments"):
        await scale(lane, key, REPLICAS)


async def _patch(lane: Lane, key: PathKey, body: Object, *, manager: str) -> None:
    path = f"{path_of(key)}?fieldManager={manager}"
    await lane.ask("PATCH", path, body, kind=MERGE)


async def _apply(lane: Lane, key: PathKey, content: Object) -> None:
    path = f"{path_of(key)}?fieldManager={_OPERATOR}&force=true"
    metadata = {"name": key.name, "namespace": key.namespace}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}
    await lane.ask("PATCH", path, body, kind="application/apply-patch+yaml")
