"""Events of the working daemon, kept for viewers: recent reconciliations, liveness and readiness.

One of the few places with mutable state. It decides nothing but the two probes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import datetime
from typing import Final

from applier.cluster import ClusterName
from gitops.clock import Clock
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.sources import revisions_of
from gitops.reconcile.tally import StateCounts
from gitops.server.dashboard import Dashboard
from renderer.frozen import dataclass

MAX_PASS_LINES = 50
"""Passes that are remembered. Those that changed nothing are one line together, until something happens again."""


@dataclass(frozen=True, slots=True)
class PassLine:
    """One pass, or several in a row that changed nothing. `done` counts what was done, `failed` what could not be."""

    at: datetime
    seconds: float
    commits: Mapping[str, str]
    tally: StateCounts
    done: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    passes: int = 1

    @property
    def is_idle(self) -> bool:
        return not self.done and not self.failed

    def merge(self, previous: PassLine | None) -> PassLine:
        """With the line before it, where both changed nothing and found the same."""
        are_idle = previous and self.is_idle and previous.is_idle
        if previous and are_idle and (self.commits, self.tally) == (previous.commits, previous.tally):
            return replace(self, passes=previous.passes + 1)
        return self


@dataclass
class ChangeCounter:
    """Counts what viewers are to be told, and lets them wait for the next change."""

    number: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def advance(self) -> None:
        """Wake whoever waits."""
        self.number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, known_number: int) -> int:
        """Return the number, once it is not `known_number` any more."""
        while self.number == known_number:
            await self._changed.wait()
        return self.number


@dataclass
class Monitor:
    """Of one process, and of each further cluster of its fleet. `elapsed` is a clock that only goes forward, in seconds. `leads`:
    does it work; `stands_by`: does it know of another that does; `refused`: why is the configuration file as it is now not taken;
    `longest_hold_seconds`: how long has the event loop stood still at most. `root` is the path of the cluster's pages, empty
    where there is no fleet; `changes` counts passes, and in a fleet other news of the cluster, too.
    """

    cluster: ClusterName
    version: str
    clock: Clock
    elapsed: Callable[[], float] = time.monotonic
    leads: Callable[[], bool] = lambda: True
    unread_sources: Callable[[], list[str]] = list
    errors: Callable[[], Mapping[str, Exception]] = dict
    stands_by: Callable[[], bool] = lambda: False
    refused: Callable[[], str] = str
    passes: deque[PassLine] = field(default_factory=lambda: deque(maxlen=MAX_PASS_LINES))
    longest_hold_seconds: Callable[[], float] = lambda: 0.0
    changes: ChangeCounter = field(default_factory=ChangeCounter)
    root: str = ""
    miscounts: int = 0
    _start_times: list[float] = field(default_factory=list)
    leading_since: float | None = None
    _last_pass_seconds: float = 0.0
    _last_result: ReconcileResult | None = None
    _dashboard: Dashboard | None = None
    _dashboard_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def stage(self, name: str, /, **_about: str) -> Iterator[None]:
        """See `gitops.instrumentation.Stage`: how long the passes last that are under way."""
        if name not in {"pass", "part"}:
            yield
            return
        started = self.elapsed()
        self.leading_since = started if self.leading_since is None else self.leading_since
        self._start_times.append(started)
        try:
            yield
        finally:
            self._last_pass_seconds = self.elapsed() - started
            self._start_times.remove(started)

    @property
    def longest_pass_seconds(self) -> float:
        """Seconds that the longest pass under way has lasted; 0 where there is none."""
        return self.elapsed() - min(self._start_times) if self._start_times else 0.0

    def record_pass(self, result: ReconcileResult) -> None:
        """A pass is over."""
        merged = _pass_line(result, self.clock.now(), self._last_pass_seconds).merge(
            self.passes[-1] if self.passes else None
        )
        if merged.passes > 1:
            self.passes.pop()
        self.passes.append(merged)
        self._last_result = result
        self.miscounts += len(result.miscounted)
        self.changes.advance()

    async def dashboard(self) -> Dashboard | None:
        """Of the last pass; None before the first one. Made in a thread, once for all who look: with thousands of instances it takes a second."""
        async with self._dashboard_lock:
            last = self._last_result and (self._last_result.latest() if self._last_result.latest else self._last_result)
            if last is not None and (self._dashboard is None or self._dashboard.found is not last):
                building = Dashboard.from_result(last, cluster=self.cluster, at=self.passes[-1].at)
                self._dashboard = await asyncio.to_thread(asyncio.run, building)
        return self._dashboard


def _pass_line(result: ReconcileResult, at: datetime, seconds: float) -> PassLine:
    done = Counter(
        action_result.action
        for action_result in result.results
        if action_result.error is None and not action_result.is_bookkeeping
    )
    failed = sum(1 for action_result in result.results if action_result.error is not None)
    return PassLine(at, seconds, revisions_of(result.sources), StateCounts.of_all(result.ledger), dict(done), failed)


STUCK_PASS_SECONDS: Final = 900.0
"""Seconds: a pass that lasts longer does not end any more, and the process is better started anew."""

FIRST_SYNC_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that a source may take to be read for the first time; after that readiness waits for it no longer."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`why` is one line, for people."""

    is_ok: bool
    message: str


def check_liveness(monitor: Monitor) -> ProbeResult:
    """Whoever answers has a loop that lives; a pass must not be stuck in it."""
    if monitor.longest_pass_seconds > STUCK_PASS_SECONDS:
        return ProbeResult(
            False,
            f"a reconciliation has lasted for {monitor.longest_pass_seconds:.0f}s, longer than {STUCK_PASS_SECONDS:.0f}s: it is stuck",
        )
    return ProbeResult(True, "ok")


def check_readiness(monitor: Monitor) -> ProbeResult:
    """Whoever knows who leads, and waits, is ready to follow. Whoever leads is, once every source was read and a pass is over; a
    source that cannot be read is waited for no longer than `FIRST_SYNC_TIMEOUT_SECONDS`, because the others must not suffer.
    """
    if not monitor.leads():
        if monitor.stands_by():
            return ProbeResult(True, "standing by: another replica leads")
        return ProbeResult(False, f"cluster {monitor.cluster} does not report a leader yet")
    unread_names = monitor.unread_sources()
    if not monitor.passes:
        unread_text = f"; not read yet: {', '.join(unread_names)}" if unread_names else ""
        return ProbeResult(False, f"the first reconciliation has not ended yet{unread_text}")
    leading_seconds = monitor.elapsed() - (monitor.leading_since or 0.0)
    if unread_names and leading_seconds < FIRST_SYNC_TIMEOUT_SECONDS:
        return ProbeResult(False, f"not read yet: {', '.join(unread_names)}")
    return ProbeResult(True, f"ok, but not read yet: {', '.join(unread_names)}" if unread_names else "ok")
