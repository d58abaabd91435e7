"""Occurrences of a window as half-open intervals in UTC, and the span of a window around an instant.

Invariants:

- An occurrence includes `opens` and excludes `closes`.
- Occurrences that overlap or touch are merged.
- Openings and wall-clock closings come from local times, converted to UTC. A duration counts from the opening in UTC.
- An occurrence that opens later than another occurrence never closes earlier.

So the latest occurrence that opens before an instant decides whether the window is active at that instant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from gitops.windows import zones
from gitops.windows.recurrence import Days
from renderer.frozen import dataclass

HORIZON: Final = timedelta(days=3653)
"""Longest search for an edge: ten years, because the next 29 February can be eight years away."""

_DAY: Final = timedelta(days=1)
_MAX_CACHE_ENTRIES: Final = 64
"""Maximum number of days, or of instants, that one cache keeps. Consecutive calls need the same entries."""


class Interval(NamedTuple):
    """Half-open interval of UTC instants."""

    opens: datetime
    """First instant of the interval."""
    closes: datetime
    """First instant after the interval."""


class ActiveSpan(NamedTuple):
    """State of a window at an instant, and the period in which this state does not change."""

    active: bool
    since: datetime | None
    """Start of the state in UTC, or None if the state has no start within `HORIZON`."""
    until: datetime | None
    """End of the state in UTC, or None if the state has no end within `HORIZON`."""


class MergedOccurrences(NamedTuple):
    """First and last examined occurrence of a run, a sequence of occurrences that overlap or touch."""

    first: Interval
    last: Interval


class Occurrences(Protocol):
    """Non-empty intervals in the order of their openings. Their closings are in the same order."""

    def iter_after(self, moment: datetime) -> Iterator[Interval]:
        """Yield the intervals that open after `moment`, in ascending order."""

    def iter_until(self, moment: datetime) -> Iterator[Interval]:
        """Yield the intervals that open at `moment` or before, in descending order."""


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Closing after an elapsed time, regardless of clock changes."""

    duration: timedelta


@dataclass(frozen=True, slots=True)
class WallClock:
    """Closing at the first local time `at` after the opening. If `weekday` is set, the closing is on this weekday."""

    at: time
    weekday: int | None
    """Day of the closing, where 0 is Monday, or None for any day."""
    last: bool
    """True if the later instant counts when the local time occurs twice: False for Allow, True for Deny.

    So an Allow closes at the earlier instant, and a Deny at the later instant.
    """

    def closing_of(self, opening: datetime) -> datetime:
        """Return the local time of the closing after the local time `opening`."""
        days_ahead = 0 if self.weekday is None else (self.weekday - opening.weekday()) % 7
        closing = datetime.combine(opening.date() + timedelta(days=days_ahead), self.at)
        return closing if closing > opening else closing + timedelta(days=1 if self.weekday is None else 7)


