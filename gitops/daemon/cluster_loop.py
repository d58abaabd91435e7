"""Loop that reconciles one cluster.

The loop gets keys from the queue of the cluster, and reconciles the keys. Every cluster has a queue and a loop. The
loop reads no source. Instead, the fetcher supplies the states of the sources.
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
"""Longest wait for reconciliations and pending writes at the end of the loop, in seconds."""


@dataclass(kw_only=True)
class ClusterLoop:
    """Loop that reconciles one cluster, and the queue with the keys to reconcile."""

    reconciler: Reconciler
    clock: Clock
    elapsed: Callable[[], float]
    """Function that returns the reading of a monotonic clock, in seconds."""

    states: Callable[[], Sequence[SourceState]]
    """Function that returns the newest states of the sources."""

    on_pass: Callable[[ReconcileResult], None]
    """Receiver of the result of each reconciliation."""

    notice: Callable[[str, str], None]
    """Receiver of notices about the cluster, as (subject, text)."""

    max_concurrent: int
    """Maximum number of partial reconciliations that run at the same time."""

    whole_pass_turn: Callable[[], AbstractAsyncContextManager[None]]
    """Function that returns the context manager in which a full reconciliation runs."""

    event_router: EventRouter | None = None
    """Map from watch events of the cluster to keys, or None if no watch runs."""

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
        """Enqueue `roots` for a partial reconciliation. If `roots` is None, enqueue a full reconciliation.

        Full reconciliations that change nothing use at most half of the loop's time.
        """
        self._dispatcher.wake(roots, priority)

    def resync(self) -> None:
        """Enqueue a full reconciliation that also searches for objects left behind."""
        self.reconciler.left_behind.is_due = True
        self.enqueue(None, PRIORITY_RESYNC)

    def on_timer(self) -> None:
        """Enqueue the roots that are due because time has passed.

        If no single root is known, enqueue a full reconciliation.
        """
        self.enqueue(self.reconciler.advance_clock() or None, PRIORITY_WINDOW)

    def sources_changed(self) -> None:
        """Enqueue the roots that differ in the new states of the sources."""
        self._dispatcher.sources_changed()

    async def run(self, stop: asyncio.Event) -> None:
        """Run a full reconciliation at the start and at each hint, and partial reconciliations for events and commits.

        When `stop` is set, finish the current rounds, and start no further round.

        Raises: the error that ends the process.
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
        """Wait for the current reconciliations and writes to finish. Further reconciliations may start meanwhile."""
        await self._workers.idle()
        await self.reconciler.wait_until_idle()
