"""Windows as bars: where they are active in the coming days, which are told first, and what a person reads beside them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gitops.server.window_bars import DAYS, SCALE, WindowRow, days, rows
from tests.support.monitoring.page import held
from tests.support.monitoring.scene import scene

NOW = datetime(2026, 11, 20, 18, tzinfo=UTC)
"""A Friday."""


async def shown(now: datetime) -> dict[str, WindowRow]:
    """By name, in the order in which they are shown."""
    async with scene(names=("i0",)) as seen:
        await held(seen)
        board = await seen.seen.monitor.dashboard()
        assert board
        found, more = rows(board.rules, now)
    assert more == 0
    return {one.name: one for one in found}


def at(day: int, hour: int) -> int:
    return round((datetime(2026, 11, day, hour, tzinfo=UTC) - NOW) / timedelta(days=DAYS) * SCALE)


async def test_bars_stand_where_windows_are_active() -> None:
    found = await shown(NOW)
    weekdays = (23, 24, 25, 26, 27)
    assert [(start, start + width) for start, width in found["prod"].bars] == [
        (at(day, 8), at(day, 16)) for day in weekdays
    ]
    assert [(start, start + width) for start, width in found["freeze"].bars] == [(at(22, 11), at(24, 5))]


async def test_what_holds_something_back_now_comes_first_and_says_until_when() -> None:
    before = await shown(NOW)
    assert [(name, one.active, one.opens) for name, one in before.items()] == [
        ("prod", False, False),
        ("freeze", False, True),
    ]
    assert before["prod"].change == "opens Mon 2026-11-23 08:00 UTC"
    assert before["freeze"].change == "starts Sun 2026-11-22 11:00 UTC"
    within = await shown(NOW + timedelta(hours=62, minutes=30))
    assert {name: (one.active, one.opens) for name, one in within.items()} == {
        "freeze": (True, False),
        "prod": (True, True),
    }
    assert list(within) == ["freeze", "prod"]
    assert within["freeze"].bars[0][0] == 0
    assert within["freeze"].change == "ends Tue 2026-11-24 05:00 UTC"


def test_midnights_are_named_where_there_is_room() -> None:
    found = days(NOW)
    assert [one.x for one in found] == [at(day, 0) for day in range(21, 28)]
    assert [one.label for one in found][:2] == ["Sat 21", "Sun 22"]
    at_midnight = days(datetime(2026, 11, 20, tzinfo=UTC))
    assert [one.x < SCALE for one in at_midnight] == [True] * 6


async def test_windows_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitops.server.window_bars.MAX_ROWS", 1)
    async with scene(names=("i0",)) as seen:
        await held(seen)
        board = await seen.seen.monitor.dashboard()
        assert board
        found, more = rows(board.rules, NOW)
        assert ([one.name for one in found], more) == (["prod"], 1)
        assert "1 more" in await seen.page()
