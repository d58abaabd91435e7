"""Follow sources: fetch what moved, run passes while they change something, wait for what is in flight, wake by timer and by hint.

A source that cannot be fetched keeps its last good catalog; one that was never fetched is left out, which touches nothing of it. Servers are
asked for the sources that are due, each server once for all of these.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from gitops.clock import Clock, any_of
from gitops.daemon.dispatcher import SHORTEST_SLEEP, Dispatcher, seconds_until
from gitops.daemon.event_router import EventRouter
from gitops.daemon.fetcher import Fetcher
from gitops.daemon.notices import NoticeFilter
from gitops.daemon.workers import QueueKey, Workers
from gitops.daemon.workqueue import CHANGE, OPENING, RESYNC, WorkQueue
from gitops.errors import SourceError
from gitops.instrumentation import Stage, no_stage
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.interests import Roots
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.requeue import FIRST_LOOK, LAST_LOOK, in_flight
from gitops.reconcile.sources import SourceState
from gitops.source import Mirror
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

FIRST_ANSWERS = 5.0
"""Seconds that the first pass waits for all servers; what comes later is taken up by another one."""

LAST_ANSWERS = 5.0
"""Seconds that the end of the process waits for passes and writes that the server has not answered."""

MAX_PASSES = 500
"""`once` gives up after so many passes: somebody else changes back what it writes."""


@dataclass
class Follower:
    """The sources of one cluster; `configs` is what the configuration says of them, where it says more than where they are.

    `notice` hears of commits and of what cannot be read, `passed` of every pass, and `wake_at` of when the next one is due although nothing else
    happens (None: never). `attention` watches what passes rest on, `stage` hears of what is asked of Git. At most `max_concurrent` passes over
    instances run side by side; `queue` is what they take their work from, `workers` who does it. `elapsed` gives the seconds of a clock that never
    goes back. Once `stop` is set the rounds under way are finished and no other begins.
    """

    mirrors: Mapping[str, Mirror]
    reconciler: Reconciler
    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    notice: Callable[[str, str], None] = lambda _source, _text: None
    passed: Callable[[ReconcileResult], None] = lambda _: None
    wake_at: Callable[[datetime | None], None] = lambda _: None
    configs: Mapping[str, SourceConfig] = field(default_factory=dict)
    attention: EventRouter | None = None
    stage: Stage = no_stage
    max_concurrent: int = 1
    elapsed: Callable[[], float] = time.monotonic
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _polling: set[asyncio.Task[None]] = field(default_factory=set)
    _notices: NoticeFilter = field(default_factory=NoticeFilter)

    def __post_init__(self) -> None:
        def notice(source: str, text: str) -> None:
            self.notice(source, text)

        self.queue = WorkQueue[QueueKey](lambda key: key.cluster, self._wake.set, self.elapsed)
        self._fetcher = Fetcher(
            self.mirrors, self.configs, self.reconciler.cluster, self.reconciler.name, self.clock, notice, self.stage
        )
        self._dispatcher = Dispatcher(
            self.reconciler,
            self.clock,
            self.elapsed,
            self.queue,
            states=lambda: self._fetcher.states,
            attention=lambda: self.attention,
            told=self._passed,
            notice=notice,
        )
        self.workers = Workers(self.queue, self._dispatcher.do, self._wake.set, limit=self.max_concurrent)

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> None:
        """Follow these from the next pass on. A source that is not among them is left out, which touches nothing of it; one with another mirror
        than before is read anew, and keeps what was read of it until that succeeds.
        """
        self.poll(*self._fetcher.configure(mirrors, configs))
        self.mirrors, self.configs = mirrors, configs
        self.reconciler.follows = mirrors.keys()

    def poll(self, *names: str) -> None:
        """Ask the servers soon where these sources stand. What cannot be watched is looked at, too."""
        self._fetcher.ask(names)
        if self.attention is not None and self.attention.is_blind:
            self.reconcile_all()
        self._wake.set()

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

    async def once(
        self, *, wait: timedelta, insist: Callable[[SourceState], Coroutine[None, None, None]] | None = None
    ) -> ReconcileResult:
        """Passes until another would find nothing more and nothing is in flight, or until that has lasted for `wait`. All sources are asked, once;
        what is refused is sent once, as long as nothing of it changes.

        `insist` raises where a source may not be worked on as it is now.
        """
        self.reconciler.disable_retries()
        self.poll(*self.mirrors)
        states = await self.fetch()
        if insist:
            for state in states:
                await insist(state)
        waited, delay = 0.0, FIRST_LOOK
        for _ in range(MAX_PASSES):
            found = self._told(await self.reconciler.reconcile(states))
            if found.is_conclusive and not any(map(in_flight, found.plan.sets)):
                return found
            if found.changed:
                waited, delay = 0.0, FIRST_LOOK
            elif waited >= wait.total_seconds():
                return found
            if self.stop.is_set():
                return found
            delay = min(delay, seconds_until(found.plan.turns_at, self.clock.now()))
            await any_of(self.clock.sleep(delay), self.stop.wait())
            waited += delay
            delay = min(delay * 2, LAST_LOOK, max(FIRST_LOOK, wait.total_seconds() - waited))
        return found

    def reconcile_all(self) -> None:
        """Look at everything soon: something has changed, or may have."""
        self.wake(None)

    def wake(self, roots: Roots, priority: int = CHANGE) -> None:
        """Look at these objects of sources, or (None) at everything: at most half of the time goes into whole passes that change nothing."""
        self._dispatcher.wake(roots, priority)

    def on_timer(self) -> None:
        """A moment that `wake_at` was told of: look at whom it concerns; at everything where it is nobody in particular."""
        ends = self._fetcher.wake_at
        is_pinned = ends is not None and ends <= self.clock.now()
        self.wake((None if is_pinned else self.reconciler.advance_clock()) or None, OPENING)

    async def forever(self) -> None:
        """A whole pass at the start and at every hint; passes over the objects that an event or a commit touches, and over those that are on
        their way, until `stop` is set. All sources are asked at the start, after that those that `poll` names.
        """
        self.reconciler.run_in_background(
            self._dispatcher.requeue_write, lambda _: self.wake(None), self._dispatcher.answered
        )
        self.reconciler.follows = self.mirrors.keys()
        try:
            await any_of(self._first_answers(), self.stop.wait())
            if self.attention is not None:
                await any_of(self.attention.expect(self._fetcher.states), self.stop.wait())
            self._fetcher.has_moved = False
            self.wake(None, RESYNC)
            while not self.stop.is_set():
                self._wake.clear()
                self._look_at_sources()
                self.workers.start()
                if not self._wake.is_set():
                    due = self.queue.next_due
                    timer = () if due is None else (self.clock.sleep(max(SHORTEST_SLEEP, due - self.elapsed())),)
                    await any_of(self._wake.wait(), self.stop.wait(), *timer)
            self._ask_no_more()
            until = asyncio.get_running_loop().time() + LAST_ANSWERS
            await self.workers.end(LAST_ANSWERS)
            await self.reconciler.close(max(0.0, until - asyncio.get_running_loop().time()))
        finally:
            self._ask_no_more()
            await self.workers.cancel()
            await self.reconciler.close(0.0)

    async def _first_answers(self) -> None:
        """All servers are asked; who does not answer soon keeps the others waiting no longer."""
        self.poll(*self.mirrors)
        self._look_at_sources()
        if self._polling:
            await asyncio.wait(self._polling, timeout=FIRST_ANSWERS)
            await asyncio.wait([self._begin(self._fetcher.go_on())], timeout=FIRST_ANSWERS)

    def _ask_no_more(self) -> None:
        for asking in self._polling:
            asking.cancel()

    async def idle(self) -> None:
        """Until what is under way now is over, passes and writes; others may have begun meanwhile."""
        await self.workers.idle()
        await self.reconciler.wait_until_idle()

    def _look_at_sources(self) -> None:
        """Servers are asked while passes go on; what has moved is taken up as soon as its server has answered."""
        for asking in [one for one in self._polling if one.done()]:
            self._polling.remove(asking)
            asking.result()
        if self._fetcher.has_moved:
            self._fetcher.has_moved = False
            self._dispatcher.sources_changed()
        for due in self._fetcher.begin():
            self._begin(due)

    def _begin(self, asking: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(asking, name="ask for sources")
        task.add_done_callback(lambda _: self._wake.set())
        self._polling.add(task)
        return task

    def _passed(self, found: ReconcileResult) -> None:
        """One of those that `forever` runs."""
        self._told(found)
        self.wake_at(min(filter(None, (found.propagation.wake_at, self._fetcher.wake_at)), default=None))

    def _told(self, found: ReconcileResult) -> ReconcileResult:
        for source, text in self._notices.of(found):
            self.notice(source, text)
        if due := self._fetcher.heard(found):
            self._fetcher.ask(due)
            self._wake.set()
        self.passed(found)
        return found
