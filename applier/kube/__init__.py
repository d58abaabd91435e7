"""Adapter of the port `applier.cluster.Cluster` to a real Kubernetes API server.

No other package uses `kubernetes` and its aiohttp client. Only `connect` imports them: `import applier.kube` takes next
to no time, so that commands without a cluster start fast.
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
    """Import most of what `connect` needs.

    In a thread this saves a third of its time: aiohttp reads the certificates of the system twice, without the
    interpreter's lock.
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
    """Return the cluster that kubectl would choose, without sending it a request.

    `kubeconfig` is one file. The default is `$KUBECONFIG` (several files), `~/.kube/config`, then the service account
    of the pod. `concurrency` bounds requests in flight. `sleep` and `rng` (in [0, 1)) serve the waits between attempts;
    tests pass their own. An unreachable server is given up after `unreachable_seconds`, where that is less than the
    general limit.

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
    """Return the cluster of this name with the credentials of *source*, without sending it a request.

    `rate` bounds all requests, watches and retries included. A request counts as unanswered after `silence_seconds`;
    None: the default of the transport. For the other arguments see `connect`.

    The source is read again where the server refuses the credentials, and by `KubeCluster.renew_credentials`. An
    address or certificate authority of another server is not accepted then: the name stays with its cluster.

    Raises: ConfigurationError.
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
