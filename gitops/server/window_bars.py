"""Windows of the coming days as bars on a line: where they are active, for people to see at a glance."""

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
"""Units of length of the whole line."""

_MAX_LABEL_X: Final = 930
MAX_ROWS: Final = 40
_MAX_BARS: Final = 100


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One window. `bars` are beginning and length of what is active, in units of `SCALE`; `opens`: it lets pass now."""

    name: str
    source: str
    kind: WindowKind
    active: bool
    opens: bool
    change: str
    governs: str
    ticket: str
    description: str
    bars: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Day:
    """A midnight. `label` is empty where there is no room for it."""

    x: int
    label: str


def rows(rules: tuple[SourceRules, ...], now: datetime) -> tuple[list[WindowRow], int]:
    """The windows in force, those that hold something back now first, and how many did not fit."""
    window_rows = [
        _window_row(source_rules.source, window, now)
        for source_rules in rules
        for window in source_rules.windows.values()
    ]
    window_rows.sort(key=lambda row: (row.opens, row.source, row.name))
    return window_rows[:MAX_ROWS], max(0, len(window_rows) - MAX_ROWS)


def days(now: datetime) -> list[Day]:
    """Midnights, UTC, of the days that are shown."""
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
