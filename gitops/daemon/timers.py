"""Every timer of the daemon: polls with jitter, and single wake-ups such as the edge of a window.

The only module that imports apscheduler. Times are computed elsewhere (windows by cron arithmetic that is right);
here is only "call me then". Actions run on the event loop, one after another, and must not block.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

_log = logging.getLogger(__name__)

_CLOCK_CHECK_SECONDS: Final = 30.0
"""Seconds; apscheduler sleeps until the next timer as the clock was when it fell asleep."""


class Timers:
    """Named timers on the running event loop. Use with `async with`; timers run between entry and exit.

    A name stands for one timer: a new one of that name replaces it. Late timers run once, however many turns were
    missed. A clock that is set forward or back is followed within half a minute: `at` means the new time, and what
    comes back at intervals does not wait until the clock is where it was.
    """

    def __init__(self) -> None:
        from apscheduler.schedulers.asyncio import AsyncIOScheduler

        self._scheduler: Any = AsyncIOScheduler(
            timezone=UTC,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._max_intervals: dict[str, timedelta] = {}

    async def __aenter__(self) -> Self:
        self._scheduler.start()
        self._check_clock()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clock_check.cancel()
        self._scheduler.shutdown(wait=False)
        await asyncio.sleep(0)  # the scheduler stops in a callback of the loop

    def call_every(self, name: str, interval: timedelta, action: Callable[[], None], *, jitter: float = 0.1) -> None:
        """Call `action` after each `interval`, the first time after one; each turn later by up to `jitter` of it."""
        from apscheduler.triggers.interval import IntervalTrigger

        seconds = interval.total_seconds()
        if seconds <= 0 or not 0 <= jitter < 1:
            raise ValueError(f"{name}: the interval must be positive and the jitter at least 0 and below 1")
        trigger = IntervalTrigger(seconds=seconds, timezone=UTC, jitter=seconds * jitter or None)
        self._add_job(name, trigger, action)
        self._max_intervals[name] = interval * (1 + jitter)

    def call_at(self, name: str, when: datetime, action: Callable[[], None]) -> None:
        """Call `action` once at `when` (with a zone), or at once if that has passed."""
        from apscheduler.triggers.date import DateTrigger

        if when.tzinfo is None:
            raise ValueError(f"{name}: {when} has no time zone")
        self._add_job(name, DateTrigger(when.astimezone(UTC)), action)

    def cancel(self, name: str) -> None:
        """Forget the timer; it need not exist."""
        from apscheduler.jobstores.base import JobLookupError

        self._max_intervals.pop(name, None)
        try:
            self._scheduler.remove_job(name)
        except JobLookupError:
            _log.debug("no timer %s", name)

    def _check_clock(self) -> None:
        now = datetime.now(UTC)
        for name, max_interval in self._max_intervals.items():
            if self._scheduler.get_job(name).next_run_time > now + max_interval:  # the clock was set back
                self._scheduler.modify_job(name, next_run_time=now)
        self._scheduler.wakeup()
        self._clock_check = asyncio.get_running_loop().call_later(_CLOCK_CHECK_SECONDS, self._check_clock)

    def _add_job(self, name: str, trigger: Any, action: Callable[[], None]) -> None:
        async def run() -> None:  # a coroutine: plain functions would run in threads
            try:
                action()
            except Exception:
                _log.exception("timer %s failed", name)

        self._max_intervals.pop(name, None)
        self._scheduler.add_job(run, trigger, id=name, name=name, replace_existing=True)
