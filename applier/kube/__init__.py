"""A real Kubernetes API server behind the port `applier.cluster.Cluster`.

The only package that speaks to `kubernetes`, through aiohttp's client. Both are imported when `connect` is called and not
before: importing `applier.kube` costs next to nothing, so commands that need no cluster start fast.
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
    """Import the most of what `connect` needs. In a thread, that takes a third less from whoever imports something else meanwhile: aiohttp reads the
    certificates of the system, twice, without the lock of the interpreter.
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
    """The cluster that kubectl would choose, without a request to it yet.

    `kubeconfig` is one file; without it `$KUBECONFIG` (several files), `~/.kube/config`, then the service account of
    the pod. `concurrency` bounds requests in flight. `sleep` and `rng` (in [0, 1)) serve the waits between tries;
    tests pass their own. `unreachable_seconds`: for which a server that cannot be reached is tried, if fewer than for other failures.

    Raises ConfigurationError if no cluster can be chosen or its credentials cannot be read.
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
    """The cluster of this name with the credentials that the source gives, without a request to it yet; the other arguments are those of `connect`.

    `rate` bounds the requests that are sent, watches and tries included. `silence_seconds`: after so many without an answer a request counts as
    not answered; None: as many as of any cluster.

    The source is read again where the server refuses the credentials, and by `KubeCluster.renew_credentials`. This cluster never becomes another
    one: what the source says later of another server, or of another authority for its certificate, is not taken over.

    Raises ConfigurationError.
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
