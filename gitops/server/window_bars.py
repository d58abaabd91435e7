"""Bars on a line for the active times of windows in the coming days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from gitops.explain.window_table import describe_next_change, describe_selector
from gitops.rollouts.source_rules import SourceRules
from gitops.text import TimeFormat
from gitops.windows.verdict import start_state
from gitops.windows.window import Window, WindowKind
from renderer.frozen import dataclass

DAYS: Final = 7
SCALE: Final = 1000
"""Length of the whole line, in units of the picture."""

_MAX_LABEL_X: Final = 930
"""Largest position of a label that fits into the picture."""
MAX_ROWS: Final = 40
_MAX_BARS: Final = 100


@dataclass(frozen=True, slots=True)
class WindowRow:
    """Row of a window, with its state in words and its bars."""

    name: str
    source: str
    kind: WindowKind
    active: bool
    opens: bool
    """True if the window allows changes now."""
    change: str
    """Next change, in words."""
    governs: str
    """Selector, in words."""
    ticket: str
    description: str
    bars: tuple[tuple[int, int], ...]
    """Start and length of each active period, in units of `SCALE`."""


@dataclass(frozen=True, slots=True)
class Day:
    """Mark of a midnight in UTC on the line."""

    x: int
    label: str
    """Weekday and day, or an empty string if no label fits at this position."""


def rows(rules: tuple[SourceRules, ...], now: datetime) -> tuple[list[WindowRow], int]:
    """Return the rows of the windows in force, and the number of windows that do not fit.

    Windows that forbid changes now come first.
    """
    window_rows = [
        _window_row(source_rules.source, window, now)
        for source_rules in rules
        for window in source_rules.windows.values()
    ]
    window_rows.sort(key=lambda row: (row.opens, row.source, row.name))
    return window_rows[:MAX_ROWS], max(0, len(window_rows) - MAX_ROWS)


def days(now: datetime) -> list[Day]:
    """Return the midnights on the line."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    starts = [midnight + timedelta(days=number) for number in range(1, DAYS + 1)]
    places = [(x, start) for start in starts if (x := _x_of(start, now)) < SCALE]
    return [Day(x, f"{start:%a %d}" if x <= _MAX_LABEL_X else "") for x, start in places]


def _window_row(source: str, window: Window, now: datetime) -> WindowRow:
    active = window.timeline.span(now).active
    opens = not active if window.kind is WindowKind.DENY else start_state(window, now).is_open
    change = describe_next_change(window, TimeFormat(utc=True), now)
    if change == "none":
        change = "for good"
    elif window.kind is WindowKind.DENY:
        change = change.replace("closes", "ends") if active else f"starts {change}"
    elif not active:
        change = f"opens {change}"
    return WindowRow(
        window.name,
        source,
        window.kind,
        active,
        opens,
        change,
        describe_selector(window),
        window.ticket,
        window.description,
        tuple(_bars(window, now)),
    )


def _bars(window: Window, now: datetime) -> Iterator[tuple[int, int]]:
    end = now + timedelta(days=DAYS)
    spans = takewhile(lambda span: span[0] is None or span[0] < end, window.timeline.intervals(now))
    for (opens, closes), _ in zip(spans, range(_MAX_BARS), strict=False):
        start = _x_of(max(opens or now, now), now)
        yield start, max(2, _x_of(min(closes or end, end), now) - start)


def _x_of(moment: datetime, now: datetime) -> int:
    return round((moment - now) / timedelta(days=DAYS) * SCALE)
