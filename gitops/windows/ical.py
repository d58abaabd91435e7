"""Events of an iCalendar file (RFC 5545), with their start and end in local time.

The parser supports only single events, with DTSTART and either DTEND or DURATION. A recurring event is an error,
because reading only a part of it would close or open a window at the wrong time. The parser skips cancelled events,
to-dos and alarms. The parser also skips definitions of time zones, because TZID must be a name of the IANA database.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gitops.windows import time_syntax, zones
from renderer.frozen import dataclass

_RECURRENCE_PROPERTIES = frozenset({"RRULE", "RDATE", "EXDATE", "RECURRENCE-ID"})
_DURATION = re.compile(r"P(?:(\d{1,3})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?")


class CalendarError(ValueError):
    """First mistake in an iCalendar file. `line` is the line of the mistake, counted from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """Start and end of an event in local time, each with its zone."""

    start: datetime
    start_zone: ZoneInfo | None
    """Zone of `start`, or None for the time zone of the window."""
    end: datetime
    end_zone: ZoneInfo | None
    """Zone of `end`, or None for the time zone of the window."""
    extra: timedelta = timedelta()
    """Elapsed time to add to `end`: the hours, minutes and seconds of a DURATION."""


@dataclass(frozen=True, slots=True)
class _Property:
    """Unfolded line of a calendar, `NAME;PARAMETERS:VALUE`."""

    line: int
    name: str
    parameters: str
    value: str


def parse_events(data: bytes) -> list[CalendarEvent]:
    """Return the events in `data`, the content of an iCalendar file, in the order of the file.

    Raises: CalendarError at the first mistake.
    """
    lines = list(_unfold_lines(data.removeprefix(codecs.BOM_UTF8)))
    if not lines or (lines[0].name, lines[0].value.upper()) != ("BEGIN", "VCALENDAR"):
        raise CalendarError(1, "not a calendar: the first line is not BEGIN:VCALENDAR; export an iCalendar file")
    return [event for properties in _event_components(lines) if (event := _parse_event(properties))]


def _unfold_lines(data: bytes) -> Iterator[_Property]:
    """Yield the property of each line in `data`, joined with its continuation lines.

    A continuation line begins with a space or tab (RFC 5545, 3.1). The function joins lines as bytes, because a fold
    may split a multi-byte character.
    """
    pending, line_number = b"", 0
    for current, line in enumerate(data.splitlines(), start=1):
        if line[:1] in (b" ", b"\t"):
            pending += line[1:]
            continue
        if pending:
            yield _parse_property(pending, line_number)
        pending, line_number = line, current
    if pending:
        yield _parse_property(pending, line_number)


def _parse_property(data: bytes, line_number: int) -> _Property:
    try:
        line = data.decode()
    except UnicodeDecodeError:
        raise CalendarError(line_number, "the line is not UTF-8 text; save the file as UTF-8") from None
    # A quoted parameter may contain colons (RFC 5545, 3.2).
    match = re.fullmatch(
        r"([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:\"[^\"]*\"|[^\",;:]*)(?:,(?:\"[^\"]*\"|[^\",;:]*))*)*):(.*)", line
    )
    if match is None:
        raise CalendarError(line_number, f"{line[:40]!r} is not a property; write NAME:VALUE")
    return _Property(line_number, match[1].upper(), match[2].upper(), match[3].strip())


def _event_components(lines: Iterable[_Property]) -> Iterator[list[_Property]]:
    """Yield the properties of each VEVENT, beginning with BEGIN, without the properties of nested components."""
    open_components: list[str] = []
    current: list[_Property] = []
    for line in lines:
        if line.name == "BEGIN":
            open_components.append(line.value.upper())
            if open_components[-1] == "VEVENT":
                current = [line]
        elif line.name == "END":
            if not open_components or open_components.pop() != line.value.upper():
                raise CalendarError(line.line, f"END:{line.value} has no matching BEGIN; export the calendar again")
            if line.value.upper() == "VEVENT":
                yield current
        elif open_components and open_components[-1] == "VEVENT":
            current.append(line)
    if open_components:
        raise CalendarError(1, f"the file ends inside of {open_components[-1]}; export the calendar again")


def _parse_event(properties: list[_Property]) -> CalendarEvent | None:
    """Return the event with `properties`, or None if the event is cancelled."""
    lines_by_name = {line.name: line for line in properties}
    if "STATUS" in lines_by_name and lines_by_name["STATUS"].value.upper() == "CANCELLED":
        return None
    if recurrences := sorted(_RECURRENCE_PROPERTIES & lines_by_name.keys()):
        line = lines_by_name[recurrences[0]].line
        raise CalendarError(
            line, f"{recurrences[0]}: recurring events are not supported; export single events, or write an rrule"
        )
    if "DTSTART" not in lines_by_name:
        raise CalendarError(lines_by_name["BEGIN"].line, "an event without DTSTART")
    start, start_zone = _parse_time(lines_by_name["DTSTART"])
    if "DTEND" in lines_by_name:
        end, end_zone = _parse_time(lines_by_name["DTEND"])
        return CalendarEvent(_as_datetime(start), start_zone, _as_datetime(end), end_zone)
    days, extra = _parse_duration(lines_by_name.get("DURATION"), whole_day=not isinstance(start, datetime))
    return CalendarEvent(_as_datetime(start), start_zone, _as_datetime(start) + days, start_zone, extra)


def _as_datetime(moment: date) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time())


def _parse_time(line: _Property) -> tuple[date, ZoneInfo | None]:
    """Return the date or local time in `line`, and its zone. If the line has neither Z nor TZID, the zone is None."""
    value = line.value.upper()
    try:
        if "T" not in value:
            return time_syntax.check_year(datetime.strptime(value, "%Y%m%d").date()), None
        moment = time_syntax.check_year(datetime.strptime(value.removesuffix("Z"), "%Y%m%dT%H%M%S"))
    except ValueError:
        raise CalendarError(line.line, f"{line.name} is {line.value!r}; write 20261224 or 20261224T180000") from None
    return moment, zones.load_zone("UTC") if value.endswith("Z") else _parse_zone(line)


def _parse_zone(line: _Property) -> ZoneInfo | None:
    """Return the zone that TZID in `line` names, or None if `line` has no TZID."""
    match = re.search(r";TZID=\"?([^\";:]*)", line.parameters)
    if match is None:
        return None
    zone_name = next((name for name in zones.zone_names() if name.upper() == match[1]), None)
    if zone_name is None:
        raise CalendarError(
            line.line, f"TZID {match[1]} is not an IANA time zone; export the calendar with names such as Europe/Berlin"
        )
    return zones.load_zone(zone_name)


def _parse_duration(line: _Property | None, *, whole_day: bool) -> tuple[timedelta, timedelta]:
    """Return the calendar days and the elapsed time of a DURATION (RFC 5545, 3.3.6).

    If `line` is None, an event that starts on a date lasts for the whole day. An event that starts at a time of day
    ends at this time (3.6.1).

    Args:
        line: property DURATION, or None for an event without DURATION.
    """
    if line is None:
        return timedelta(days=1 if whole_day else 0), timedelta()
    match = _DURATION.fullmatch(line.value.upper().removeprefix("+"))
    if match is None or not any(match.groups()):
        raise CalendarError(line.line, f"DURATION {line.value!r} is not valid; write, for example, P1D or PT8H30M")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(weeks=weeks, days=days), timedelta(hours=hours, minutes=minutes, seconds=seconds)
