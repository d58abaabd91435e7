"""Kubernetes Events of what has changed, on the instance or on the record of the source (events.k8s.io/v1).

They are told once for each transition, and lost where the server does not take them: what counts stands in statuses and records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final

from applier.cluster import STATUS_MANAGER, Cluster, Object
from applier.errors import ClusterError
from gitops.records.transitions import Transition
from renderer import well_known
from renderer.identity import GroupKind, digest

EVENT: Final = GroupKind("events.k8s.io", "Event")
CONTROLLER: Final = "levelgate"
_LONGEST: Final = 1000
"""In bytes; a server takes 1024 in the note of an Event."""


async def send_events(
    cluster: Cluster, transitions: Iterable[Transition], now: datetime, limit: asyncio.Semaphore
) -> None:
    """Write an Event for each, as many at once as the limit says; one that the server does not take is left out."""

    async def write(one: Transition) -> None:
        async with limit:
            with suppress(ClusterError):
                await cluster.apply(event(one, now), manager=STATUS_MANAGER, force=True)

    await asyncio.gather(*map(write, transitions))


def event(one: Transition, now: datetime) -> Object:
    """The Event of a transition. Its name follows from what it says and when, so that sent twice it is one."""
    key, at = one.key, f"{now:%Y-%m-%dT%H:%M:%S.%fZ}"
    number = digest([one.uid, str(one.event_reason), one.message, at])[:16]
    regarding = {"apiVersion": one.api_version, "kind": key.kind, "name": key.name, "uid": one.uid}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{key.name[:200].rstrip('-.')}.{number}",
            "namespace": key.namespace or "default",
            "labels": {well_known.MANAGED_BY: CONTROLLER},
            "annotations": {well_known.COMMIT: one.commit} if one.commit else {},
        },
        "eventTime": at,
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": "Reconcile",
        "reason": str(one.event_reason),
        "type": "Warning" if one.is_warning else "Normal",
        "regarding": {**regarding, **({"namespace": key.namespace} if key.namespace else {})},
        "note": one.message.encode()[:_LONGEST].decode(errors="ignore"),
    }
