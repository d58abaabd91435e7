"""Follow sources: fetch what moved, run passes while they change something, wait for what is in flight, wake by timer and by hint.

A source that cannot be fetched keeps its last good catalog; one that was never fetched is left out, which touches nothing of it. Servers are
asked for the sources that are due, each server once for all of these.
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
"""Seconds that the first pass waits for all servers; what comes later is taken up by another one."""


@dataclass
class Follower:
    """The sources of one cluster; `configs` is what the configuration says of them, where it says more than where they are.

    `notice` hears of commits and of what cannot be read, `on_pass` of every pass. `set_timer` is told when the next pass is
    due although nothing else happens (None: never). `stage` hears of what is asked of Git. `max_concurrent` and `elapsed`
    are those of the `ClusterLoop` that works on the cluster. Once `stop` is set the rounds under way are finished and no other
    begins.
    """

    mirrors: Mapping[str, Mirror]
    reconciler: Reconciler
    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    notice: Callable[[str, str], None] = lambda _source, _text: None
    on_pass: Callable[[ReconcileResult], None] = lambda _: None
    set_timer: Callable[[datetime | None], None] = lambda _: None
    configs: Mapping[str, SourceConfig] = field(default_factory=dict)
    stage: Stage = no_stage
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
        """What maps events of the cluster to work; None where nothing is watched."""
        return self.cluster_loop.event_router

    @event_router.setter
    def event_router(self, event_router: EventRouter) -> None:
        self.cluster_loop.event_router = event_router

    def _local_states(self) -> Sequence[SourceState]:
        return self._fetcher.states if self.fleet is None else self.fleet.local_states

    @property
    def queue(self) -> WorkQueue[QueueKey]:
        """What is to be looked at."""
        return self.cluster_loop.queue

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> None:
        """Follow these from the next pass on. A source that is not among them is left out, which touches nothing of it; one with another mirror
        than before is read anew, and keeps what was read of it until that succeeds.
        """
        self.poll(*self._fetcher.configure(mirrors, configs))
        self.mirrors, self.configs = mirrors, configs
        self.reconciler.follows = mirrors.keys()
        if self.fleet is not None:
            self.fleet.update(self._fetcher.states)

    def poll(self, *names: str) -> None:
        """Ask the servers soon where these sources stand. What cannot be watched is looked at, too."""
        self._fetcher.mark_due(names)
        if self.event_router is not None and self.event_router.is_blind:
            self.reconcile_all()
        self._wake_event.set()

    async def fetch(self) -> list[SourceState]:
        """The newest readable state of every source, in the order of their names; who is not due is not asked for."""
        return await self._fetcher.fetch()

    @property
    def errors(self) -> Mapping[str, SourceError]:
        """Why sources could not be read at the last fetch, by their names."""
        return dict(self._fetcher.errors)

    @property
    def unread(self) -> list[str]:
        """Sources of which nothing has been read since the start."""
        return self._fetcher.unread

    async def run_once(
        self, *, wait: timedelta, check_state: Callable[[SourceState], Coroutine[None, None, None]] | None = None
    ) -> ReconcileResult:
        """Passes until another would find nothing more and nothing is in flight, or until that has lasted for `wait`. All sources are asked, once.

        `check_state` raises where a source may not be worked on as it is now.
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
        """Do the same in each cluster of the fleet, side by side, the hub's own among them. Raises ClusterError where the hub itself fails."""
        assert self.fleet is not None
        self.poll(*self.mirrors)
        await self.fleet.restore()
        run = self._single_run(wait)
        members = await self.fleet.begin_once(await self.fetch(), run)
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
        """Look at everything soon: something has changed, or may have."""
        self.enqueue(None)

    def enqueue(self, roots: Roots, priority: int = PRIORITY_CHANGE) -> None:
        """Look at these objects of sources, or (None) at everything: at most half of the time goes into whole passes that change nothing."""
        self.cluster_loop.enqueue(roots, priority)

    def resync(self) -> None:
        """Look at everything anew, and search for members that were left behind as well."""
        self.cluster_loop.resync()
        if self.fleet is not None:
            self.fleet.resync()

    def on_timer(self) -> None:
        """A moment that `set_timer` was told of: look at whom it concerns; at everything where a pin has ended."""
        pin_expiry = self._fetcher.next_pin_expiry
        if pin_expiry is not None and pin_expiry <= self.clock.now():
            self.enqueue(None, PRIORITY_WINDOW)
        else:
            self.cluster_loop.on_timer()

    async def run_forever(self) -> None:
        """Ask all sources, then work on the cluster and ask those that `poll` names, until `stop` is set. Raises what ends the process."""
        self.reconciler.follows = self.mirrors.keys()
        try:
            await wait_for_any(self._fetch_initially(), self.stop.wait())
            self._fetcher.has_new_state = False
            if self.fleet is None:
                await run_together(self.cluster_loop.run(self.stop), self._follow_sources())
            else:
                await self.fleet.restore()
                self.fleet.update(self._fetcher.states)
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
        """All servers are asked; who does not answer soon keeps the others waiting no longer."""
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
        """Until what is under way now is over, passes and writes; others may have begun meanwhile."""
        await self.cluster_loop.wait_until_idle()

    def _poll_due_sources(self) -> None:
        """Servers are asked while passes go on; what has moved is taken up as soon as its server has answered."""
        for poll in [task for task in self._poll_tasks if task.done()]:
            self._poll_tasks.remove(poll)
            poll.result()
        if self._fetcher.has_new_state:
            self._fetcher.has_new_state = False
            if self.fleet is not None:
                self.fleet.update(self._fetcher.states)
            self.cluster_loop.sources_changed()
        for request in self._fetcher.start_fetches():
            self._start_poll(request)

    def _start_poll(self, request: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(request, name="ask for sources")
        task.add_done_callback(lambda _: self._wake_event.set())
        self._poll_tasks.add(task)
        return task

    def _on_background_pass(self, result: ReconcileResult) -> None:
        """One of those that `forever` runs."""
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