@dataclass(frozen=True)
class Repeating:
    """Occurrences that open at the same local times on each of `days`."""

    days: Days
    times: tuple[time, ...]
    """Local times of the openings, ascending."""
    end: Elapsed | WallClock
    zone: ZoneInfo
    exdates: frozenset[datetime | date]
    """Local times of openings, or whole days, that have no occurrence."""
    _cache: dict[date, tuple[Interval, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def iter_after(self, moment: datetime) -> Iterator[Interval]:
        # One more day on either side, because a clock change at midnight can move an opening to another date.
        for day in self.days.iter_from(zones.to_local(moment, self.zone).date() - _DAY):
            yield from (interval for interval in self._occurrences_on(day) if interval.opens > moment)

    def iter_until(self, moment: datetime) -> Iterator[Interval]:
        for day in self.days.iter_before(zones.to_local(moment, self.zone).date() + 2 * _DAY):
            yield from (interval for interval in reversed(self._occurrences_on(day)) if interval.opens <= moment)

    def _occurrences_on(self, day: date) -> tuple[Interval, ...]:
        """Return the merged occurrences that open on `day`, from the cache if possible."""
        if (occurrences := self._cache.get(day)) is None:
            if len(self._cache) >= _MAX_CACHE_ENTRIES:
                self._cache.clear()
            occurrences = self._cache[day] = self._find_occurrences(day)
        return occurrences

    def _find_occurrences(self, day: date) -> tuple[Interval, ...]:
        """Return the merged occurrences that open on `day`.

        On a day without `exdates` and clock changes, convert occurrences that touch as one run. For example, the
        expression `* * * * *` needs one conversion instead of 1,440.
        """
        offset = None if day in self._days_with_exceptions else zones.offset_on(day, self.zone)
        if offset is None:
            return merge_intervals(self._run(opening, opening) for opening in self.openings(day))
        runs = [self._regular_run(day, first, last, offset) for first, last in self._runs]
        return tuple(runs) if len(runs) == 1 else merge_intervals(runs)

    def openings(self, day: date) -> list[datetime]:
        """Return the local times of the openings on `day`, without the times in `exdates`."""
        if day in self.exdates:
            return []
        return [opening for start in self.times if (opening := datetime.combine(day, start)) not in self.exdates]

    def _run(self, first: datetime, last: datetime) -> Interval | None:
        """Return the interval from the opening `first` to the closing of the opening `last`.

        If clock changes leave no time between the opening and the closing, return None.
        """
        opens = zones.opening_instant(first, self.zone)
        closes = self._closing_of(last)
        return Interval(opens, closes) if opens and closes and opens < closes else None

    def _regular_run(self, day: date, first: time, last: time, offset: timedelta) -> Interval:
        """Return the interval from the opening `first` to the closing of the opening `last`.

        All local times on `day` have the same offset from UTC.
        """
        opens = datetime.combine(day, first, UTC) - offset
        match self.end:
            case Elapsed(duration):
                return Interval(opens, datetime.combine(day, last, UTC) - offset + duration)
            case WallClock(last=is_last) as wall:
                closing = wall.closing_of(datetime.combine(day, last))
                if closing.date() == day:
                    return Interval(opens, closing.replace(tzinfo=UTC) - offset)
                return Interval(opens, zones.closing_instant(closing, self.zone, last=is_last))

    def _closing_of(self, opening: datetime) -> datetime | None:
        """Return the instant of the closing after the local time `opening`, or None if `opening` does not occur."""
        match self.end:
            case Elapsed(duration):
                opens = zones.opening_instant(opening, self.zone)
                return opens + duration if opens else None
            case WallClock(last=last) as wall:
                return zones.closing_instant(wall.closing_of(opening), self.zone, last=last)

    @cached_property
    def _days_with_exceptions(self) -> frozenset[date]:
        """Return the days of all `exdates`."""
        return frozenset(exdate.date() if isinstance(exdate, datetime) else exdate for exdate in self.exdates)

    @cached_property
    def _runs(self) -> tuple[tuple[time, time], ...]:
        """Return the first and the last opening of each run of occurrences that touch.

        The result is valid for days without `exdates` and clock changes.
        """
        runs: list[tuple[time, time]] = []
        for start in self.times:
            if runs and self._touches(runs[-1][1], start):
                runs[-1] = (runs[-1][0], start)
            else:
                runs.append((start, start))
        return tuple(runs)

    def _touches(self, earlier: time, later: time) -> bool:
        """Return whether the occurrence that opens at `earlier` lasts until `later`."""
        some_day = date(2001, 1, 1)
        first, second = datetime.combine(some_day, earlier), datetime.combine(some_day, later)
        match self.end:
            case Elapsed(duration):
                return second - first <= duration
            case WallClock(at=closing):
                return not earlier < closing < later


@dataclass(frozen=True, slots=True)
class Fixed:
    """Intervals that the author lists, merged and in order."""

    intervals: tuple[Interval, ...]

    def iter_after(self, moment: datetime) -> Iterator[Interval]:
        yield from self.intervals[self._count_opened(moment) :]

    def iter_until(self, moment: datetime) -> Iterator[Interval]:
        yield from reversed(self.intervals[: self._count_opened(moment)])

    def _count_opened(self, moment: datetime) -> int:
        return bisect_right(self.intervals, moment, key=lambda interval: interval.opens)


def merge_intervals(intervals: Iterable[Interval | None]) -> tuple[Interval, ...]:
    """Return `intervals` in order, without None, and with intervals that overlap or touch merged."""
    result: list[Interval] = []
    for interval in sorted(filter(None, intervals)):
        if result and interval.opens <= result[-1].closes:
            result[-1] = Interval(result[-1].opens, max(result[-1].closes, interval.closes))
        else:
            result.append(interval)
    return tuple(result)


@dataclass(slots=True)
class WindowTimeline:
    """Occurrences of a window, limited to the period in which the window is in effect.

    The timeline caches the latest spans, because a reconciliation judges all targets at one instant. The timeline also
    caches the latest run of merged occurrences. A search from a later instant continues from the ends of the run. A
    window that is always open has thousands of occurrences in one run.
    """

    occurrences: Occurrences
    begins: datetime | None = None
    """First instant of the effective time in UTC, or None if the effective time has no start."""
    ends: datetime | None = None
    """First instant after the effective time in UTC, or None if the effective time has no end."""
    _span_cache: dict[datetime, ActiveSpan] = field(default_factory=dict, init=False, compare=False, repr=False)
    _run: MergedOccurrences | None = field(default=None, init=False, compare=False, repr=False)

    def has_begun(self, moment: datetime) -> bool:
        """Return whether the effective time has begun at `moment`."""
        return self.begins is None or self.begins <= moment

    def has_ended(self, moment: datetime) -> bool:
        """Return whether the effective time has ended at `moment`."""
        return self.ends is not None and self.ends <= moment

    def span(self, moment: datetime) -> ActiveSpan:
        """Return the span around `moment`, from the cache if possible."""
        if (active_span := self._span_cache.get(moment)) is None:
            if len(self._span_cache) >= _MAX_CACHE_ENTRIES:
                self._span_cache.clear()
            active_span = self._span_cache[moment] = self._find_span(moment)
        return active_span

    def _find_span(self, moment: datetime) -> ActiveSpan:
        """Return the span around `moment`, cut at the limits of the effective time."""
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
        """Return the span around `moment` without regard to the effective time."""
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
        """Yield the opening and the closing of each merged occurrence that closes after `moment`.

        An opening or closing that is further away than `HORIZON` is None.
        """
        span = self.span(moment)
        while span.active or span.until:
            if span.active:
                yield span.since, span.until
            if span.until is None:
                return
            span = self.span(span.until)


def _first_of_run(first: Interval, occurrences: Occurrences, horizon: datetime) -> tuple[Interval, datetime | None]:
    """Return the first occurrence of the run that `first` belongs to, and the opening of this occurrence.

    If the opening is before `horizon`, where the search stops, the opening is None.
    """
    for interval in occurrences.iter_until(first.opens):
        if first.opens < horizon or interval.closes < first.opens:
            break
        first = interval
    return first, first.opens if first.opens >= horizon else None


def _last_of_run(last: Interval, occurrences: Occurrences, horizon: datetime) -> tuple[Interval, datetime | None]:
    """Return the last occurrence of the run that `last` belongs to, and the closing of this occurrence.

    If the closing is after `horizon`, where the search stops, the closing is None.
    """
    for interval in occurrences.iter_after(last.opens):
        if last.closes > horizon or interval.opens > last.closes:
            break
        last = interval
    return last, last.closes if last.closes <= horizon else None
