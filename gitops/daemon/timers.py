"""Timers of the daemon: polls with jitter, and single wake-ups such as the edge of a window.

Other modules compute the times. `gitops/windows` has its own cron arithmetic for the times of windows. Actions run on
the event loop, one after another, and must not block. Only this module imports apscheduler.
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
"""Seconds between two checks of the wall clock, because a sleeping apscheduler does not notice a new clock setting."""


class Timers:
    """Named timers on the running event loop, active within `async with`.

    A new timer replaces the timer of the same name. If a timer is late by several intervals, the timer runs once. If a
    person sets the wall clock, the timers follow within half a minute. A timer of `call_at` then obeys the new time,
    and a timer of `call_every` waits no longer than its interval.
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
        await asyncio.sleep(0)  # The scheduler stops in a callback of the loop.

    def call_every(self, name: str, interval: timedelta, action: Callable[[], None], *, jitter: float = 0.1) -> None:
        """Call `action` after each `interval`.

        Args:
            jitter: largest random delay, as a fraction of the interval.

        Raises: ValueError if the interval is not positive, or the jitter is not in [0, 1).
        """
        from apscheduler.triggers.interval import IntervalTrigger

        seconds = interval.total_seconds()
        if seconds <= 0 or not 0 <= jitter < 1:
            raise ValueError(f"{name}: the interval must be positive and the jitter at least 0 and below 1")
        trigger = IntervalTrigger(seconds=seconds, timezone=UTC, jitter=seconds * jitter or None)
        self._add_job(name, trigger, action)
        self._max_intervals[name] = interval * (1 + jitter)

    def call_at(self, name: str, when: datetime, action: Callable[[], None]) -> None:
        """Call `action` once at `when`. If `when` has passed, call `action` immediately.

        Args:
            when: time with a time zone.

        Raises: ValueError if `when` has no time zone.
        """
        from apscheduler.triggers.date import DateTrigger

        if when.tzinfo is None:
            raise ValueError(f"{name}: {when} has no time zone")
        self._add_job(name, DateTrigger(when.astimezone(UTC)), action)

    def cancel(self, name: str) -> None:
        """Cancel the timer `name`. If no timer has this name, do nothing."""
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
        async def run() -> None:  # a coroutine, because apscheduler runs plain functions in threads
            try:
                action()
            except Exception:
                _log.exception("timer %s failed", name)

        self._max_intervals.pop(name, None)
        self._scheduler.add_job(run, trigger, id=name, name=name, replace_existing=True)
