"""Times in a window: each parser accepts one form, and its refusal says what to write."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import pytest

from gitops.windows import time_syntax
from gitops.windows.recurrence import ScheduleError


def test_valid_times() -> None:
    assert time_syntax.parse_until("17:00") == (None, time(17))
    assert time_syntax.parse_until("Mon 06:00") == (0, time(6))
    assert time_syntax.parse_local_time("2026-12-18T12:00") == datetime(2026, 12, 18, 12)
    assert time_syntax.parse_local_time("2026-12-18 12:00:30") == datetime(2026, 12, 18, 12, 0, 30)
    assert time_syntax.parse_date("2026-12-18") == date(2026, 12, 18)
    assert time_syntax.parse_duration("1h30m") == timedelta(minutes=90)
    assert time_syntax.parse_zone("Europe/Berlin").key == "Europe/Berlin"


@pytest.mark.parametrize("text", ["24:00", "7:00", "Mo 06:00", ""])
def test_a_time_of_day_has_two_digits_each(text: str) -> None:
    with pytest.raises(ScheduleError, match="write for example 17:00"):
        time_syntax.parse_until(text)


@pytest.mark.parametrize("text", ["2026-12-18T12:00Z", "2026-12-18T12:00+01:00", "2026-02-30T12:00"])
def test_a_local_time_has_no_offset_and_exists(text: str) -> None:
    with pytest.raises(ScheduleError, match="is not a local time"):
        time_syntax.parse_local_time(text)


def test_refusals_name_the_limit_or_a_similar_name() -> None:
    with pytest.raises(ScheduleError, match="did you mean 'Europe/Berlin'"):
        time_syntax.parse_zone("Europe/Berlni")
    with pytest.raises(ScheduleError, match="the year 9999 is not between 1970 and 2499"):
        time_syntax.parse_date("9999-12-31")
    with pytest.raises(ScheduleError):
        time_syntax.parse_duration("400d")
