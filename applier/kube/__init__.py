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
    from applier.kube.cluster import KubeCluster

__all__ = ["connect", "preload"]


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
    tests pass their own. `patience`: seconds for which a server that cannot be reached is tried, if fewer than for other failures.

    Raises ConfigurationError if no cluster can be chosen or its credentials cannot be read.
    """
    from applier.kube.cluster import KubeCluster
    from applier.kube.http_transport import HttpTransport
    from applier.kube.kubeconfig import choose_source

    transport = await HttpTransport.open(choose_source(kubeconfig, context))
    return KubeCluster(
        transport, concurrency=concurrency, sleep=sleep, rng=rng, unreachable_seconds=unreachable_seconds
    )
