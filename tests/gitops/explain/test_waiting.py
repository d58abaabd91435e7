"""A command that waits looks when something happens, and is never a busy loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

import pytest

from applier.cluster import Cluster, WatchEvent, WatchTarget
from applier.errors import Denied, Unavailable
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from gitops.explain import wait
from gitops.explain.wait import MIN_CHECK_INTERVAL_SECONDS, POLL_INTERVAL_SECONDS, wait_until
from renderer.identity import GroupKind
from tests.support.clock import VirtualLoop

MAPS = WatchTarget(GroupKind("", "ConfigMap"), "default")
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


def never(error: Unavailable) -> None:
    raise AssertionError(error)


def in_virtual_time(story: Coroutine[None, None, None]) -> float:
    """The seconds that the story takes."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story)
        return runner.get_loop().time()


def test_a_change_is_seen_at_once() -> None:
    async def story() -> None:
        cluster: Cluster = cluster_of(Sandbox().answer)

        async def look() -> bool:
            return bool(await cluster.list(MAPS.kind, "default"))

        task = asyncio.create_task(wait_until(cluster, [MAPS], look, timeout_seconds=60, on_unavailable=never))
        await asyncio.sleep(0)
        await cluster.apply(BODY, manager="somebody")
        assert await task
        await cluster.close()

    assert in_virtual_time(story()) < POLL_INTERVAL_SECONDS


def test_however_much_happens_it_looks_a_few_times_a_second() -> None:
    class Noisy:
        """A cluster in which something happens all the time."""

        @asynccontextmanager
        async def watch(self, _subject: WatchTarget) -> AsyncIterator[AsyncIterator[WatchEvent]]:
            async def changes() -> AsyncIterator[WatchEvent]:
                while True:
                    await asyncio.sleep(0.001)
                    yield WatchEvent(BODY)

            yield changes()

    looks = 0

    async def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    async def story() -> None:
        seconds = 3.5 * MIN_CHECK_INTERVAL_SECONDS
        assert not await wait_until(Noisy(), [MAPS], look, timeout_seconds=seconds, on_unavailable=never)  # type: ignore[arg-type]

    in_virtual_time(story())
    assert looks == 5


async def test_a_server_that_restarts_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`logs -f` and `wait` outlast an upgrade of the control plane; what the first look says, and what is no matter of time, ends them."""
    monkeypatch.setattr(wait, "POLL_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(wait, "MIN_CHECK_INTERVAL_SECONDS", 0.01)
    cluster: Cluster = cluster_of(Sandbox().answer)
    away = Unavailable("get configmaps: the connection was refused")
    answers: list[bool | Exception] = [False, away, away, True]

    async def look() -> bool:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    missed: list[Unavailable] = []
    assert await wait_until(cluster, [MAPS], look, timeout_seconds=60, on_unavailable=missed.append)
    assert missed == [away, away]
    ends: list[tuple[list[bool | Exception], type[Exception]]] = [
        ([away], Unavailable),
        ([False, Denied("no")], Denied),
    ]
    for given, error in ends:
        answers[:] = given
        with pytest.raises(error):
            await wait_until(cluster, [MAPS], look, timeout_seconds=60, on_unavailable=never)
    await cluster.close()
