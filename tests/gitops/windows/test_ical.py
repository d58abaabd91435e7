"""Events of iCalendar files, within the supported subset of RFC 5545."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from gitops.windows.ical import CalendarError, parse_events


def calendar(*lines: str) -> bytes:
    return "\r\n".join(("BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", "")).encode()


def test_an_event_ends_as_written_or_after_its_duration() -> None:
    (event,) = parse_events(calendar("DTSTART;TZID=Europe/Berlin:20261224T180000", "DTEND:20261224T210000Z"))
    assert (event.start, event.end) == (datetime(2026, 12, 24, 18), datetime(2026, 12, 24, 21))
    assert (str(event.start_zone), str(event.end_zone)) == ("Europe/Berlin", "UTC")
    (event,) = parse_events(calendar("DTSTART:20261224T180000", "DURATION:P1DT2H"))
    assert (event.end, event.extra) == (datetime(2026, 12, 25, 18), timedelta(hours=2))


def test_an_event_without_an_end_takes_its_whole_day() -> None:
    (event,) = parse_events(calendar("DTSTART;VALUE=DATE:20261224"))
    assert (event.start, event.end) == (datetime(2026, 12, 24), datetime(2026, 12, 25))


def test_a_line_may_be_folded_within_a_character() -> None:
    data = calendar("SUMMARY:für", "DTSTART;VALUE=DATE:20261224").replace("ü".encode(), b"\xc3\r\n \xbc")
    assert len(parse_events(data)) == 1


def test_cancelled_events_and_nested_components_are_skipped() -> None:
    assert parse_events(calendar("DTSTART;VALUE=DATE:20261224", "STATUS:CANCELLED")) == []
    alarm = ("BEGIN:VALARM", "TRIGGER:-PT15M", "DTSTART:1", "END:VALARM")
    assert len(parse_events(calendar("DTSTART;VALUE=DATE:20261224", *alarm))) == 1


def test_a_recurring_event_is_refused_with_its_line() -> None:
    with pytest.raises(CalendarError, match="recurring events are not supported") as refused:
        parse_events(calendar("DTSTART;VALUE=DATE:20261224", "RRULE:FREQ=DAILY"))
    assert refused.value.line == 4
