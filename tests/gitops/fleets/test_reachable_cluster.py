"""A cluster whose server falls silent: calls fail at once, one probe at a time is sent, and an answer leads back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from applier.cluster import ClusterName, WatchTarget
from applier.errors import ConfigurationError, Denied, Invalid, Unavailable
from applier.fenced_cluster import FencedCluster
from applier.kube.cluster import KubeCluster
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import ConnectionDroppedError, Request, Response
from gitops.fleet.reach import SLOW_SECONDS, ReachState, reach_state
from gitops.fleet.reachable_cluster import ReachableCluster, ReachMonitor
from renderer.identity import GroupKind, ObjectKey
from tests.support.cluster.waiting import until

CONFIG_MAP = GroupKind("", "ConfigMap")
KEY = ObjectKey("", "ConfigMap", "default", "a")


@dataclass
class Server:
    """A sandbox that can be cut off; `asked` is what arrived. Its clock is the test's."""

    sandbox: Sandbox = field(default_factory=Sandbox)
    is_cut: bool = False
    refusal: int = 0
    seconds: float = 1000.0
    asked: list[str] = field(default_factory=list)
    changes: int = 0

    async def answer(self, request: Request) -> Response:
        if self.is_cut:
            raise ConnectionDroppedError("connection refused", request_sent=False)
        self.asked.append(request.target.partition("?")[0])
        if self.refusal and "configmaps" in request.target:
            return Response(self.refusal, b"{}")
        if request.target == "/readyz":
            return Response(500, b"not ready")
        return await self.sandbox.answer(request)

    def now(self) -> datetime:
        return datetime(2026, 11, 27, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)

    def changed(self) -> None:
        self.changes += 1

    def connect(self) -> tuple[KubeCluster, ReachMonitor, ReachableCluster]:
        cluster = cluster_of(self.answer, sleep=self.sleep)
        monitor = ReachMonitor(
            ClusterName("eu-1"),
            cluster.probe,
            self,
            on_change=self.changed,
            elapsed=lambda: self.seconds,
            rng=lambda: 0.5,
        )
        return cluster, monitor, ReachableCluster(cluster, monitor)


def state(monitor: ReachMonitor) -> ReachState:
    return reach_state(monitor.reach, is_paused=False, is_removed=False)


async def open_breaker(server: Server, cluster: ReachableCluster) -> None:
    server.is_cut = True
    for _ in range(5):
        with pytest.raises(Unavailable, match="cannot connect"):
            await cluster.get(KEY)
        await server.sleep(3.0)


async def test_a_silent_cluster_is_not_asked_and_the_error_names_it_and_since_when() -> None:
    server = Server()
    _, monitor, cluster = server.connect()
    assert state(monitor) is ReachState.UNREACHABLE
    await cluster.discover(refresh=True)
    assert state(monitor) is ReachState.ENGAGED
    begun = server.now()
    await open_breaker(server, cluster)
    assert state(monitor) is ReachState.UNREACHABLE
    since = monitor.unreachable_since
    assert since is not None
    assert timedelta() <= since - begun <= timedelta(seconds=60)
    server.is_cut, before = False, len(server.asked)
    calls: list[Callable[[], object]] = [
        lambda: cluster.get(KEY),
        lambda: cluster.list(CONFIG_MAP),
        lambda: cluster.apply({}, manager="m"),
        lambda: cluster.merge(KEY, {}, manager="m"),
        lambda: cluster.delete(KEY, uid="u", resource_version=None),
        cluster.discover,
        lambda: cluster.with_user("ada").get(KEY),
        lambda: cluster.with_versions({}).get(KEY),
        lambda: cluster.without_retries().get(KEY),
        lambda: FencedCluster(cluster, lambda: None).merge(KEY, {}, manager="m"),
        lambda: cluster.watch(WatchTarget(CONFIG_MAP)).__aenter__(),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match=f"cluster eu-1 has not answered since {since:%Y-%m-%dT%H:%M:%SZ}"):
            await call()  # type: ignore[misc]
    assert len(server.asked) == before


async def test_probes_lead_back_by_any_answer() -> None:
    server = Server()
    _, monitor, cluster = server.connect()
    await cluster.discover(refresh=True)
    await open_breaker(server, cluster)
    probing = asyncio.create_task(monitor.keep_probing())
    await until(lambda: monitor.reach.failed_probes >= 8)
    server.is_cut, server.asked = False, []
    await until(lambda: not monitor.reach.is_open)
    assert server.asked == ["/readyz"]  # and what it says is that it is not ready
    assert monitor.unreachable_since is None
    assert await cluster.get(KEY) is None
    assert state(monitor) is ReachState.ENGAGED
    assert server.changes > 0
    probing.cancel()
    with suppress(asyncio.CancelledError):
        await probing


