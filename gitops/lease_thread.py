"""The Lease, renewed in a thread of its own, so that no length of work loses the lead.

A pass over thousands of instances may keep the event loop busy for longer than a Lease lasts. What keeps it busy is
Python, which gives other threads their turn every few milliseconds. A loop that does not turn for a minute
(`gitops.loop_watch`) is another matter: it does not get on any more, so its Lease is left to others, and its probes have
no answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from threading import Thread
from typing import Any, NoReturn, Self, TypeVar

from applier.cluster import Cluster
from gitops.clock import Clock
from gitops.leadership import Leadership, LeaseTimes
from renderer.frozen import dataclass

T = TypeVar("T")


@dataclass
class LeaseThread:
    """The thread with an event loop of its own in which all Leases of a process are renewed.

    Use with `async with`, in the event loop that works; `is_turning` tells whether that loop turns.
    """

    is_turning: Callable[[], bool]
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _closing: asyncio.Event = field(init=False)
    _thread: Thread = field(init=False)

    async def __aenter__(self) -> Self:
        started: Future[None] = Future()
        self._thread = Thread(target=lambda: asyncio.run(self._serve(started)), name="lease", daemon=True)
        self._thread.start()
        await asyncio.wrap_future(started)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        await asyncio.to_thread(self._thread.join)

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it in the thread, and return or raise what it comes to."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    async def _serve(self, started: Future[None]) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        started.set_result(None)
        await self._closing.wait()


@dataclass
class ThreadLeadership:
    """`Leadership` whose requests are made in a thread, over the connection that `connect` opens there.

    Use with `async with`, which raises what `connect` raises. `elapsed` is a clock in seconds that only goes forward;
    `ended_epoch` as for `Leadership`.
    """

    thread: LeaseThread
    connect: Callable[[], AbstractAsyncContextManager[Cluster]]
    identity: str
    clock: Clock
    times: LeaseTimes
    elapsed: Callable[[], float] = time.monotonic
    ended_epoch: int = 0
    _leadership: Leadership = field(init=False)
    _connection: AbstractAsyncContextManager[Cluster] = field(init=False)

    async def __aenter__(self) -> Self:
        await self.thread.run(self._open())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.thread.run(self._connection.__aexit__(None, None, None))

    async def acquire(self, on_wait: Callable[[str], None], *, patient: bool) -> None:
        """Wait until this process leads: see `Leadership.acquire`. `on_wait` is called in the loop that works."""
        working_loop = asyncio.get_running_loop()

        def on_wait_there(holder: str) -> None:
            working_loop.call_soon_threadsafe(on_wait, holder)

        await self.thread.run(self._leadership.acquire(on_wait_there, patient=patient))

    async def hold(self) -> NoReturn:
        """Renew the Lease until that fails for too long, or the work hangs. Raises NotLeading."""
        await self.thread.run(self._leadership.hold(self.thread.is_turning))

    async def outdo(self, epoch: int) -> None:
        """Go on above an epoch in which somebody has written: see `Leadership.outdo`."""
        await self.thread.run(self._leadership.outdo(epoch))

    async def release(self) -> None:
        """Let the next one lead at once: see `Leadership.release`."""
        await self.thread.run(self._leadership.release())

    def check(self) -> None:
        """Raises NotLeading unless this process certainly leads now."""
        self._leadership.check()

    @property
    def epoch(self) -> int:
        """The term: grows with every process that begins to lead."""
        return self._leadership.epoch

    @property
    def leads(self) -> bool:
        """Does it certainly lead now?"""
        return self._leadership.leads

    @property
    def stands_by(self) -> bool:
        """Has it seen that another one leads?"""
        return self._leadership.stands_by

    async def _open(self) -> None:
        self._connection = self.connect()
        cluster = await self._connection.__aenter__()
        self._leadership = Leadership(cluster, self.identity, self.clock, self.times, self.elapsed, self.ended_epoch)
