"""What the daemon tells while it works, kept for those who look: the last pass, those before it, and whether it is alive.

One of the few places with state that changes. It is told, and decides nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import datetime

from gitops.clock import Clock
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.sources import revisions_of
from gitops.reconcile.tally import StateCounts
from gitops.server.dashboard import Dashboard
from renderer.frozen import dataclass

KEPT = 50
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

    def after(self, before: PassLine | None) -> PassLine:
        """With the line before it, where both changed nothing and found the same."""
        same = before and self.is_idle and before.is_idle
        if before and same and (self.commits, self.tally) == (before.commits, before.tally):
            return replace(self, passes=before.passes + 1)
        return self


@dataclass
class Monitor:
    """Of one process. `elapsed` is a clock that only goes forward, in seconds. `leads`: does it work; `stands_by`: does it know
    of another that does; `refused`: why is the configuration file as it is now not taken.
    """

    cluster: str
    version: str
    clock: Clock
    elapsed: Callable[[], float] = time.monotonic
    leads: Callable[[], bool] = lambda: True
    unread: Callable[[], list[str]] = list
    errors: Callable[[], Mapping[str, Exception]] = dict
    stands_by: Callable[[], bool] = lambda: False
    refused: Callable[[], str] = str
    passes: deque[PassLine] = field(default_factory=lambda: deque(maxlen=KEPT))
    number: int = 0
    miscounts: int = 0
    _begun: list[float] = field(default_factory=list)
    leading_since: float | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _seconds: float = 0.0
    _last: ReconcileResult | None = None
    _board: Dashboard | None = None
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def stage(self, name: str, /, **_about: str) -> Iterator[None]:
        """See `gitops.instrumentation.Stage`: how long the passes last that are under way."""
        if name not in {"pass", "part"}:
            yield
            return
        begun = self.elapsed()
        self.leading_since = begun if self.leading_since is None else self.leading_since
        self._begun.append(begun)
        try:
            yield
        finally:
            self._seconds = self.elapsed() - begun
            self._begun.remove(begun)

    @property
    def lasts(self) -> float:
        """Seconds that the longest pass under way has lasted; 0 where there is none."""
        return self.elapsed() - min(self._begun) if self._begun else 0.0

    def passed(self, found: ReconcileResult) -> None:
        """A pass is over."""
        line = _line(found, self.clock.now(), self._seconds)
        merged = line.after(self.passes[-1] if self.passes else None)
        if merged.passes > 1:
            self.passes.pop()
        self.passes.append(merged)
        self._last, self.number = found, self.number + 1
        self.miscounts += len(found.miscounted)
        self._changed.set()
        self._changed = asyncio.Event()

    async def next(self, known: int) -> int:
        """The number of the last pass, once that is not the `known` one any more."""
        while self.number == known:
            await self._changed.wait()
        return self.number

    async def board(self) -> Dashboard | None:
        """Of the last pass; None before the first one. Made in a thread, once for all who look: with thousands of instances it takes a second."""
        async with self._making:
            last = self._last and (self._last.latest() if self._last.latest else self._last)
            if last is not None and (self._board is None or self._board.found is not last):
                self._board = await asyncio.to_thread(self._made, last, self.passes[-1].at)
        return self._board

    def _made(self, found: ReconcileResult, at: datetime) -> Dashboard:
        return asyncio.run(Dashboard.of(found, cluster=self.cluster, at=at))


def _line(found: ReconcileResult, at: datetime, seconds: float) -> PassLine:
    done = Counter(one.action for one in found.results if one.error is None and not one.is_bookkeeping)
    failed = sum(1 for one in found.results if one.error is not None)
    commits = revisions_of(found.sources)
    return PassLine(at, seconds, commits, StateCounts.of_all(found.ledger), dict(done), failed)