async def test_one_probe_at_a_time_and_one_that_is_broken_off_is_not_the_last() -> None:
    server = Server()
    _, monitor, cluster = server.connect()
    await open_breaker(server, cluster)
    server.seconds += 100
    asked, go = 0, asyncio.Event()

    async def hang() -> None:
        nonlocal asked
        asked += 1
        await go.wait()

    monitor.probe = hang
    first = asyncio.create_task(monitor.probe_if_due())
    await until(lambda: asked == 1)
    assert not await monitor.probe_if_due()
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    server.seconds += 100
    go.set()
    assert await monitor.probe_if_due()
    assert asked == 2
    assert not monitor.reach.is_open


async def test_refusals_are_answers_and_what_is_not_sent_tells_nothing() -> None:
    server = Server()
    _, monitor, cluster = server.connect()
    await cluster.discover(refresh=True)
    server.is_cut = True
    for _ in range(4):
        with pytest.raises(Unavailable):
            await cluster.get(KEY)
    assert monitor.reach.failures == 4
    await cluster.discover()  # from memory
    with pytest.raises(Invalid, match=r"set metadata\.namespace"):
        await cluster.merge(ObjectKey("", "ConfigMap", "", "a"), {}, manager="m")
    assert monitor.reach.failures == 4
    server.is_cut, server.refusal = False, 403
    with pytest.raises(Denied):
        await cluster.get(KEY)
    assert monitor.reach.failures == 0


async def test_what_cannot_be_read_of_a_cluster_that_answers_is_told() -> None:
    server = Server()
    _, monitor, cluster = server.connect()
    server.refusal = 403
    with pytest.raises(Denied):
        await cluster.with_user("ada").list(CONFIG_MAP)
    assert state(monitor) is ReachState.ENGAGED  # Ada's rights are not ours
    with pytest.raises(Denied):
        await cluster.list(CONFIG_MAP)
    with pytest.raises(Denied):
        await cluster.list(CONFIG_MAP, "prod")
    assert state(monitor) is ReachState.DEGRADED
    assert sorted(monitor.reach.troubles) == ["ConfigMap", "ConfigMap in namespace prod"]
    server.refusal = 0
    await cluster.list(CONFIG_MAP)
    await cluster.list(CONFIG_MAP, "prod")
    assert state(monitor) is ReachState.ENGAGED


async def test_credentials_that_cannot_be_read_are_silence() -> None:
    server = Server()
    _, monitor, cluster = server.connect()

    async def refuse() -> None:
        raise ConfigurationError("Secret levelgate-system/eu-1 does not exist in the hub")

    with pytest.raises(Unavailable, match="cluster eu-1: Secret levelgate-system/eu-1 does not exist"):
        await monitor.observe(refuse())
    assert monitor.reach.failures == 1
    assert cluster.name == "sandbox"


async def test_a_watch_tells_that_the_cluster_answers_and_when_it_breaks() -> None:
    server = Server()
    kube, monitor, cluster = server.connect()

    class Broken:
        async def __aenter__(self) -> AsyncIterator[object]:
            return self.events()

        async def __aexit__(self, *_: object) -> None:
            return None

        async def events(self) -> AsyncIterator[object]:
            monitor.record_silence()
            assert monitor.reach.failures
            yield "event"
            assert monitor.reach.failures == 0
            raise Unavailable("interrupted")

    kube.watch = lambda subject: Broken()  # type: ignore[method-assign, assignment, return-value]
    seen: list[object] = []

    async def listen() -> None:
        async with cluster.watch(WatchTarget(CONFIG_MAP)) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - up to the break

    with pytest.raises(Unavailable, match="interrupted"):
        await listen()
    assert seen == ["event"]
    assert monitor.reach.failures == 1


async def test_a_call_that_waited_for_its_turn_does_not_make_a_cluster_slow() -> None:
    """The rate that Git sets is no fault of the server."""
    server, delayed = Server(), Counter[str]()
    monitor = ReachMonitor(
        ClusterName("eu-1"),
        lambda: asyncio.sleep(0),
        server,
        elapsed=lambda: server.seconds,
        delayed_requests=delayed.total,
    )

    async def call(*, is_delayed: bool) -> None:
        delayed["requests"] += is_delayed
        await server.sleep(SLOW_SECONDS)

    for is_delayed in (True, True, True, False, False):
        await monitor.observe(call(is_delayed=is_delayed))
        assert state(monitor) is ReachState.ENGAGED
    await monitor.observe(call(is_delayed=False))
    assert state(monitor) is ReachState.DEGRADED
