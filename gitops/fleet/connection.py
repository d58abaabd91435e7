"""A connection to one cluster of a fleet, for as long as somebody needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from applier.cluster import ClusterName, Reader
from gitops.fleet.access import AccessSettings, AccessSource
from gitops.fleet.cluster_spec import ClusterAccess

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster


@asynccontextmanager
async def connect_cluster(
    name: ClusterName,
    access: ClusterAccess,
    settings: AccessSettings,
    hub: Reader,
    *,
    concurrency: int,
    unreachable_seconds: float,
) -> AsyncIterator[KubeCluster]:
    """The cluster of this name, by the credentials that its access leads to. Raises ConfigurationError: AccessRefused where somebody has to act."""
    from applier.kube import connect_to

    source = AccessSource(name, access, settings, hub)
    cluster = await connect_to(source, name=name, concurrency=concurrency, unreachable_seconds=unreachable_seconds)
    try:
        yield cluster
    finally:
        await cluster.close()
