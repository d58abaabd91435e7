"""Values as text, as Go writes them."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from renderer.cel.text_format import (
    double_text,
    duration_text,
    json_double_text,
    positional_text,
    seconds_text,
    timestamp_text,
)


@pytest.mark.parametrize(
    ("value", "short", "in_json", "positional"),
    [
        (1.0, "1", "1", "1"),
        (0.5, "0.5", "0.5", "0.5"),
        (1e6, "1e+06", "1000000", "1000000"),
        (1e-7, "1e-07", "1e-7", "0.0000001"),
        (1.5e21, "1.5e+21", "1.5e+21", "1500000000000000000000"),
        (-0.0, "-0", "-0", "-0"),
    ],
)
def test_a_double(value: float, short: str, in_json: str, positional: str) -> None:
    assert (double_text(value), json_double_text(value), positional_text(value)) == (short, in_json, positional)


def test_doubles_that_are_not_finite() -> None:
    assert [double_text(value) for value in (math.inf, -math.inf, math.nan)] == ["+Inf", "-Inf", "NaN"]


@pytest.mark.parametrize(
    ("value", "seconds", "go"),
    [
        (timedelta(0), "0s", "0s"),
        (timedelta(minutes=90), "5400s", "1h30m0s"),
        (timedelta(milliseconds=1500), "1.5s", "1.5s"),
        (timedelta(milliseconds=-300), "-0.3s", "-300ms"),
        (timedelta(microseconds=1), "0.000001s", "1µs"),
        (timedelta(seconds=61), "61s", "1m1s"),
    ],
)
def test_a_duration(value: timedelta, seconds: str, go: str) -> None:
    assert (seconds_text(value), duration_text(value)) == (seconds, go)


def test_a_timestamp_is_in_utc_with_the_digits_that_it_needs() -> None:
    assert timestamp_text(datetime(26, 1, 31, 8, tzinfo=UTC)) == "0026-01-31T08:00:00Z"
    assert timestamp_text(datetime(2026, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC)) == "2026-01-31T08:00:00.5Z"
