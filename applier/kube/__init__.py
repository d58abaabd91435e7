"""Adapter of the port `applier.cluster.Cluster` to a real Kubernetes API server.

Only this package uses `kubernetes` and the aiohttp client of `kubernetes`, and only `connect` imports them. So `import
applier.kube` needs almost no time, and commands without a cluster start fast.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applier.cluster import ClusterName
    from applier.kube.cluster import KubeCluster
    from applier.kube.kubeconfig import KubeconfigSource
    from applier.token_bucket import Rate

__all__ = ["connect", "connect_to", "preload"]


def preload() -> None:
    """Import most modules that `connect` needs.

    If this function runs in a thread, `connect` needs a third less time, because aiohttp reads the certificates of the
    system without the interpreter's lock.
    """
    import_module("aiohttp")


async def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    concurrency: int = 16,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: Callable[[], float] = random.random,
    unreachable_seconds: float = inf,
) -> KubeCluster:
    """Return the cluster that kubectl would choose. Send no request to the cluster.

    Args:
        kubeconfig: path of one file. If `kubeconfig` is None, the first of these applies: `$KUBECONFIG` (one or more
            files), `~/.kube/config`, the service account of the pod.
        context: context of the kubeconfig, or None for the current context.
        concurrency: maximum number of requests in flight.
        sleep: function that waits between attempts.
        rng: function that returns a random number in [0, 1), for the waits between attempts.
        unreachable_seconds: seconds after which requests to an unreachable server fail. If the general limit is
            shorter, that limit applies.

    Raises: ConfigurationError if no cluster can be chosen or its credentials cannot be read.
    """
    from applier.kube.cluster import KubeCluster
    from applier.kube.http_transport import HttpTransport
    from applier.kube.kubeconfig import choose_source

    transport = await HttpTransport.open(choose_source(kubeconfig, context))
    return KubeCluster(
        transport, concurrency=concurrency, sleep=sleep, rng=rng, unreachable_seconds=unreachable_seconds
    )


async def connect_to(
    source: KubeconfigSource,
    *,
    name: ClusterName,
    concurrency: int = 16,
    unreachable_seconds: float = inf,
    rate: Rate | None = None,
    silence_seconds: float | None = None,
) -> KubeCluster:
    """Return the cluster `name` with the credentials of `source`. Send no request to the cluster.

    If the server refuses the credentials, the connection reads `source` again. `KubeCluster.renew_credentials` also
    reads `source`. A name always belongs to the same cluster, so the connection rejects a new configuration with the
    address or certificate authority of another server.

    Args:
        concurrency: maximum number of requests in flight.
        unreachable_seconds: seconds after which requests to an unreachable server fail. If the general limit is
            shorter, that limit applies.
        rate: limit for all requests, including watches and retries.
        silence_seconds: seconds after which a request counts as unanswered. If `silence_seconds` is None, the default
            of the transport applies.

    Raises: ConfigurationError if the credentials cannot be read.
    """
    from applier.kube.cluster import KubeCluster
    from applier.kube.http_transport import READ_TIMEOUT_SECONDS, HttpTransport

    transport = await HttpTransport.open(
        source, keeps_server=True, silence_seconds=READ_TIMEOUT_SECONDS if silence_seconds is None else silence_seconds
    )
    cluster = KubeCluster(
        transport,
        concurrency=concurrency,
        sleep=asyncio.sleep,
        rng=random.random,
        unreachable_seconds=unreachable_seconds,
        rate=rate,
    )
    cluster.name = name
    return cluster
