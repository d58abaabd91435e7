"""Leanest possible client for the writes of Levelgate in a row: aiohttp, with bodies that are serialized beforehand.

The client sends the requests to a control plane of its own, in their order, with many in flight. Statuses come last,
because no request waits for an answer. The client leaves out merge patches, deletions and failed requests. The bodies
contain no uids and versions of the other cluster.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from bench.applying import IN_FLIGHT, send
from bench.kro.fleet import INSTANCES
from bench.kro.systems import wait_until_served, written
from tests.support.cluster.audit import AuditEvent
from tests.support.cluster.control_plane import ControlPlane


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Successful apply, ready for another cluster."""

    resource: str
    namespace: str
    is_status: bool
    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class BareFigures:
    """Cost of sending, in seconds of wall clock and of CPU."""

    requests: int
    seconds: float
    cpu: float


def record(event: AuditEvent) -> RecordedRequest | None:
    """Return a request for another cluster, or None if another cluster cannot accept the request."""
    if event.verb != "patch" or event.code >= 300 or event.resource == "leases" or not _is_apply(event.request):
        return None
    body = orjson.dumps(without_identity(event.request))
    return RecordedRequest(event.resource, event.namespace, event.subresource == "status", event.uri, body)


def _is_apply(body: object) -> bool:
    """Return whether `body` is an apply, which names the kind of its object. A merge patch of Levelgate does not."""
    return isinstance(body, dict) and "kind" in body


def without_identity(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the fields that only its own cluster knows."""
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key not in ("uid", "resourceVersion")}
    return {**body, "metadata": metadata}


def prepare(server: ControlPlane, requests: Iterable[RecordedRequest]) -> list[RecordedRequest]:
    """Create the namespaces and CRDs of a first deployment, and return the remaining requests."""
    known = list(requests)
    for namespace in sorted({one.namespace for one in known if one.namespace}):
        written(server, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    crds = [one for one in known if one.resource == "customresourcedefinitions"]
    for crd in crds:
        written(server, "PATCH", crd.path, orjson.loads(crd.body), "application/apply-patch+yaml")
    wait_until_served(server, INSTANCES)
    return [one for one in known if one.resource != "customresourcedefinitions"]


def play(server: ControlPlane, requests: Sequence[RecordedRequest]) -> BareFigures:
    """Send the requests."""
    phases = [[(one.path, one.body) for one in requests if one.is_status is last] for last in (False, True)]
    gc.collect()
    gc.freeze()  # What the bench holds is not the client's.
    begun, before = time.perf_counter(), time.process_time()
    for phase in phases:
        asyncio.run(send(server, "PATCH", phase, in_flight=IN_FLIGHT))
    return BareFigures(sum(map(len, phases)), time.perf_counter() - begun, time.process_time() - before)
