"""When a window is active: occurrences as half-open intervals of UTC, and the edges around an instant.

Invariants: an occurrence is active from `opens` on and no more at `closes`. Occurrences that overlap or touch are one. Openings and closings
are found on the wall calendar and turned into instants first; a duration is elapsed time, added to the instant. Occurrences of one window
that open later do not close earlier, so the one before an instant tells all about it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import date, datetime, time, timedelta
from functools import cached_property
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from gitops.windows import zones
from gitops.windows.recurrence import Days
from renderer.frozen import dataclass

HORIZON: Final = timedelta(days=3653)
"""How far edges are looked for: ten years, since 29 February can be eight years away."""

_DAY: Final = timedelta(days=1)
_MAX_CACHE_ENTRIES: Final = 64
"""Days and instants that are kept in memory, as neighbouring questions ask for the same ones."""


class Interval(NamedTuple):
    opens: datetime
    closes: datetime


class ActiveSpan(NamedTuple):
    """What holds at an instant: active or not, since when and until when; None is beyond the horizon."""

    active: bool
    since: datetime | None
    until: datetime | None


class MergedOccurrences(NamedTuple):
    """Occurrences that overlap or touch, as far as they were looked at: the first and the last of them."""

    first: Interval
    last: Interval


class Occurrences(Protocol):
    """Not empty intervals in order, none of them closing before an earlier one."""

    def iter_after(self, moment: datetime) -> Iterator[Interval]:
        """Those that open after the instant, the next first."""

    def iter_until(self, moment: datetime) -> Iterator[Interval]:
        """Those that open at the instant or before, the latest first."""


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Closes when so much time has passed, whatever the clock on the wall shows."""

    duration: timedelta


@dataclass(frozen=True, slots=True)
class WallClock:
    """Closes at the first such time on the wall calendar after the opening. `weekday` counts from Monday, 0; None is any day.

    Where the time comes twice, `last` says which of the two: the cautious one, so the first for an Allow and the last for a Deny.
    """

    at: time
    weekday: int | None
    last: bool

    def closing_of(self, opening: datetime) -> datetime:
        """The local time of the closing, for the local time of an opening."""
        days_ahead = 0 if self.weekday is None else (self.weekday - opening.weekday()) % 7
        closing = datetime.combine(opening.date() + timedelta(days=days_ahead), self.at)
        return closing if closing > opening else closing + timedelta(days=1 if self.weekday is None else 7)


