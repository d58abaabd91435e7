"""Durations as people write and read them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gitops.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(milliseconds=300), "300ms"),
        (timedelta(seconds=52), "52s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(hours=1, minutes=30), "1h30m"),
        (timedelta(days=2, hours=4, seconds=5), "2d4h5s"),
        (timedelta(days=366), "366d"),
    ],
)
def test_a_duration_is_read_as_it_is_written(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text
    assert parse_duration(text) == duration


def test_a_negative_duration_has_a_sign() -> None:
    assert format_duration(timedelta(minutes=-2)) == "-2m"


def test_fractions_of_a_second_are_rounded_from_a_second_on() -> None:
    assert format_duration(timedelta(seconds=59, milliseconds=700)) == "1m"


def test_a_duration_longer_than_the_maximum_is_refused() -> None:
    assert parse_duration("366d", maximum=timedelta(days=366)) == timedelta(days=366)
    with pytest.raises(ValueError, match="'367d' is longer than 366d"):
        parse_duration("367d", maximum=timedelta(days=366))
