"""Accessors of timestamps and durations."""

import pytest

from renderer.cel import evaluate
from renderer.cel.functions import times
from renderer.errors import ExpressionError

TIME = "timestamp('2026-01-31T23:30:00.5Z')"


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("getMonth()", 0),
        ("getDayOfMonth('Europe/Berlin')", 0),
        ("getDate('Europe/Berlin')", 1),
        ("getDayOfWeek()", 6),
        ("getHours('-01:00')", 22),
        ("getHours('01:00')", 0),
        ("getMilliseconds()", 500),
    ],
)
def test_a_part_of_a_time_in_its_zone(call: str, value: int) -> None:
    assert evaluate(f"{TIME}.{call}", {}) == value


@pytest.mark.parametrize("zone", ["Nowhere/City", "../etc/passwd", "+25:00", "+٠1:00", ""])
def test_an_unknown_zone(zone: str) -> None:
    with pytest.raises(ExpressionError, match="unknown time zone"):
        evaluate(f"{TIME}.getHours(zone)", {"zone": zone})


def test_units_of_a_negative_duration_truncate() -> None:
    assert evaluate("duration('-90m').getHours()", {}) == -1
    assert times.milliseconds(evaluate("duration('-1500ms')", {})) == -500
