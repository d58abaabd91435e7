"""Parsers for the times in a window. Each parser raises ScheduleError, whose message describes a valid text."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from difflib import get_close_matches
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from gitops import durations
from gitops.windows import zones
from gitops.windows.recurrence import ScheduleError

D = TypeVar("D", bound=date)

MAX_DURATION: Final = timedelta(days=366)
_YEARS: Final = range(1970, 2500)
_WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


def parse_zone(name: str) -> ZoneInfo:
    """Return the time zone with the IANA name `name`.

    Raises: ScheduleError if no zone has this name.
    """
    try:
        return zones.load_zone(name)
    except KeyError:
        close = get_close_matches(name, zones.zone_names(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "; write a name of the IANA database such as Europe/Berlin"
        raise ScheduleError(f"{name!r} is not a time zone{hint}") from None


def parse_duration(text: str) -> timedelta:
    """Return the duration in `text`.

    Raises: ScheduleError if `text` is invalid, or the duration is longer than `MAX_DURATION`.
    """
    try:
        return durations.parse_duration(text, maximum=MAX_DURATION)
    except ValueError as error:
        raise ScheduleError(str(error)) from None


def parse_until(text: str) -> tuple[int | None, time]:
    """Return the weekday and the time in `text`, such as `17:00` or `Mon 06:00`.

    The weekday of Monday is 0. If `text` has no weekday, the weekday is None.

    Raises: ScheduleError if `text` is invalid.
    """
    match = re.fullmatch(r"(?:([A-Za-z]{3}) )?([01][0-9]|2[0-3]):([0-5][0-9])", text)
    if match is None or (match[1] and match[1].upper() not in _WEEKDAYS):
        raise ScheduleError(f"{text!r} is not a time of day; write for example 17:00, 00:00 for midnight, or Mon 06:00")
    return _WEEKDAYS.index(match[1].upper()) if match[1] else None, time(int(match[2]), int(match[3]))


def parse_local_time(text: str) -> datetime:
    """Return the local time in `text`, such as `2026-12-18T12:00` or `2026-12-18 12:00:30`.

    Raises: ScheduleError if `text` is invalid.
    """
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)", text)
    try:
        parsed = datetime.fromisoformat(f"{match[1]}T{match[2]}" if match else "")
    except ValueError:
        raise ScheduleError(
            f"{text!r} is not a local time; write for example 2026-12-18T12:00, without an offset"
        ) from None
    return check_year(parsed)


def parse_date(text: str) -> date:
    """Return the date in `text`, such as `2026-12-18`.

    Raises: ScheduleError if `text` is invalid.
    """
    try:
        parsed = date.fromisoformat(text if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else "")
    except ValueError:
        raise ScheduleError(f"{text!r} is not a date; write for example 2026-12-18") from None
    return check_year(parsed)


def check_year(value: D) -> D:
    """Return `value`, whose year must be from 1970 to 2499, so that date arithmetic cannot overflow.

    Raises: ScheduleError if the year is out of range.
    """
    if value.year not in _YEARS:
        raise ScheduleError(
            f"the year {value.year} is not between {_YEARS.start} and {_YEARS.stop - 1}; correct the year"
        )
    return value
