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
from applier.errors import ClusterError, Denied, Unavailable
from applier.read.watches import MAX_RETRY_SECONDS, Watches
from renderer.identity import GroupKind
from tests.gitops.virtual_time import VirtualLoop


@dataclass
class Breaking:
    """A server whose watches last for so many seconds, one after another; None: it does not let them begin."""

    lasting: Iterator[float | None]
    now: Callable[[], float]
    asked: list[float] = field(default_factory=list)

    @asynccontextmanager
    async def watch(self, _: WatchTarget) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        self.asked.append(self.now())
        seconds = next(self.lasting)
        if seconds is None:
            raise Denied("may not watch")
        yield self._events(seconds)

    async def _events(self, seconds: float) -> AsyncIterator[WatchEvent]:
        for change in list[WatchEvent]():
            yield change
        await asyncio.sleep(seconds)
        raise Unavailable("broken off")


def live(lasting: Iterator[float | None], seconds: float) -> tuple[list[float], list[str]]:
    """When the server was asked for a watch in so many seconds, and what was told of it."""
    told: list[str] = []

    def failed(_: WatchTarget, error: ClusterError) -> None:
        told.append(str(error))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        server = Breaking(lasting, runner.get_loop().time)

        async def story() -> None:
            async with Watches(cast(Cluster, server), lambda _: None, lambda _: None, failed) as watches:
                await watches.set_targets([WatchTarget(GroupKind("", "ConfigMap"))])
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
    asked, told = live(repeat(None), 600)
    assert told == ["may not watch"]
    assert len(asked) < 18
