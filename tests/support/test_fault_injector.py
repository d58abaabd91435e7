"""Faults by script, as the adapter of real clusters meets them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
import pytest

from applier.cluster import Object
from applier.errors import Denied, NotFound, Unavailable, UnknownOutcome
from applier.kube.cluster import KubeCluster
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request
from renderer.identity import GroupKind, ObjectKey
from tests.support.fault_injector import (
    ConnectionReset,
    DelayedRequest,
    EndedWatch,
    FaultInjector,
    InjectedFault,
    RefusedRequest,
    SilentWatch,
    StaleRead,
    StuckFinalizer,
)

CONFIG_MAP = GroupKind("", "ConfigMap")
KEY = ObjectKey("", "ConfigMap", "default", "a")


def config(text: str = "1") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
        "data": {"a": text},
    }


class FaultyCluster:
    """A sandbox behind faults, a cluster that speaks to it, and the seconds that anybody would have waited."""

    def __init__(self, *faults: InjectedFault) -> None:
        self.waited: list[float] = []
        self.sandbox = Sandbox()
        self.faulty = FaultInjector(self.sandbox.answer, faults, sleep=self._sleep)
        self.cluster: KubeCluster = cluster_of(self.faulty.answer, sleep=self._sleep, rng=lambda: 0.0)

    async def _sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    @property
    def stored(self) -> bool:
        target = "/api/v1/namespaces/default/configmaps/a"
        return self.sandbox.handle(Request("GET", target)).status == 200


async def test_without_faults_it_is_a_cluster() -> None:
    world = FaultyCluster()
    stored = await world.cluster.apply(config(), manager="m")
    assert await world.cluster.get(KEY) == stored
    assert await world.cluster.list(CONFIG_MAP, "default") == [stored]
    await world.cluster.delete(
        KEY, uid=stored["metadata"]["uid"], resource_version=stored["metadata"]["resourceVersion"]
    )
    assert await world.cluster.get(KEY) is None


async def test_too_many_requests_are_waited_for() -> None:
    world = FaultyCluster(InjectedFault(RefusedRequest(429, retry_after=7), verb="patch", times=2))
    await world.cluster.apply(config(), manager="m")
    assert world.waited == [7.0, 7.0]
    assert len(world.faulty.injected) == 2


@pytest.mark.parametrize(("code", "error"), [(500, UnknownOutcome), (503, Unavailable), (403, Denied)])
async def test_a_server_that_refuses(code: int, error: type[Exception]) -> None:
    world = FaultyCluster(InjectedFault(RefusedRequest(code), verb="patch"))
    with pytest.raises(error):
        await world.cluster.apply(config(), manager="m")
    assert not world.stored


@pytest.mark.parametrize("carried_out", [False, True])
async def test_a_reset_leaves_it_open_whether_a_write_was_made(carried_out: bool) -> None:
    world = FaultyCluster(InjectedFault(ConnectionReset(carried_out), verb="patch"))
    with pytest.raises(UnknownOutcome):
        await world.cluster.apply(config(), manager="m")
    assert world.stored is carried_out


async def test_a_reset_of_a_read_is_tried_again() -> None:
    world = FaultyCluster(InjectedFault(ConnectionReset(False), verb="get", times=1))
    await world.cluster.apply(config(), manager="m")
    assert await world.cluster.get(KEY) is not None


async def test_latency() -> None:
    world = FaultyCluster(InjectedFault(DelayedRequest(3.0), verb="patch"))
    await world.cluster.apply(config(), manager="m")
    assert world.waited == [3.0]


async def test_a_stale_list() -> None:
    world = FaultyCluster(InjectedFault(StaleRead(), verb="list", plural="configmaps", skip=1))
    assert await world.cluster.list(CONFIG_MAP, "default") == []
    await world.cluster.apply(config(), manager="m")
    assert await world.cluster.list(CONFIG_MAP, "default") == []
    world.faulty.faults = ()
    assert len(await world.cluster.list(CONFIG_MAP, "default")) == 1


async def test_a_finalizer_that_nobody_takes_away() -> None:
    world = FaultyCluster(InjectedFault(StuckFinalizer(), verb="patch", plural="configmaps"))
    await world.cluster.apply(config(), manager="m")
    again = await world.cluster.apply(config(), manager="m")
    assert again["metadata"]["finalizers"] == ["example.com/stuck"]
    metadata = again["metadata"]
    await world.cluster.delete(KEY, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    world.sandbox.tick_until_stable()
    held = await world.cluster.get(KEY)
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    world.faulty.faults = ()
    await world.cluster.merge(KEY, {"metadata": {"finalizers": None}}, manager="m")
    assert not world.stored


async def test_what_is_only_rehearsed_gets_no_finalizer() -> None:
    world = FaultyCluster(InjectedFault(StuckFinalizer(), verb="patch", skip=1))
    await world.cluster.apply(config(), manager="m")
    await world.cluster.apply(config("2"), manager="m", dry_run=True)
    assert len(world.faulty.injected) == 1
    stored = await world.cluster.get(KEY)
    assert stored is not None
    assert "finalizers" not in stored["metadata"]


async def test_a_fault_is_for_some_objects_only() -> None:
    world = FaultyCluster(InjectedFault(RefusedRequest(403), plural="configmaps", namespace="default", name="b*"))
    await world.cluster.apply(config(), manager="m")
    other = config() | {"metadata": {"name": "bad", "namespace": "default"}}
    with pytest.raises(Denied):
        await world.cluster.apply(other, manager="m")


async def test_not_found_is_the_objects_absence() -> None:
    """An answer by script has no details of an object, and must not look like a proof of absence."""
    world = FaultyCluster(InjectedFault(RefusedRequest(404), verb="get"))
    with pytest.raises(Exception, match="by script") as caught:
        await world.cluster.get(KEY)
    assert not isinstance(caught.value, NotFound)


def watch(world: FaultyCluster) -> Request:
    return Request("GET", "/api/v1/namespaces/default/configmaps?watch=1")


async def told(world: FaultyCluster, count: int) -> Sequence[str]:
    """Types of the events of a watch: of what is there, and of what is changed while it goes on."""
    response = await world.faulty.answer(watch(world))
    assert response.stream is not None
    types: list[str] = []
    async for chunk in response.stream:
        types += [orjson.loads(line)["type"] for line in chunk.splitlines()]
        if len(types) == count:
            break
        await world.cluster.apply(config(str(len(types) + 1)), manager="m")
    return types


async def test_a_watch_that_is_cut() -> None:
    world = FaultyCluster(InjectedFault(EndedWatch(2), verb="watch"))
    await world.cluster.apply(config(), manager="m")
    assert await told(world, 9) == ["ADDED", "MODIFIED"]


async def test_a_watch_that_falls_silent() -> None:
    world = FaultyCluster(InjectedFault(SilentWatch(1), verb="watch"))
    await world.cluster.apply(config(), manager="m")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await told(world, 9)
