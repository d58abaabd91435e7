"""The pace of requests: in virtual time, where a second costs nothing, and to a real server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine

import pytest

from applier.cluster import ClusterName, WatchTarget
from applier.kube import connect_to
from applier.kube.cluster import KubeCluster
from applier.kube.flow_control import RequestPace
from applier.kube.kubeconfig import Kubeconfig
from applier.sandbox.endpoints.transport import SandboxTransport
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from applier.token_bucket import Rate
from renderer.identity import GroupKind, ObjectKey
from tests.support.clock import VirtualLoop
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane

CONFIG_MAP = GroupKind("", "ConfigMap")
KEY = ObjectKey("", "ConfigMap", "default", "none")


def run(story: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_urgent_requests_go_before_those_that_wait_already() -> None:
    gone: list[tuple[str, float]] = []

    async def send(pace: RequestPace, name: str, *, is_urgent: bool) -> None:
        await pace.take_turn(is_urgent=is_urgent)
        gone.append((name, now()))

    async def story() -> None:
        pace = RequestPace(Rate(1.0, 2))
        tasks = [asyncio.ensure_future(send(pace, name, is_urgent=False)) for name in "abcd"]
        await asyncio.sleep(0.5)
        await asyncio.gather(*tasks, send(pace, "watch", is_urgent=True))
        assert pace.delayed == 3

    run(story())
    assert [(name, round(moment, 3)) for name, moment in gone] == [
        ("a", 0.0),
        ("b", 0.0),
        ("watch", 1.0),
        ("c", 2.0),
        ("d", 3.0),
    ]


def test_a_request_that_is_cancelled_while_it_waits_costs_nothing() -> None:
    async def story() -> None:
        pace = RequestPace(Rate(1.0, 1))
        await pace.take_turn(is_urgent=False)
        waiting = [asyncio.ensure_future(pace.take_turn(is_urgent=False)) for _ in range(3)]
        await asyncio.sleep(0)
        for one in waiting[:2]:
            one.cancel()
        await waiting[2]
        assert round(now(), 3) == 1.0

    run(story())


class Paced:
    """A sandbox by a connection with a rate; `seen` is when each request came, discovery left out."""

    def __init__(self, rate: Rate) -> None:
        self.sandbox, self.seen = Sandbox(), list[float]()
        self.cluster = KubeCluster(
            SandboxTransport(self._answer, "eu-1"), concurrency=16, sleep=asyncio.sleep, rng=random.random, rate=rate
        )

    async def _answer(self, request: Request) -> Response:
        self.seen.append(now())
        return await self.sandbox.answer(request)


def test_thirty_requests_at_five_a_second_take_five_seconds() -> None:
    async def story() -> None:
        paced = Paced(Rate(5.0, 5))
        await paced.cluster.discover()
        await asyncio.sleep(60)
        begun, known, delayed = now(), len(paced.seen), paced.cluster.delayed_requests
        await asyncio.gather(*(paced.cluster.get(KEY) for _ in range(30)))
        sent = paced.seen[known:]
        assert len(sent) == 30
        assert now() - begun == pytest.approx(5.0)
        assert all(late - early >= 0.999 for early, late in zip(sent, sent[10:], strict=False))
        assert paced.cluster.delayed_requests - delayed == 25

    run(story())


def test_a_watch_begins_and_a_probe_is_sent_while_requests_wait() -> None:
    """A watch takes two requests, a list and the watch itself."""

    async def story() -> None:
        paced = Paced(Rate(1.0, 5))
        await paced.cluster.discover()
        await asyncio.sleep(60)
        begun = now()
        waiting = [asyncio.ensure_future(paced.cluster.get(KEY)) for _ in range(100)]
        await asyncio.sleep(0.5)
        async with paced.cluster.watch(WatchTarget(CONFIG_MAP)) as events:
            assert now() - begun == pytest.approx(1.0)
            waiting_event = asyncio.ensure_future(anext(events))
            await paced.cluster.probe()
            assert now() - begun <= 3.0
            waiting_event.cancel()
            await asyncio.gather(waiting_event, return_exceptions=True)
        assert sum(one.done() for one in waiting) == 5
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(story())


async def test_a_real_server_is_asked_no_faster(control_plane: ControlPlane, audit: AuditLog, namespace: str) -> None:
    """25 requests beyond the burst at 25 a second take at least a second, however fast the machine is; the audit log has each once."""
    source = Kubeconfig((control_plane.kubeconfig("levelgate"),), None)
    cluster = await connect_to(source, name=ClusterName("eu-1"), rate=Rate(25.0, 5), silence_seconds=20.0)
    await cluster.discover()
    key, since, begun = ObjectKey("", "ConfigMap", namespace, "none"), audit.mark(), now()
    await asyncio.gather(*(cluster.get(key) for _ in range(30)))
    assert now() - begun >= 0.999
    await cluster.close()
    asked = [event for event in audit.events(since=since, user="levelgate") if event.namespace == namespace]
    assert len(asked) == 30
