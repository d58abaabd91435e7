"""Watches that are kept: how often one that breaks is begun again (I11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from typing import cast

import pytest

from applier.cluster import Cluster, WatchEvent, WatchTarget
from applier.errors import ClusterError, Denied, KindNotServed, Unavailable
from applier.read.watches import MAX_RETRY_SECONDS, UNSERVED_RETRY_SECONDS, Watches
from renderer.identity import GroupKind
from tests.support.clock import VirtualLoop

CONFIGMAPS = WatchTarget(GroupKind("", "ConfigMap"))


@dataclass
class Breaking:
    """A server whose watches last for so many seconds, one after another, or do not begin because of an error."""

    lasting: Iterator[float | ClusterError]
    now: Callable[[], float]
    asked: list[float] = field(default_factory=list)

    @asynccontextmanager
    async def watch(self, _: WatchTarget) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        self.asked.append(self.now())
        seconds = next(self.lasting)
        if isinstance(seconds, ClusterError):
            raise seconds
        yield self._events(seconds)

    async def _events(self, seconds: float) -> AsyncIterator[WatchEvent]:
        for change in list[WatchEvent]():
            yield change
        await asyncio.sleep(seconds)
        raise Unavailable("broken off")


def live(lasting: Iterator[float | ClusterError], seconds: float) -> tuple[list[float], list[str]]:
    """When the server was asked for a watch in so many seconds, and what was told of it."""
    told: list[str] = []

    def failed(_: WatchTarget, error: ClusterError) -> None:
        told.append(str(error))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        server = Breaking(lasting, runner.get_loop().time)

        async def story() -> None:
            async with Watches(cast(Cluster, server), lambda _: None, lambda _: None, failed) as watches:
                await watches.set_targets([CONFIGMAPS], ())
                await asyncio.sleep(seconds)

        runner.run(story())
    return server.asked, told


def waits(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def test_one_that_breaks_as_soon_as_it_has_begun_is_begun_ever_more_rarely() -> None:
    """Each beginning has everything read: a server, or a proxy before it, that cuts every watch must not cost a whole pass each second."""
    asked, _ = live(repeat(0.0), 600)
    assert waits(asked)[:8] == pytest.approx([1, 2, 4, 8, 16, 32, MAX_RETRY_SECONDS, MAX_RETRY_SECONDS])


def test_one_that_has_lasted_is_begun_again_soon() -> None:
    asked, _ = live(chain([0.0] * 5, repeat(300.0)), 1000)
    assert waits(asked)[5:] == pytest.approx([301, 301, 301])


def test_why_it_cannot_begin_is_told_once() -> None:
    asked, told = live(repeat(Denied("may not watch")), 600)
    assert told == ["may not watch"]
    assert len(asked) < 18


def test_a_kind_that_is_not_served_is_tried_rarely() -> None:
    """Each try asks discovery, which a reconciliation that needs the kind does as well."""
    asked, told = live(repeat(KindNotServed("no such kind")), 100)
    assert waits(asked) == pytest.approx([UNSERVED_RETRY_SECONDS] * 3)
    assert told == ["no such kind"]


def test_a_kind_is_watched_as_soon_as_a_reconciliation_has_seen_it_served() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        server = Breaking(chain([KindNotServed("no such kind")], repeat(300.0)), runner.get_loop().time)
        begun: list[WatchTarget] = []

        async def story() -> None:
            async with Watches(cast(Cluster, server), lambda _: None, begun.append, lambda *_: None) as watches:
                await watches.set_targets([CONFIGMAPS], ())
                await asyncio.sleep(2)
                await watches.set_targets([CONFIGMAPS], ())
                await asyncio.sleep(2)
                assert not begun
                await watches.set_targets([CONFIGMAPS], {CONFIGMAPS.kind})
                await asyncio.sleep(1)

        runner.run(story())
    assert begun == [CONFIGMAPS]
    assert waits(server.asked) == pytest.approx([4])


def test_a_fault_in_a_callback_is_logged_and_the_watch_restarts(caplog: pytest.LogCaptureFixture) -> None:
    starts: list[float] = []

    def begun(_: WatchTarget) -> None:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) == 1:
            raise ZeroDivisionError

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        server = Breaking(repeat(300.0), runner.get_loop().time)

        async def story() -> None:
            async with Watches(cast(Cluster, server), lambda _: None, begun, lambda *_: None) as watches:
                await watches.set_targets([CONFIGMAPS], ())
                await asyncio.sleep(10)

        runner.run(story())
    assert waits(starts) == pytest.approx([1])
    assert "watch of ConfigMap failed and will restart" in caplog.text
