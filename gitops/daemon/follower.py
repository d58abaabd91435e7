"""Follower that polls sources in Git, and sends new states to the loop of one cluster or to all clusters of a fleet.

`gitops.daemon.fetcher` describes the effect of an unreadable source.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial

from applier.cluster import LOCAL_CLUSTER
from gitops.clock import Clock, run_together, wait_for_any
from gitops.daemon.cluster_loop import ClusterLoop
from gitops.daemon.event_router import EventRouter
from gitops.daemon.fetcher import Fetcher
from gitops.daemon.fleet import Fleet
from gitops.daemon.notices import NoticeFilter
from gitops.daemon.single_run import FleetRun, SingleRun
from gitops.daemon.workers import QueueKey
from gitops.daemon.workqueue import PRIORITY_CHANGE, PRIORITY_WINDOW, WorkQueue
from gitops.errors import SourceError
from gitops.instrumentation import Stage, no_stage
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.interests import Roots
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.source import Mirror
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

FIRST_FETCH_TIMEOUT_SECONDS = 5.0
"""Longest wait of the first reconciliation for all Git servers, in seconds.

A later answer causes another reconciliation.
"""


@dataclass
class Follower:
    """Follower of the sources of one cluster, or of a fleet. Without a fleet, the cluster gets whole sources."""

    mirrors: Mapping[str, Mirror]
    reconciler: Reconciler
    """Reconciler of the process's own cluster."""

    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that ends the work after the current rounds."""

    notice: Callable[[str, str], None] = lambda _source, _text: None
    """Receiver of notices about commits and errors, as (source, text)."""

    on_pass: Callable[[ReconcileResult], None] = lambda _: None
    """Receiver of the result of each reconciliation of the process's own cluster."""

    set_timer: Callable[[datetime | None], None] = lambda _: None
    """Receiver of the time at which the caller has to call `on_timer`, or of None if no call is due."""

    configs: Mapping[str, SourceConfig] = field(default_factory=dict)
    """Settings of sources in the configuration, by name. A source may have no settings."""

    stage: Stage = no_stage
    """Function that measures requests to Git."""

    max_concurrent: int = 1
    fleet: Fleet | None = None
    elapsed: Callable[[], float] = time.monotonic
    _wake_event: asyncio.Event = field(default_factory=asyncio.Event)
    _poll_tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _notices: NoticeFilter = field(default_factory=NoticeFilter)

    def __post_init__(self) -> None:
        def notice(source: str, text: str) -> None:
            self.notice(source, text)

        self._fetcher = Fetcher(
            self.mirrors, self.configs, self.reconciler.cluster, self.reconciler.name, self.clock, notice, self.stage
        )
        if self.fleet is None:
            self.reconciler.heal_from(self._fetcher.read_earlier)
        else:
            self.fleet.read_earlier = self._fetcher.read_earlier
            self.reconciler.heal_from(partial(self.fleet.read_projected, LOCAL_CLUSTER))
        self.cluster_loop = ClusterLoop(
            reconciler=self.reconciler,
            clock=self.clock,
            elapsed=self.elapsed,
            states=self._local_states,
            on_pass=self._on_background_pass,
            notice=notice,
            max_concurrent=self.max_concurrent,
            whole_pass_turn=self.fleet.take_local_turn if self.fleet else nullcontext,
        )

    @property
    def event_router(self) -> EventRouter | None:
        """Return the map from watch events to keys, or None if no watch runs."""
        return self.cluster_loop.event_router

    @event_router.setter
    def event_router(self, event_router: EventRouter) -> None:
        self.cluster_loop.event_router = event_router

    def _local_states(self) -> Sequence[SourceState]:
        return self._fetcher.states if self.fleet is None else self.fleet.local_states

    @property
    def queue(self) -> WorkQueue[QueueKey]:
        """Return the work queue of the process's own cluster."""
        return self.cluster_loop.queue

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> None:
        """Follow the sources of `mirrors` from the next reconciliation on.

        Objects of any other source stay unchanged. If a source has a new mirror, the follower reads the source again.
        Until the read succeeds, the source keeps its last state.
        """
        self.poll(*self._fetcher.configure(mirrors, configs))
        self.mirrors, self.configs = mirrors, configs
        self.reconciler.follows = mirrors.keys()
        if self.fleet is not None:
            self.fleet.update(self._fetcher.states, unread=self._fetcher.unread)

    def poll(self, *names: str) -> None:
        """Poll the sources `names` soon. If the watch of a kind fails, also enqueue a full reconciliation."""
        self._fetcher.mark_due(names)
        if self.event_router is not None and self.event_router.is_blind:
            self.reconcile_all()
        self._wake_event.set()

    async def fetch(self) -> list[SourceState]:
        """Poll the due sources, and return the newest readable state of every source, sorted by name."""
        return await self._fetcher.fetch()

    @property
    def errors(self) -> Mapping[str, SourceError]:
        """Return the error of the last fetch, for each source whose last fetch failed."""
        return dict(self._fetcher.errors)

    @property
    def unread(self) -> list[str]:
        """Return the sources that Levelgate has not read successfully since its start."""
        return self._fetcher.unread

    async def run_once(
        self, *, wait: timedelta, check_state: Callable[[SourceState], Coroutine[None, None, None]] | None = None
    ) -> ReconcileResult:
        """Poll all sources once, do a single run over the process's own cluster, and return the last result.

        Args:
            wait: longest wait for nodes in flight.
            check_state: check of the state of a source before the run. The check raises an error for a state that
                Levelgate must not apply.
        """
        self.poll(*self.mirrors)
        states = await self.fetch()
        if check_state:
            for state in states:
                await check_state(state)
        return await self._single_run(wait).reconcile(
            self.reconciler, states, self._report_pass, self.cluster_loop.whole_pass_turn
        )

    async def run_fleet_once(self, *, wait: timedelta) -> FleetRun:
        """Poll all sources once, and do concurrent single runs over the fleet's clusters and the hub's own cluster.

        Args:
            wait: longest wait for nodes in flight.

        Raises: ClusterError if the hub itself fails.
        """
        assert self.fleet is not None
        self.poll(*self.mirrors)
        await self.fleet.restore()
        run = self._single_run(wait)
        states = await self.fetch()
        members = await self.fleet.begin_once(states, run, unread=self._fetcher.unread)
        try:
            local = await run.reconcile(
                self.reconciler, self.fleet.local_states, self._report_pass, self.fleet.take_local_turn
            )
            self.fleet.on_local_pass(local)
            found = await self.fleet.end_once(members)
        finally:
            for member in members.values():
                member.cancel()
        return replace(found, results={LOCAL_CLUSTER: local, **found.results})

    def _single_run(self, wait: timedelta) -> SingleRun:
        return SingleRun(wait=wait, clock=self.clock, stop=self.stop)

    def reconcile_all(self) -> None:
        """Enqueue a full reconciliation of the process's own cluster."""
        self.enqueue(None)

    def enqueue(self, roots: Roots, priority: int = PRIORITY_CHANGE) -> None:
        """Enqueue `roots` for a partial reconciliation. If `roots` is None, enqueue a full reconciliation."""
        self.cluster_loop.enqueue(roots, priority)

    def resync(self) -> None:
        """Enqueue a full reconciliation of every cluster, with a search for objects left behind."""
        self.cluster_loop.resync()
        if self.fleet is not None:
            self.fleet.resync()

    def on_timer(self) -> None:
        """Enqueue the roots that are due because time has passed.

        If a pin has expired, enqueue a full reconciliation.
        """
        pin_expiry = self._fetcher.next_pin_expiry
        if pin_expiry is not None and pin_expiry <= self.clock.now():
            self.enqueue(None, PRIORITY_WINDOW)
        else:
            self.cluster_loop.on_timer()

    async def run_forever(self) -> None:
        """Poll all sources. Then follow and reconcile the sources until `stop`.

        Raises: the error that ends the process.
        """
        self.reconciler.follows = self.mirrors.keys()
        try:
            await wait_for_any(self._fetch_initially(), self.stop.wait())
            self._fetcher.has_new_state = False
            if self.fleet is None:
                await run_together(self.cluster_loop.run(self.stop), self._follow_sources())
            else:
                await self.fleet.restore()
                self.fleet.update(self._fetcher.states, unread=self._fetcher.unread)
                await run_together(self.cluster_loop.run(self.stop), self._follow_sources(), self.fleet.run(self.stop))
        finally:
            self._cancel_polls()

    async def _follow_sources(self) -> None:
        while not self.stop.is_set():
            self._wake_event.clear()
            self._poll_due_sources()
            if not self._wake_event.is_set():
                await wait_for_any(self._wake_event.wait(), self.stop.wait())
        self._cancel_polls()

    async def _fetch_initially(self) -> None:
        """Poll all servers, and wait a limited time for the answers. Then continue with accepted commits."""
        self.poll(*self.mirrors)
        self._poll_due_sources()
        if self._poll_tasks:
            await asyncio.wait(self._poll_tasks, timeout=FIRST_FETCH_TIMEOUT_SECONDS)
            await asyncio.wait(
                [self._start_poll(self._fetcher.use_accepted_commits())], timeout=FIRST_FETCH_TIMEOUT_SECONDS
            )

    def _cancel_polls(self) -> None:
        for task in self._poll_tasks:
            task.cancel()

    async def wait_until_idle(self) -> None:
        """Wait for the current reconciliations and writes to finish. Further reconciliations may start meanwhile."""
        await self.cluster_loop.wait_until_idle()

    def _poll_due_sources(self) -> None:
        """Send the states from finished polls to the clusters, and start polls of due sources."""
        for poll in [task for task in self._poll_tasks if task.done()]:
            self._poll_tasks.remove(poll)
            poll.result()
        if self._fetcher.has_new_state:
            self._fetcher.has_new_state = False
            if self.fleet is not None:
                self.fleet.update(self._fetcher.states, unread=self._fetcher.unread)
            self.cluster_loop.sources_changed()
        for request in self._fetcher.start_fetches():
            self._start_poll(request)

    def _start_poll(self, request: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(request, name="ask for sources")
        task.add_done_callback(lambda _: self._wake_event.set())
        self._poll_tasks.add(task)
        return task

    def _on_background_pass(self, result: ReconcileResult) -> None:
        """Report a reconciliation of `run_forever`, and set the timer of the next reconciliation."""
        self._report_pass(result)
        if self.fleet is not None:
            self.fleet.on_local_pass(result)
        self.set_timer(min(filter(None, (result.propagation.wake_at, self._fetcher.next_pin_expiry)), default=None))

    def _report_pass(self, result: ReconcileResult) -> None:
        for source, text in self._notices.collect_notices(result):
            self.notice(source, text)
        if due_sources := self._fetcher.take_requests(result):
            self._fetcher.mark_due(due_sources)
            self._wake_event.set()
        self.on_pass(result)
