"""Memory of the recent reconciliations of a cluster, for viewers and for the probes of liveness and readiness.

A monitor has mutable state, which few other modules have. The monitor decides only the two probes.
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
"""Maximum number of lines in memory. Consecutive reconciliations that change nothing share a line."""


@dataclass(frozen=True, slots=True)
class PassLine:
    """A reconciliation, or several consecutive reconciliations that change nothing."""

    at: datetime
    seconds: float
    """Duration of the last reconciliation in this line, in seconds."""
    commits: Mapping[str, str]
    """Commit of each source."""
    tally: StateCounts
    done: Mapping[str, int] = field(default_factory=dict)
    """Number of actions by kind."""
    failed: int = 0
    """Number of failed actions."""
    passes: int = 1
    """Number of reconciliations in this line."""

    @property
    def is_idle(self) -> bool:
        return not self.done and not self.failed

    def merge(self, previous: PassLine | None) -> PassLine:
        """Return this line, merged with `previous` if both are idle and have the same commits and the same tally."""
        are_idle = previous and self.is_idle and previous.is_idle
        if previous and are_idle and (self.commits, self.tally) == (previous.commits, previous.tally):
            return replace(self, passes=previous.passes + 1)
        return self


@dataclass
class ChangeCounter:
    """Counter of changes of the status page. A viewer can wait for the next change."""

    number: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def advance(self) -> None:
        """Count a change, and wake all viewers that wait."""
        self.number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, known_number: int) -> int:
        """Wait until the number of changes differs from `known_number`, and return the number."""
        while self.number == known_number:
            await self._changed.wait()
        return self.number


@dataclass
class Monitor:
    """Current state of a process, or of a member cluster of its fleet, for pages, metrics and probes."""

    cluster: ClusterName
    version: str
    clock: Clock
    elapsed: Callable[[], float] = time.monotonic
    """Monotonic clock, in seconds."""
    leads: Callable[[], bool] = lambda: True
    """Function that returns whether this process leads."""
    unread_sources: Callable[[], list[str]] = list
    """Function that returns the sources that Levelgate has not read successfully since its start."""
    errors: Callable[[], Mapping[str, Exception]] = dict
    """Function that returns the error of each unreadable source."""
    stands_by: Callable[[], bool] = lambda: False
    """Function that returns True if this process knows another process that leads."""
    refused: Callable[[], str] = str
    """Function that returns the error of the current configuration file, or an empty string for a valid file."""
    passes: deque[PassLine] = field(default_factory=lambda: deque(maxlen=MAX_PASS_LINES))
    longest_hold_seconds: Callable[[], float] = lambda: 0.0
    """Function that returns the longest time for which the event loop stood still, in seconds."""
    changes: ChangeCounter = field(default_factory=ChangeCounter)
    """Counter of reconciliations and, in a fleet, of other changes of the cluster."""
    root: str = ""
    """Root path of the pages of the cluster, or an empty string if the cluster is not in a fleet."""
    miscounts: int = 0
    """Number of rollouts whose count was wrong."""
    _start_times: list[float] = field(default_factory=list)
    leading_since: float | None = None
    """Start of the first reconciliation, in seconds of `elapsed`, or None before the first reconciliation."""
    _last_pass_seconds: float = 0.0
    _last_result: ReconcileResult | None = None
    _dashboard: Dashboard | None = None
    _dashboard_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def stage(self, name: str, /, **_about: str) -> Iterator[None]:
        """Measure the duration of a reconciliation (`gitops.instrumentation.Stage`).

        Ignore the inner stages of the reconciliation.
        """
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
        """Return the seconds since the start of the oldest unfinished reconciliation, or 0 if all have finished."""
        return self.elapsed() - min(self._start_times) if self._start_times else 0.0

    def record_pass(self, result: ReconcileResult) -> None:
        """Record the end of a reconciliation."""
        merged = _pass_line(result, self.clock.now(), self._last_pass_seconds).merge(
            self.passes[-1] if self.passes else None
        )
        if merged.passes > 1:
            self.passes.pop()
        self.passes.append(merged)
        self._last_result = result
        self._dashboard = None  # It holds the whole result of an earlier reconciliation.
        self.miscounts += len(result.miscounted)
        self.changes.advance()

    async def dashboard(self) -> Dashboard | None:
        """Return the dashboard of the last reconciliation, or None before the first reconciliation.

        A thread creates the dashboard once for all viewers, because the work takes a second for thousands of instances.
        """
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
"""Seconds after which a reconciliation counts as stuck. If a reconciliation is stuck, the liveness probe fails."""

FIRST_SYNC_TIMEOUT_SECONDS: Final = 60.0
"""Longest time in seconds for which the first read of a source may delay readiness."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Answer of a probe: its success, and one line for people."""

    is_ok: bool
    message: str


def check_liveness(monitor: Monitor) -> ProbeResult:
    """Return a failure if a reconciliation is stuck, and otherwise a success.

    Any answer proves that the event loop runs.
    """
    if monitor.longest_pass_seconds > STUCK_PASS_SECONDS:
        duration = f"{monitor.longest_pass_seconds:.0f}s, longer than {STUCK_PASS_SECONDS:.0f}s"
        return ProbeResult(False, f"a reconciliation has lasted for {duration}: it is stuck")
    return ProbeResult(True, "ok")


def check_readiness(monitor: Monitor) -> ProbeResult:
    """Return the readiness of the process.

    A process that stands by is ready to take over. A leader is ready after the first reconciliation and the first read
    of every source. An unreadable source delays readiness by at most `FIRST_SYNC_TIMEOUT_SECONDS`.
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
