"""Timers: those of the daemon, on a real loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import apscheduler.schedulers.base
import pytest

from gitops.daemon import timers
from gitops.daemon.timers import Timers

PAST = datetime(2020, 1, 1, tzinfo=UTC)
FUTURE = timedelta(hours=1)


async def test_a_time_that_has_passed_fires_at_once() -> None:
    fired = asyncio.Event()
    async with Timers() as schedule:
        schedule.call_at("window", PAST, fired.set)
        await asyncio.wait_for(fired.wait(), 60)


async def test_a_later_timer_of_the_same_name_replaces_the_first() -> None:
    calls: list[str] = []
    fired = asyncio.Event()
    async with Timers() as schedule:
        schedule.call_at("a", datetime.now(UTC) + FUTURE, lambda: calls.append("old"))
        schedule.call_at("a", PAST, lambda: calls.append("new"))
        schedule.call_at("b", datetime.now(UTC) + timedelta(seconds=0.02), fired.set)
        await asyncio.wait_for(fired.wait(), 60)
    assert calls == ["new"]


async def test_a_poll_comes_back_until_cancelled() -> None:
    calls: list[int] = []
    thrice, after = asyncio.Event(), asyncio.Event()
    async with Timers() as schedule:

        def poll() -> None:
            calls.append(len(calls))
            if len(calls) == 3:
                schedule.cancel("poll")
                schedule.call_at("after", datetime.now(UTC) + timedelta(seconds=0.05), after.set)
                thrice.set()

        schedule.call_every("poll", timedelta(seconds=0.01), poll, jitter=0)
        await asyncio.wait_for(thrice.wait(), 60)
        await asyncio.wait_for(after.wait(), 60)
    assert calls == [0, 1, 2]


async def test_jitter_stays_within_its_share() -> None:
    async with Timers() as schedule:
        before = datetime.now(UTC)
        schedule.call_every("poll", timedelta(minutes=10), lambda: None, jitter=0.5)
        await asyncio.sleep(0)
        due = schedule._scheduler.get_job("poll").next_run_time
        assert before + timedelta(minutes=10) <= due <= datetime.now(UTC) + timedelta(minutes=15)


async def test_timers_of_one_interval_do_not_fire_together() -> None:
    """A hundred sources do not ask their servers at the same moment."""
    async with Timers() as schedule:
        for number in range(20):
            schedule.call_every(f"poll {number}", timedelta(hours=1), lambda: None)
        await asyncio.sleep(0)
        due = [job.next_run_time for job in schedule._scheduler.get_jobs()]
        assert max(due) - min(due) > timedelta(seconds=30)


class Shifted(datetime):
    """A clock that somebody has set."""

    by = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + cls.by


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Shifted]]:
    for module in (timers, apscheduler.schedulers.base):
        monkeypatch.setattr(module, "datetime", Shifted)
    monkeypatch.setattr(timers, "_CLOCK_CHECK_SECONDS", 0.01)
    yield Shifted
    Shifted.by = timedelta()


async def test_a_clock_that_is_set_back_keeps_no_poll_waiting(clock: type[Shifted]) -> None:
    polled = asyncio.Event()
    async with Timers() as schedule:
        schedule.call_every("poll", FUTURE, polled.set)
        await asyncio.sleep(0)  # it has fallen asleep
        clock.by = timedelta(days=-1)
        await asyncio.wait_for(polled.wait(), 60)
        due = schedule._scheduler.get_job("poll").next_run_time - clock.now(UTC)
    assert timedelta() < due <= FUTURE * 1.1


async def test_a_clock_that_is_set_forward_opens_windows(clock: type[Shifted]) -> None:
    opened, early = asyncio.Event(), list[str]()
    async with Timers() as schedule:
        schedule.call_at("window", datetime.now(UTC) + FUTURE, opened.set)
        schedule.call_at("later", datetime.now(UTC) + 3 * FUTURE, lambda: early.append("later"))
        await asyncio.sleep(0)
        clock.by = 2 * FUTURE
        await asyncio.wait_for(opened.wait(), 60)
    assert not early


async def test_cancelling_what_is_not_there_is_no_error() -> None:
    async with Timers() as schedule:
        schedule.cancel("absent")


async def test_a_failing_action_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    fired = asyncio.Event()
    async with Timers() as schedule:
        schedule.call_at("bad", PAST, lambda: 1 / 0)  # type: ignore[arg-type]
        schedule.call_at("good", PAST, fired.set)
        await asyncio.wait_for(fired.wait(), 60)
    assert "timer bad failed" in caplog.text


async def test_nothing_fires_after_the_end() -> None:
    calls: list[str] = []
    async with Timers() as schedule:
        schedule.call_every("poll", timedelta(seconds=0.005), lambda: calls.append("x"), jitter=0)
    count = len(calls)
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, done.set)
    await done.wait()
    assert len(calls) == count


async def test_nonsense_is_refused() -> None:
    async with Timers() as schedule:
        with pytest.raises(ValueError, match="no time zone"):
            schedule.call_at("a", datetime(2026, 1, 1), lambda: None)
        with pytest.raises(ValueError, match="must be positive"):
            schedule.call_every("a", timedelta(0), lambda: None)
