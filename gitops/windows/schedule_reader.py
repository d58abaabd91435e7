"""Reader for the times of a window: schedule, closing, exceptions and effective time."""

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
    HORIZON,
    Elapsed,
    Fixed,
    Interval,
    Occurrences,
    Repeating,
    WallClock,
    WindowTimeline,
    merge_intervals,
)
from gitops.windows.problem_collector import FieldError, FieldProblems, parse_field
from gitops.windows.window import WindowKind

_SOURCES: Final = ("cron", "rrule", "once", "calendar")
_MAX_CHECKED_OCCURRENCES: Final = 1000
"""Maximum number of occurrences that the reader checks to find an occurrence longer than the cutoff."""


class ScheduleReader:
    """Reader for the times in the `spec` of a window. The `spec` must match the schema.

    The reader adds mistakes to `field_problems`. The reader finds calendars among the `.ics` files of the commit, by
    path.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        field_problems: FieldProblems,
        calendars: Mapping[str, bytes],
        time_zone: ZoneInfo,
    ) -> None:
        self.spec = spec
        self.field_problems = field_problems
        self.calendars = calendars
        self.time_zone = time_zone
        self.is_deny = spec.get("kind") == WindowKind.DENY

    def read_timeline(self, cutoff: timedelta) -> WindowTimeline | None:
        """Return the timeline of the window, or None if `field_problems` has a problem.

        The problem may be in the times, or in another field of the window.
        """
        if self.is_deny and cutoff:
            self.field_problems.add_problem("spec.cutoff", "only an Allow window has a cutoff; remove cutoff")
        exdates = [
            self.field_problems.try_parse(partial(self._read_exdate, index))
            for index in range(len(self.spec.get("exdates", ())))
        ]
        limits = self._read_effective()
        end = self.field_problems.try_parse(self._read_end)
        occurrences = self.field_problems.try_parse(
            lambda: self._read_occurrences(end, frozenset(filter(None, exdates)))
        )
        if self.field_problems.problems or occurrences is None:
            return None
        timeline = WindowTimeline(occurrences, *limits)
        self._check_opens(timeline, cutoff)
        return timeline

    def _read_exdate(self, index: int) -> date:
        """Return the entry `index` of `exdates`: a local time or a whole day.

        Raises: FieldError if the entry is neither a local time nor a date.
        """
        text = self.spec["exdates"][index]
        return parse_field(
            f"spec.exdates[{index}]",
            time_syntax.parse_local_time if len(text) > len("2026-12-24") else time_syntax.parse_date,
            text,
        )

    def _read_effective(self) -> tuple[datetime | None, datetime | None]:
        """Return the first instant of the effective time, and the first instant after the effective time.

        Both dates in the spec are inclusive. A limit that the spec lacks is None.
        """
        effective = self.spec.get("effective", {})
        first, last = (
            self.field_problems.try_parse(
                partial(parse_field, f"spec.effective.{name}", time_syntax.parse_date, effective[name])
            )
            if name in effective
            else None
            for name in ("from", "to")
        )
        if first and last and last < first:
            self.field_problems.add_problem(
                "spec.effective.to", f"{last} is before {first}, so the window can never open; correct the dates"
            )
        begins = zones.closing_instant(datetime.combine(first, time()), self.time_zone, last=False) if first else None
        ends = (
            zones.closing_instant(datetime.combine(last + timedelta(days=1), time()), self.time_zone, last=self.is_deny)
            if last
            else None
        )
        if first and last and first <= last and begins and ends and ends <= begins:
            self.field_problems.add_problem(
                "spec.effective",
                f"{self.time_zone.key} skipped {first}, so the window can never open; correct the dates",
            )
        return begins, ends

    def _read_end(self) -> Elapsed | WallClock | None:
        """Return the closing of a repeating window.

        If each occurrence has an end of its own, or a field of the closing already has a problem, return None.

        Raises: FieldError if the spec has no valid closing, or more than one closing.
        """
        end_fields = [name for name in ("duration", "until") if name in self.spec]
        schedule = self.spec.get("schedule", {})
        if "once" in schedule or "calendar" in schedule:
            if end_fields:
                raise FieldError(
                    f"spec.{end_fields[0]}", "each entry of once or of a calendar already has an end; remove this field"
                )
            return None
        if len(end_fields) == 2:
            raise FieldError(
                "spec.until",
                "duration and until exclude one another; keep duration for elapsed time, or until for local time",
            )
        if not end_fields and self.field_problems.has_problem_at("spec.duration", "spec.until"):
            return None
        if not end_fields:
            raise FieldError(
                "spec", "has neither duration nor until; set a closing such as until: '17:00' or duration: 8h"
            )
        if end_fields == ["until"]:
            weekday, closing_time = parse_field("spec.until", time_syntax.parse_until, self.spec["until"])
            return WallClock(closing_time, weekday, last=self.is_deny)
        duration = parse_field("spec.duration", time_syntax.parse_duration, self.spec["duration"])
        if not duration:
            raise FieldError("spec.duration", "is zero, so the window can never open; write a longer duration")
        return Elapsed(duration)

    def _read_occurrences(self, end: Elapsed | WallClock | None, exdates: frozenset[date]) -> Occurrences | None:
        """Return the occurrences of the window.

        If the schedule or the closing is missing, return None, because the reader has already added a problem.

        Raises: FieldError if the schedule is invalid.
        """
        schedule = self.spec.get("schedule")
        if schedule is None:
            return None
        sources = [name for name in _SOURCES if name in schedule]
        if len(sources) != 1:
            raise FieldError(
                "spec.schedule", f"has {' and '.join(sources) or 'nothing'}; give exactly one of {', '.join(_SOURCES)}"
            )
        if "dtstart" in schedule and "rrule" not in schedule:
            raise FieldError("spec.schedule.dtstart", "belongs to rrule; remove dtstart, or set effective.from")
        match sources[0]:
            case "cron":
                days, times = parse_field("spec.schedule.cron", recurrence.parse_cron, schedule["cron"])
                return Repeating(days, times, end, self.time_zone, exdates) if end else None
            case "rrule":
                start, rule = self._read_rule(schedule)
                return Repeating(rule, (start.time(),), end, self.time_zone, exdates) if end else None
            case "once":
                return Fixed(
                    merge_intervals(self._read_entry(index, exdates) for index in range(len(schedule["once"])))
                )
        return Fixed(merge_intervals(self._read_events(schedule["calendar"], exdates)))

    def _read_rule(self, schedule: Mapping[str, Any]) -> tuple[datetime, recurrence.RuleDays]:
        """Return the first opening and the days of an rrule.

        Raises: FieldError if `dtstart` is missing, or a field is invalid.
        """
        if "dtstart" not in schedule:
            raise FieldError(
                "spec.schedule", "rrule needs dtstart; write the first day and the time, such as 2026-01-13T20:00"
            )
        start = parse_field("spec.schedule.dtstart", time_syntax.parse_local_time, schedule["dtstart"])
        return start, parse_field(
            "spec.schedule.rrule", lambda text: recurrence.parse_rule(text, start.date()), schedule["rrule"]
        )

    def _read_entry(self, index: int, exdates: frozenset[date]) -> Interval | None:
        """Return the interval of the entry `index` of `once`, or None if the entry is in `exdates` or is empty.

        Raises: FieldError if a time is invalid, or the end is not after the start.
        """
        path = f"spec.schedule.once[{index}]"
        entry = self.spec["schedule"]["once"][index]
        start, end = (
            parse_field(f"{path}.{name}", time_syntax.parse_local_time, entry[name]) for name in ("start", "end")
        )
        if end <= start:
            raise FieldError(
                f"{path}.end", f"{entry['end']} is not after {entry['start']}; correct the times, or remove the entry"
            )
        return self._interval(ical.CalendarEvent(start, None, end, None), exdates)

    def _read_events(self, name: str, exdates: frozenset[date]) -> Iterator[Interval | None]:
        """Yield the interval of each event in the calendar file `name`, or None for an omitted event (`_interval`).

        Raises: FieldError if the file is missing or invalid.
        """
        path = "spec.schedule.calendar"
        file = normpath(join(dirname(self.field_problems.declared.origin.file), name))
        if file not in self.calendars:
            known_files = ", ".join(sorted(self.calendars)) or "the commit has none"
            raise FieldError(
                path,
                f"calendar {file!r} is not in this commit; "
                f"name one of these files, relative to the window's file: {known_files}",
            )
        try:
            events = ical.parse_events(self.calendars[file])
        except ical.CalendarError as error:
            raise FieldError(path, f"{file}:{error.line}: {error.message}") from None
        for event in events:
            yield self._interval(event, exdates)

    def _interval(self, event: ical.CalendarEvent, exdates: frozenset[date]) -> Interval | None:
        """Return the interval of `event`, or None if the start of the event is in `exdates` or the event is empty."""
        if event.start in exdates or event.start.date() in exdates:
            return None
        opens = zones.opening_instant(event.start, event.start_zone or self.time_zone)
        closes = zones.closing_instant(event.end, event.end_zone or self.time_zone, last=self.is_deny) + event.extra
        return Interval(opens, closes) if opens and opens < closes else None

    def _check_opens(self, timeline: WindowTimeline, cutoff: timedelta) -> None:
        """Add a problem if no occurrence in `timeline` is longer than `cutoff`, so that the window can never open.

        The result does not depend on the current date. Check at most `_MAX_CHECKED_OCCURRENCES` occurrences.
        """
        start = _search_start(timeline.occurrences)
        if _first_opening_time(timeline, start) > cutoff:
            return
        for opens, closes in islice(timeline.intervals(start), _MAX_CHECKED_OCCURRENCES):
            if opens is None or closes is None or closes - opens > cutoff:
                return
        if cutoff:
            self.field_problems.add_problem(
                "spec.cutoff",
                "the cutoff covers the whole window, so no change can ever start; shorten the cutoff",
            )
        else:
            self.field_problems.add_problem(
                "spec.schedule",
                "schedule, exdates and effective leave no opening, so the window can never open; "
                "correct one of these fields",
            )


def _first_opening_time(timeline: WindowTimeline, start: datetime) -> timedelta:
    """Return for how long the first occurrence that opens after `start` is in effect.

    If the occurrence opens more than `HORIZON` after `start`, return zero.

    The occurrence is not merged with the next ones. If a window is always open, a merged occurrence spans thousands of
    occurrences.
    """
    begins = max(start, timeline.begins or start)
    first = next(timeline.occurrences.iter_after(begins), None)
    if first is None or first.opens > begins + HORIZON:
        return timedelta()
    return min(first.closes, timeline.ends or first.closes) - first.opens


def _search_start(occurrences: Occurrences) -> datetime:
    """Return an instant at or before the first of `occurrences`, from which a search can start."""
    match occurrences:
        case Repeating(days=recurrence.RuleDays(start=start)):
            return datetime.combine(start, time(), UTC) - timedelta(days=2)
        case Fixed(intervals=(first, *_)):
            return first.opens
    return datetime(1970, 1, 1, tzinfo=UTC)
