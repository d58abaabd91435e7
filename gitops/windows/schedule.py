"""The times in a window: its schedule, how it closes, what is left out, and from when to when it is in effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import islice
from posixpath import dirname, join, normpath
from typing import Any, Final
from zoneinfo import ZoneInfo

from gitops.windows import ical, recurrence, time_syntax, zones
from gitops.windows.occurrences import (
    Elapsed,
    Fixed,
    Interval,
    Occurrences,
    Repeating,
    WallClock,
    WindowTimeline,
    merged,
)
from gitops.windows.problem_collector import FieldError, FieldProblems, parsed
from gitops.windows.window import WindowKind

_SOURCES: Final = ("cron", "rrule", "once", "calendar")
_TRIED: Final = 1000
"""So many occurrences are looked at for one that the cutoff leaves something of."""


class ScheduleReader:
    """Reads the times in a spec whose form is valid; `calendars` are the `.ics` files of the commit."""

    def __init__(
        self, spec: Mapping[str, Any], found: FieldProblems, calendars: Mapping[str, bytes], where: ZoneInfo
    ) -> None:
        self.spec = spec
        self.found = found
        self.calendars = calendars
        self.where = where
        self.deny = spec.get("kind") == WindowKind.DENY

    def timeline(self, cutoff: timedelta) -> WindowTimeline | None:
        """When the window is active; None with at least one problem noted, or none of its own to note."""
        if self.deny and cutoff:
            self.found.fail("spec.cutoff", "only an Allow has a last part in which nothing new is started; remove it")
        exdates = [self.found.tried(partial(self._exdate, index)) for index in range(len(self.spec.get("exdates", ())))]
        limits = self._effective()
        end = self.found.tried(self._end)
        occurrences = self.found.tried(lambda: self._occurrences(end, frozenset(filter(None, exdates))))
        if self.found.problems or occurrences is None:
            return None
        timeline = WindowTimeline(occurrences, *limits)
        self._check_opens(timeline, cutoff)
        return timeline

    def _exdate(self, index: int) -> date:
        text = self.spec["exdates"][index]
        return parsed(
            f"spec.exdates[{index}]", time_syntax.wall if len(text) > len("2026-12-24") else time_syntax.day, text
        )

    def _effective(self) -> tuple[datetime | None, datetime | None]:
        """Both dates are inclusive."""
        given = self.spec.get("effective", {})
        first, last = (
            self.found.tried(partial(parsed, f"spec.effective.{name}", time_syntax.day, given[name]))
            if name in given
            else None
            for name in ("from", "to")
        )
        if first and last and last < first:
            self.found.fail("spec.effective.to", f"{last} is before {first}, so the window can never open")
        begins = zones.closing(datetime.combine(first, time()), self.where, last=False) if first else None
        ends = (
            zones.closing(datetime.combine(last + timedelta(days=1), time()), self.where, last=self.deny)
            if last
            else None
        )
        if first and last and first <= last and begins and ends and ends <= begins:
            self.found.fail("spec.effective", f"{self.where.key} skipped {first}, so the window can never open")
        return begins, ends

    def _end(self) -> Elapsed | WallClock | None:
        """How a repeating window closes; None for one whose occurrences have an end of their own."""
        given = [name for name in ("duration", "until") if name in self.spec]
        schedule = self.spec.get("schedule", {})
        if "once" in schedule or "calendar" in schedule:
            if given:
                raise FieldError(
                    f"spec.{given[0]}", "each entry of once or of a calendar has an end already; remove it"
                )
            return None
        if len(given) == 2:
            raise FieldError(
                "spec.until",
                "duration and until exclude one another; duration is elapsed time, until the clock on the wall",
            )
        if not given and self.found.at("spec.duration", "spec.until"):
            return None
        if not given:
            raise FieldError(
                "spec", "neither duration nor until: say when the window closes, such as until: '17:00' or duration: 8h"
            )
        if given == ["until"]:
            weekday, at = parsed("spec.until", time_syntax.until, self.spec["until"])
            return WallClock(at, weekday, last=self.deny)
        duration = parsed("spec.duration", time_syntax.duration, self.spec["duration"])
        if not duration:
            raise FieldError("spec.duration", "a window that takes no time can never open")
        return Elapsed(duration)

    def _occurrences(self, end: Elapsed | WallClock | None, exdates: frozenset[date]) -> Occurrences | None:
        schedule = self.spec.get("schedule")
        if schedule is None:
            return None
        given = [name for name in _SOURCES if name in schedule]
        if len(given) != 1:
            raise FieldError(
                "spec.schedule", f"has {' and '.join(given) or 'nothing'}; give exactly one of {', '.join(_SOURCES)}"
            )
        if "dtstart" in schedule and "rrule" not in schedule:
            raise FieldError("spec.schedule.dtstart", "belongs to rrule; remove it, or see effective.from")
        match given[0]:
            case "cron":
                days, times = parsed("spec.schedule.cron", recurrence.cron, schedule["cron"])
                return Repeating(days, times, end, self.where, exdates) if end else None
            case "rrule":
                start, rule = self._rule(schedule)
                return Repeating(rule, (start.time(),), end, self.where, exdates) if end else None
            case "once":
                return Fixed(merged(self._entry(index, exdates) for index in range(len(schedule["once"]))))
        return Fixed(merged(self._events(schedule["calendar"], exdates)))

    def _rule(self, schedule: Mapping[str, Any]) -> tuple[datetime, recurrence.RuleDays]:
        if "dtstart" not in schedule:
            raise FieldError(
                "spec.schedule", "rrule needs dtstart, the first day and the time of day, such as 2026-01-13T20:00"
            )
        start = parsed("spec.schedule.dtstart", time_syntax.wall, schedule["dtstart"])
        return start, parsed("spec.schedule.rrule", lambda text: recurrence.rule(text, start.date()), schedule["rrule"])

    def _entry(self, index: int, exdates: frozenset[date]) -> Interval | None:
        path = f"spec.schedule.once[{index}]"
        given = self.spec["schedule"]["once"][index]
        start, end = (parsed(f"{path}.{name}", time_syntax.wall, given[name]) for name in ("start", "end"))
        if end <= start:
            raise FieldError(
                f"{path}.end", f"{given['end']} is not after {given['start']}, so the window can never open"
            )
        return self._interval(ical.CalendarEvent(start, None, end, None), exdates)

    def _events(self, name: str, exdates: frozenset[date]) -> Iterator[Interval | None]:
        path = "spec.schedule.calendar"
        file = normpath(join(dirname(self.found.declared.origin.file), name))
        if file not in self.calendars:
            known = ", ".join(sorted(self.calendars)) or "none"
            raise FieldError(
                path,
                f"no calendar {file!r} in this commit; names are relative to the window's file; there are: {known}",
            )
        try:
            found = ical.events(self.calendars[file])
        except ical.CalendarError as error:
            raise FieldError(path, f"{file}:{error.line}: {error.message}") from None
        for event in found:
            yield self._interval(event, exdates)

    def _interval(self, event: ical.CalendarEvent, exdates: frozenset[date]) -> Interval | None:
        """When an event takes place; None where it is left out or takes no time."""
        if event.start in exdates or event.start.date() in exdates:
            return None
        opens = zones.opening(event.start, event.start_zone or self.where)
        closes = zones.closing(event.end, event.end_zone or self.where, last=self.deny) + event.extra
        return Interval(opens, closes) if opens and opens < closes else None

    def _check_opens(self, timeline: WindowTimeline, cutoff: timedelta) -> None:
        """Refuse what can never open, whatever the date."""
        for opens, closes in islice(timeline.intervals(_beginning(timeline.occurrences)), _TRIED):
            if opens is None or closes is None or closes - opens > cutoff:
                return
        if cutoff:
            self.found.fail(
                "spec.cutoff",
                "the cutoff takes the whole window, so nothing can ever be started in it; make it shorter",
            )
        else:
            self.found.fail(
                "spec.schedule", "the window can never open: no opening is left by schedule, exdates and effective"
            )


def _beginning(occurrences: Occurrences) -> datetime:
    """An instant before which no occurrence has to be looked for."""
    match occurrences:
        case Repeating(days=recurrence.RuleDays(start=start)):
            return datetime.combine(start, time(), UTC) - timedelta(days=2)
        case Fixed(intervals=(first, *_)):
            return first.opens
    return datetime(1970, 1, 1, tzinfo=UTC)