@dataclass(frozen=True)
class Repeating:
    """Openings at the same times on certain days. `exdates` are local openings, or whole days of them, that are left out."""

    days: Days
    times: tuple[time, ...]
    end: Elapsed | WallClock
    zone: ZoneInfo
    exdates: frozenset[datetime | date]
    _cache: dict[date, tuple[Interval, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def iter_after(self, moment: datetime) -> Iterator[Interval]:
        # One day more on either side: a change of the clock at midnight can put an opening on another date.
        for day in self.days.iter_from(zones.to_local(moment, self.zone).date() - _DAY):
            yield from (interval for interval in self._occurrences_on(day) if interval.opens > moment)

    def iter_until(self, moment: datetime) -> Iterator[Interval]:
        for day in self.days.iter_before(zones.to_local(moment, self.zone).date() + 2 * _DAY):
            yield from (interval for interval in reversed(self._occurrences_on(day)) if interval.opens <= moment)

    def _occurrences_on(self, day: date) -> tuple[Interval, ...]:
        """The occurrences that open on one of the days, merged."""
        if (occurrences := self._cache.get(day)) is None:
            if len(self._cache) >= _MAX_CACHE_ENTRIES:
                self._cache.clear()
            occurrences = self._cache[day] = self._find_occurrences(day)
        return occurrences

    def _find_occurrences(self, day: date) -> tuple[Interval, ...]:
        midnight = datetime.combine(day, time())
        if day in self._days_with_exceptions or zones.changes_between(midnight, midnight + _DAY, self.zone):
            return merge_intervals(self._run(opening, opening) for opening in self.openings(day))
        return merge_intervals(
            self._run(datetime.combine(day, first), datetime.combine(day, last)) for first, last in self._runs
        )

    def openings(self, day: date) -> list[datetime]:
        """The local openings on one of the days, exceptions left out."""
        if day in self.exdates:
            return []
        return [opening for start in self.times if (opening := datetime.combine(day, start)) not in self.exdates]

    def _run(self, first: datetime, last: datetime) -> Interval | None:
        """From the opening of one occurrence to the closing of a later one that touches it, or the same."""
        opens = zones.opening_instant(first, self.zone)
        closes = self._closing_of(last)
        return Interval(opens, closes) if opens and closes and opens < closes else None

    def _closing_of(self, opening: datetime) -> datetime | None:
        match self.end:
            case Elapsed(duration):
                opens = zones.opening_instant(opening, self.zone)
                return opens + duration if opens else None
            case WallClock(last=last) as wall:
                return zones.closing_instant(wall.closing_of(opening), self.zone, last=last)

    @cached_property
    def _days_with_exceptions(self) -> frozenset[date]:
        return frozenset(exdate.date() if isinstance(exdate, datetime) else exdate for exdate in self.exdates)

    @cached_property
    def _runs(self) -> tuple[tuple[time, time], ...]:
        """First and last opening of what becomes one occurrence on a day without a change of the clock: `* * * * *` is one, not 1,440."""
        runs: list[tuple[time, time]] = []
        for start in self.times:
            if runs and self._touches(runs[-1][1], start):
                runs[-1] = (runs[-1][0], start)
            else:
                runs.append((start, start))
        return tuple(runs)

    def _touches(self, earlier: time, later: time) -> bool:
        some_day = date(2001, 1, 1)
        first, second = datetime.combine(some_day, earlier), datetime.combine(some_day, later)
        match self.end:
            case Elapsed(duration):
                return second - first <= duration
            case WallClock(at=closing):
                return not earlier < closing < later


@dataclass(frozen=True, slots=True)
class Fixed:
    """Intervals that are written down one by one, merged."""

    intervals: tuple[Interval, ...]

    def iter_after(self, moment: datetime) -> Iterator[Interval]:
        yield from self.intervals[self._count_opened(moment) :]

    def iter_until(self, moment: datetime) -> Iterator[Interval]:
        yield from reversed(self.intervals[: self._count_opened(moment)])

    def _count_opened(self, moment: datetime) -> int:
        return bisect_right(self.intervals, moment, key=lambda interval: interval.opens)


def merge_intervals(intervals: Iterable[Interval | None]) -> tuple[Interval, ...]:
    """In order, those that overlap or touch made one."""
    result: list[Interval] = []
    for interval in sorted(filter(None, intervals)):
        if result and interval.opens <= result[-1].closes:
            result[-1] = Interval(result[-1].opens, max(result[-1].closes, interval.closes))
        else:
            result.append(interval)
    return tuple(result)


@dataclass(slots=True)
class WindowTimeline:
    """Occurrences inside the time in which the window is in effect: from `begins` on, and no more at `ends`; None is no limit.

    Spans are remembered for the instants last asked for: all targets of a pass ask for the same one. So is the run of occurrences that was found
    last: who asks for a later instant of it looks on from its ends. A window that is always open has thousands.
    """

    occurrences: Occurrences
    begins: datetime | None = None
    ends: datetime | None = None
    _span_cache: dict[datetime, ActiveSpan] = field(default_factory=dict, init=False, compare=False, repr=False)
    _run: MergedOccurrences | None = field(default=None, init=False, compare=False, repr=False)

    def has_begun(self, moment: datetime) -> bool:
        return self.begins is None or self.begins <= moment

    def has_ended(self, moment: datetime) -> bool:
        return self.ends is not None and self.ends <= moment

    def span(self, moment: datetime) -> ActiveSpan:
        """What holds at an instant."""
        if (active_span := self._span_cache.get(moment)) is None:
            if len(self._span_cache) >= _MAX_CACHE_ENTRIES:
                self._span_cache.clear()
            active_span = self._span_cache[moment] = self._find_span(moment)
        return active_span

    def _find_span(self, moment: datetime) -> ActiveSpan:
        if self.begins and moment < self.begins:
            first = self.span(self.begins)
            return ActiveSpan(False, None, self.begins if first.active else first.until)
        if self.ends and self.ends <= moment:
            last = self.span(self.ends - timedelta.resolution)
            return ActiveSpan(False, self.ends if last.active else last.since, None)
        active, since, until = self._unlimited_span(moment)
        if self.begins and (since is None or since < self.begins):
            since = self.begins if active else None
        if self.ends and (until is None or self.ends <= until):
            until = self.ends if active else None
        return ActiveSpan(active, since, until)

    def _unlimited_span(self, moment: datetime) -> ActiveSpan:
        """As if the window was always in effect."""
        run = self._run
        if run is None or not run.first.opens <= moment < run.last.closes:
            latest = next(self.occurrences.iter_until(moment), None)
            if latest is None or latest.closes <= moment:
                following = next(self.occurrences.iter_after(moment), None)
                opens = following.opens if following and following.opens <= moment + HORIZON else None
                return ActiveSpan(False, latest.closes if latest else None, opens)
            run = MergedOccurrences(latest, latest)
        first, since = _first_of_run(run.first, self.occurrences, moment - HORIZON)
        last, until = _last_of_run(run.last, self.occurrences, moment + HORIZON)
        self._run = MergedOccurrences(first, last)
        return ActiveSpan(True, since, until)

    def intervals(self, moment: datetime) -> Iterator[tuple[datetime | None, datetime | None]]:
        """The merged occurrences from the one that is active at the instant on; None for an edge beyond the horizon."""
        span = self.span(moment)
        while span.active or span.until:
            if span.active:
                yield span.since, span.until
            if span.until is None:
                return
            span = self.span(span.until)


def _first_of_run(first: Interval, occurrences: Occurrences, horizon: datetime) -> tuple[Interval, datetime | None]:
    """The first occurrence of a run, from one of them back, and when it opens; None beyond the horizon."""
    for interval in occurrences.iter_until(first.opens):
        if first.opens < horizon or interval.closes < first.opens:
            break
        first = interval
    return first, first.opens if first.opens >= horizon else None


def _last_of_run(last: Interval, occurrences: Occurrences, horizon: datetime) -> tuple[Interval, datetime | None]:
    """The last occurrence of a run, from one of them on, and when it closes; None beyond the horizon."""
    for interval in occurrences.iter_after(last.opens):
        if last.closes > horizon or interval.opens > last.closes:
            break
        last = interval
    return last, last.closes if last.closes <= horizon else None
