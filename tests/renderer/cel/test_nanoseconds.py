"""Timestamps and durations with nanoseconds."""

from datetime import UTC, datetime, timedelta

import pytest

from renderer.cel.nanoseconds import (
    PreciseDuration,
    PreciseTimestamp,
    duration_from_nanoseconds,
    nanoseconds,
    timestamp_from_nanoseconds,
    to_python_time,
)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, -1, 10**18 + 7])
def test_a_time_keeps_its_nanoseconds(count: int) -> None:
    assert nanoseconds(timestamp_from_nanoseconds(count)) == count
    assert nanoseconds(duration_from_nanoseconds(count)) == count


def test_whole_microseconds_are_times_of_python() -> None:
    assert type(timestamp_from_nanoseconds(5000)) is datetime
    assert type(timestamp_from_nanoseconds(5001)) is PreciseTimestamp
    assert type(duration_from_nanoseconds(5000)) is timedelta
    assert type(duration_from_nanoseconds(5001)) is PreciseDuration


def test_times_compare_by_nanoseconds() -> None:
    assert timedelta(0) < duration_from_nanoseconds(1) < timedelta(microseconds=1)
    assert timestamp_from_nanoseconds(1) > datetime(1970, 1, 1, tzinfo=UTC)
    assert len({duration_from_nanoseconds(1), duration_from_nanoseconds(1)}) == 1


def test_a_precise_time_is_true() -> None:
    assert duration_from_nanoseconds(1)
    assert timestamp_from_nanoseconds(1)
    assert not duration_from_nanoseconds(0)


def test_digits_below_a_microsecond_are_cut_off() -> None:
    assert to_python_time(timestamp_from_nanoseconds(1999)) == datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)
    assert to_python_time(duration_from_nanoseconds(-1999)) == timedelta(microseconds=-1)


def test_a_year_that_python_does_not_have() -> None:
    with pytest.raises(OverflowError):
        timestamp_from_nanoseconds(10**21)
