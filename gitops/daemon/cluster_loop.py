"""The work on one cluster, around the clock: keys from its queue, passes over them, and when to look again.

Whoever reads the sources gives their states; every cluster has its own queue and its own loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Final

from gitops.clock import Clock, wait_for_any
from gitops.daemon.dispatcher import SHORTEST_SLEEP, Dispatcher
from gitops.daemon.event_router import EventRouter
from gitops.daemon.workers import QueueKey, Workers
from gitops.daemon.workqueue import PRIORITY_CHANGE, PRIORITY_RESYNC, PRIORITY_WINDOW, WorkQueue
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.interests import Roots
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from renderer.frozen import dataclass

SHUTDOWN_TIMEOUT_SECONDS: Final = 5.0
"""Seconds that the end waits for passes and writes that the server has not answered."""


@dataclass(kw_only=True)
class ClusterLoop:
    """One cluster that sources are brought to. `states` gives what was read last of the sources.

    `on_pass` hears of every pass, `notice` of what goes wrong with the cluster. `event_router` maps events of the cluster
    to keys; None: nothing is watched. At most `max_concurrent` passes over instances run side by side;
    a whole pass is run within `whole_pass_turn`. `elapsed` gives the seconds of a clock that never goes back.
    """

    reconciler: Reconciler
    clock: Clock
    elapsed: Callable[[], float]
    states: Callable[[], Sequence[SourceState]]
    on_pass: Callable[[ReconcileResult], None]
    notice: Callable[[str, str], None]
    max_concurrent: int
    whole_pass_turn: Callable[[], AbstractAsyncContextManager[None]]
    event_router: EventRouter | None = None
    _wake_event: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.queue = WorkQueue[QueueKey](lambda key: key.cluster, self._wake_event.set, self.elapsed)
        self._dispatcher = Dispatcher(
            self.reconciler,
            self.clock,
            self.elapsed,
            self.queue,
            states=self.states,
            attention=lambda: self.event_router,
            told=self.on_pass,
            notice=self.notice,
            whole_pass_turn=self.whole_pass_turn,
        )
        self._workers = Workers(self.queue, self._dispatcher.do, self._wake_event.set, limit=self.max_concurrent)

    def enqueue(self, roots: Roots, priority: int = PRIORITY_CHANGE) -> None:
        """Look at these objects of sources, or (None) at everything.

        Whole passes that change nothing take at most half of the time.
        """
        self._dispatcher.wake(roots, priority)

    def resync(self) -> None:
        """Look at everything anew, and search for members that were left behind as well."""
        self.reconciler.left_behind.is_due = True
        self.enqueue(None, PRIORITY_RESYNC)

    def on_timer(self) -> None:
        """Look at whom the time alone concerns now; at everything where it is nobody in particular."""
        self.enqueue(self.reconciler.advance_clock() or None, PRIORITY_WINDOW)

    def sources_changed(self) -> None:
        """Look at what the sources say otherwise now."""
        self._dispatcher.sources_changed()

    async def run(self, stop: asyncio.Event) -> None:
        """Run a whole pass at the start and at every hint, and passes over the objects that an event or a commit touches.

        Once `stop` is set, the rounds under way are finished and no other begins. Raises what ends the process.
        """
        self.reconciler.run_in_background(
            self._dispatcher.requeue_write, lambda _: self.enqueue(None), self._dispatcher.answered
        )
        try:
            if self.event_router is not None:
                await wait_for_any(self.event_router.expect(self.states()), stop.wait())
            self.enqueue(None, PRIORITY_RESYNC)
            while not stop.is_set():
                self._wake_event.clear()
                self._workers.start()
                if not self._wake_event.is_set():
                    due_at = self.queue.next_due_at
                    timer = () if due_at is None else (self.clock.sleep(max(SHORTEST_SLEEP, due_at - self.elapsed())),)
                    await wait_for_any(self._wake_event.wait(), stop.wait(), *timer)
            deadline = asyncio.get_running_loop().time() + SHUTDOWN_TIMEOUT_SECONDS
            await self._workers.end(SHUTDOWN_TIMEOUT_SECONDS)
            await self.reconciler.close(max(0.0, deadline - asyncio.get_running_loop().time()))
        finally:
            await self._workers.cancel()
            await self.reconciler.close(0.0)

    async def wait_until_idle(self) -> None:
        """Wait until the passes and writes under way now are over; others may have begun meanwhile."""
        await self._workers.idle()
        await self.reconciler.wait_until_idle()
