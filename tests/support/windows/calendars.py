"""Specs of windows that many tests share, and an iCalendar file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NIGHT = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 2 * * *"}, "until": "04:00"}
HOURS: dict[str, Any] = {
    "kind": "Allow",
    "timeZone": "Europe/Berlin",
    "schedule": {"cron": "0 9 * * 1-5"},
    "until": "17:00",
    "ticket": "CHG-1",
}
"""Weekdays 09:00 to 17:00; the fleet starts on Friday 2026-11-20 at 13:00 in Berlin."""
FREEZE: dict[str, Any] = {
    "kind": "Deny",
    "timeZone": "Europe/Berlin",
    "schedule": {"once": [{"start": "2026-11-20T18:00", "end": "2026-11-23T06:00"}]},
}
SATURDAY = datetime(2026, 11, 21, 10, tzinfo=UTC)
CALENDAR = b"""BEGIN:VCALENDAR\r
BEGIN:VTIMEZONE\r
TZID:Europe/Berlin\r
BEGIN:STANDARD\r
DTSTART:19701025T030000\r
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r
END:STANDARD\r
END:VTIMEZONE\r
BEGIN:VEVENT\r
SUMMARY:folded over\r
  two lines: with a colon\r
DTSTART;TZID="Europe/Berlin":20261218T120000\r
DTEND;TZID=Europe/Berlin:20261218T140000\r
BEGIN:VALARM\r
DURATION:PT15M\r
END:VALARM\r
END:VEVENT\r
BEGIN:VEVENT\r
DTSTART;VALUE=DATE:20261225\r
DTEND;VALUE=DATE:20261227\r
END:VEVENT\r
BEGIN:VEVENT\r
DTSTART:20270101T120000Z\r
DURATION:PT1H30M\r
END:VEVENT\r
BEGIN:VEVENT\r
STATUS:CANCELLED\r
DTSTART:20270201T120000Z\r
DURATION:P1D\r
END:VEVENT\r
END:VCALENDAR\r
"""
