"""Renewal of Leases in a separate thread, so that long computations do not lose the leadership.

A reconciliation of thousands of instances may block the event loop for longer than a Lease lasts. Python still
runs other threads every few milliseconds during that time.

If an event loop does not turn for a minute (`gitops.loop_watch`), the loop counts as hung. Then the thread does not
renew the Lease, and the probes do not answer.
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
    """Thread with an event loop that renews all Leases of a process.

    Use the thread with `async with`, in the working event loop.
    """

    is_turning: Callable[[], bool]
    """Function that returns whether the working event loop still turns."""
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
        """Run the coroutine in the thread, and return its result or raise its exception."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    async def _serve(self, started: Future[None]) -> None:
        """Run the event loop of the thread until the context ends. `started` receives the loop."""
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        started.set_result(None)
        await self._closing.wait()


@dataclass
class ThreadLeadership:
    """A `Leadership` that sends its requests from a `LeaseThread`.

    Use the object with `async with`, which raises the errors of `connect`.
    """

    thread: LeaseThread
    connect: Callable[[], AbstractAsyncContextManager[Cluster]]
    """Function that opens the connection to the cluster. The function runs in the thread."""
    identity: str
    clock: Clock
    times: LeaseTimes
    elapsed: Callable[[], float] = time.monotonic
    """Monotonic clock in seconds."""
    ended_epoch: int = 0
    """Value for the field `ended_epoch` of `Leadership`."""
    _leadership: Leadership = field(init=False)
    _connection: AbstractAsyncContextManager[Cluster] = field(init=False)

    async def __aenter__(self) -> Self:
        await self.thread.run(self._open())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.thread.run(self._connection.__aexit__(None, None, None))

    async def acquire(self, on_wait: Callable[[str], None], *, patient: bool) -> None:
        """Wait until this process leads (see `Leadership.acquire`). Call `on_wait` in the working event loop.

        Raises: NotLeading, ClusterError.
        """
        working_loop = asyncio.get_running_loop()

        def on_wait_there(holder: str) -> None:
            working_loop.call_soon_threadsafe(on_wait, holder)

        await self.thread.run(self._leadership.acquire(on_wait_there, patient=patient))

    async def hold(self) -> NoReturn:
        """Renew the Lease until renewals fail for too long or the working event loop hangs. Raises: NotLeading."""
        await self.thread.run(self._leadership.hold(self.thread.is_turning))

    async def outdo(self, epoch: int) -> None:
        """Continue in a term above `epoch` (see `Leadership.outdo`). Raises: NotLeading, ClusterError."""
        await self.thread.run(self._leadership.outdo(epoch))

    async def release(self) -> None:
        """Release the Lease (see `Leadership.release`)."""
        await self.thread.run(self._leadership.release())

    def check(self) -> None:
        """Check that this process certainly leads. Raises: NotLeading."""
        self._leadership.check()

    @property
    def epoch(self) -> int:
        """Return the number of the term, which grows with each process that starts to lead."""
        return self._leadership.epoch

    @property
    def leads(self) -> bool:
        """Return whether this process certainly leads."""
        return self._leadership.leads

    @property
    def stands_by(self) -> bool:
        """Return whether this process has seen another leader."""
        return self._leadership.stands_by

    async def _open(self) -> None:
        self._connection = self.connect()
        cluster = await self._connection.__aenter__()
        self._leadership = Leadership(cluster, self.identity, self.clock, self.times, self.elapsed, self.ended_epoch)
