"""Windows judged minute by minute: slow, and simple enough to be believed.

Walks the minutes of UTC and looks at the clock on the wall, as a person with a watch would. Used as the oracle of the property tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import accumulate
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
TIMES = [time(hour, minute) for hour in range(24) for minute in range(60)]


@dataclass(frozen=True)
class NaiveWindows:
    """A window in plain words: on which days and times it opens, and after how many minutes or when on the wall it closes."""

    zone: ZoneInfo
    deny: bool
    on_day: Callable[[date], bool]
    at_time: Callable[[time], bool]
    duration: int = 0
    until: tuple[int | None, time] | None = None
    exdates: frozenset[date] = frozenset()
    first: date | None = None
    last: date | None = None


class Walk:
    """All minutes from `start` on, with what the wall clock of a zone shows."""

    def __init__(self, start: datetime, minutes: int, zone: ZoneInfo) -> None:
        assert start.tzinfo is UTC
        self.start = start
        self.walls = [(start + index * MINUTE).astimezone(zone).replace(tzinfo=None) for index in range(minutes)]
        self.first: dict[datetime, int] = {}
        self.last: dict[datetime, int] = {}
        self.lost: set[datetime] = set()
        for index, wall in enumerate(self.walls):
            if index and wall - self.walls[index - 1] > MINUTE:
                self._skip(index, self.walls[index - 1] + MINUTE, wall)
            self.first.setdefault(wall, index)
            self.last[wall] = index
        self.days = {wall.date() for wall in self.first}

    def _skip(self, index: int, start: datetime, end: datetime) -> None:
        """Local times that the clock jumps over take place at the jump; across the date line they do not open at all."""
        while start < end:
            self.first[start] = self.last[start] = index
            if end - self.walls[index - 1] > timedelta(hours=4, minutes=1):
                self.lost.add(start)
            start += MINUTE

    def active(self, window: NaiveWindows) -> list[bool]:
        """For each minute, whether the window is active in it."""
        days = {day for day in self.days if window.on_day(day) and day not in window.exdates}
        excepted = self.lost | window.exdates
        times = [at for at in TIMES if window.at_time(at)]
        changes = [0] * (len(self.walls) + 1)
        for wall in (datetime.combine(day, at) for day in days for at in times):
            if (index := self.first.get(wall)) is not None and wall not in excepted:
                close = min(self._close(window, wall, index), len(self.walls))
                changes[index] += 1
                changes[max(index, close)] -= 1
        found = [open_now > 0 for open_now in accumulate(changes[:-1])]
        begins = self.first.get(midnight(window.first), 0) if window.first else 0
        ends = len(found)
        if window.last:
            after = midnight(window.last + timedelta(days=1))
            ends = (self.last if window.deny else self.first).get(after, ends if after > self.walls[-1] else 0)
        return [active and begins <= index < ends for index, active in enumerate(found)]

    def _close(self, window: NaiveWindows, wall: datetime, index: int) -> int:
        if window.until is None:
            return index + window.duration
        weekday, at = window.until
        closing = _next(weekday, at, wall.date() if at > wall.time() else wall.date() + timedelta(days=1))
        return (self.last if window.deny else self.first).get(closing, len(self.walls))


@cache
def _next(weekday: int | None, at: time, day: date) -> datetime:
    """That time on this day or, with a weekday, on the next that is one."""
    while weekday not in (None, day.weekday()):
        day += timedelta(days=1)
    return datetime.combine(day, at)


def midnight(day: date) -> datetime:
    return datetime.combine(day, time())


def startable(active: Sequence[bool], cutoff: int) -> list[bool]:
    """For each minute, whether the window is active and stays so for longer than the cutoff."""
    found, left = [False] * len(active), 0
    for index in reversed(range(len(active))):
        left = left + 1 if active[index] else 0
        found[index] = left > cutoff
    return found
