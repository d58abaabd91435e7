"""Connection to one cluster of a fleet, within the limits that the `Cluster` declares."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from applier.cluster import Reader
from gitops.fleet.access import AccessSettings, AccessSource
from gitops.fleet.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster


def access_source(spec: ClusterSpec, settings: AccessSettings, hub: Reader) -> AccessSource:
    """Return the source of credentials of the cluster `spec`, which is not `local`."""
    assert spec.access is not None, f"{spec.name} uses Levelgate's own connection"
    return AccessSource(spec.name, spec.access, settings, hub)


@asynccontextmanager
async def connect_cluster(
    spec: ClusterSpec, source: AccessSource, *, concurrency: int, unreachable_seconds: float
) -> AsyncIterator[KubeCluster]:
    """Connect to the cluster for the duration of the block, with credentials of `source`.

    Args:
        concurrency: limit of concurrent requests.
        unreachable_seconds: time in seconds for which the connection retries calls to an unreachable server.

    Raises: AccessRefused if a person has to act, ConfigurationError if the credentials are unreadable.
    """
    from applier.kube import connect_to

    request_timeout = spec.timeouts.request
    cluster = await connect_to(
        source,
        name=spec.name,
        concurrency=concurrency,
        unreachable_seconds=unreachable_seconds,
        rate=spec.rate,
        silence_seconds=None if request_timeout is None else request_timeout.total_seconds(),
    )
    try:
        yield cluster
    finally:
        await cluster.close()
