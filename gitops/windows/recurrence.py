"""Days on which a window opens: five-field cron expressions and a subset of the recurrence rules of RFC 5545.

Days are calendar days without a zone. No schedule yields a day that does not exist in a month or year, such as 31 April
or 29 February.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import date, datetime, time
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError
from dateutil import rrule

from renderer.frozen import dataclass
from renderer.phrasing import format_count

FREQUENCIES: Final = {"DAILY": rrule.DAILY, "WEEKLY": rrule.WEEKLY, "MONTHLY": rrule.MONTHLY, "YEARLY": rrule.YEARLY}
_WEEKDAYS: Final = {
    "MO": rrule.MO, "TU": rrule.TU, "WE": rrule.WE, "TH": rrule.TH, "FR": rrule.FR, "SA": rrule.SA, "SU": rrule.SU
}  # fmt: skip
_RULE_PARTS: Final = ("FREQ", "INTERVAL", "BYDAY", "BYMONTH", "BYMONTHDAY", "COUNT", "UNTIL")
_MAX_INTERVAL: Final = 1000
_MAX_YEARS: Final = 50
_LAST_YEAR: Final = datetime(2500, 1, 1)


class ScheduleError(ValueError):
    """Rejection of a text in a schedule. The message describes a valid text."""


@dataclass(frozen=True, slots=True)
class Days(ABC):
    """Days in order, computed by year and cached, because searches for edges visit the same years often."""

    _years: dict[int, tuple[date, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def iter_from(self, day: date) -> Iterator[date]:
        """Yield the days from `day` on, for up to 50 years."""
        days = self._days_in_year(day.year)
        yield from days[bisect_left(days, day) :]
        for year in range(day.year + 1, day.year + _MAX_YEARS):
            yield from self._days_in_year(year)

    def iter_before(self, day: date) -> Iterator[date]:
        """Yield the days before `day` in descending order, for up to 50 years."""
        days = self._days_in_year(day.year)
        yield from reversed(days[: bisect_left(days, day)])
        for year in range(day.year - 1, day.year - _MAX_YEARS, -1):
            yield from reversed(self._days_in_year(year))

    def _days_in_year(self, year: int) -> tuple[date, ...]:
        """Return the days in `year`, from the cache if possible."""
        if year not in self._years:
            self._years[year] = tuple(self.in_year(year))
        return self._years[year]

    @abstractmethod
    def in_year(self, year: int) -> Iterable[date]:
        """Return the days in `year`, in order."""


@dataclass(frozen=True, slots=True)
class CronDays(Days):
    """Days that the last three fields of a cron expression name."""

    fields: str
    """`day-of-month month day-of-week`, separated by spaces."""

    def in_year(self, year: int) -> tuple[date, ...]:
        return _cron_days(self.fields, year)


@dataclass(frozen=True, slots=True)
class RuleDays(Days):
    """Days from `start` on that a recurrence rule names."""

    text: str
    start: date
    rule: rrule.rrule = field(compare=False, repr=False)

    def in_year(self, year: int) -> Iterator[date]:
        for moment in self.rule.between(datetime(year, 1, 1), datetime(year, 12, 31), inc=True):
            yield moment.date()


@lru_cache(maxsize=256)
def _cron_days(fields: str, year: int) -> tuple[date, ...]:
    """Return the days of `year` that `fields` of a cron expression name.

    All windows share the cache. Levelgate reads the windows of each commit again, and most windows share a few
    expressions.
    """
    # Each day is tested, because CronSim itself would advance through the 8,760 hours of the year.
    expression = CronSim(f"0 0 {fields}", datetime(year, 1, 1))
    days = map(date.fromordinal, range(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal()))
    return tuple(day for day in days if day.month in expression.months and expression.match_day(day))


def parse_cron(text: str) -> tuple[CronDays, tuple[time, ...]]:
    """Return the days and the times of day of the cron expression `text`.

    Raises: ScheduleError if `text` is invalid, or restricts both day-of-month and day-of-week.
    """
    parts = text.split()
    if len(parts) != 5:
        raise ScheduleError(
            f"{text!r} has {format_count(len(parts), 'field')}; write five: minute hour day-of-month month day-of-week"
        )
    if parts[2] != "*" and parts[4] != "*":
        raise ScheduleError(
            f"{text!r} restricts day-of-month and day-of-week; cron would open on either, which is rarely meant; "
            "set one of the two fields to '*', or write an rrule"
        )
    try:
        expression = CronSim(text, datetime(2000, 1, 1))
    except CronSimError as error:
        raise ScheduleError(f"{text!r}: {_format_cron_error(str(error))}; write, for example, '0 9 * * 1-5'") from None
    times = tuple(time(hour, minute) for hour in sorted(expression.hours) for minute in sorted(expression.minutes))
    return CronDays(" ".join(parts[2:])), times


def _format_cron_error(message: str) -> str:
    """Return `message`, a message of cronsim such as `Bad day-of-month`, as part of a sentence.

    cronsim also reports `Bad day-of-month` for a day that does not exist, such as 30 February.
    """
    name = message.removeprefix("Bad ")
    return f"{name} is not valid, or no such day exists" if name.startswith("day-of-month") else f"{name} is not valid"


def parse_rule(text: str, start: date) -> RuleDays:
    """Return the days from `start` on that the recurrence rule `text` names.

    If the rule does not name `start`, the days exclude `start`.

    Raises: ScheduleError if `text` is invalid, not supported, or names no day.
    """
    parts = _split(text)
    frequency = parts.get("FREQ", "")
    if frequency not in FREQUENCIES:
        raise ScheduleError(f"FREQ is {frequency or 'missing'}; write one of {', '.join(FREQUENCIES)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise ScheduleError("COUNT and UNTIL exclude one another (RFC 5545); remove one of them")
    until = _parse_until(parts["UNTIL"]) if "UNTIL" in parts else _LAST_YEAR
    months = _parse_numbers("BYMONTH", parts["BYMONTH"], 12) if "BYMONTH" in parts else None
    monthdays = _parse_numbers("BYMONTHDAY", parts["BYMONTHDAY"], 31, signed=True) if "BYMONTHDAY" in parts else None
    # For a day that never exists dateutil would search up to the year 9999.
    if monthdays and min(map(abs, monthdays)) > max(monthrange(2000, month)[1] for month in months or range(1, 13)):
        raise ScheduleError(f"{text!r}: no such day exists, so the window can never open; correct BYMONTHDAY")
    days = RuleDays(
        text,
        start,
        rrule.rrule(
            FREQUENCIES[frequency],
            dtstart=datetime.combine(start, time()),
            wkst=rrule.MO,
            interval=_parse_number("INTERVAL", parts.get("INTERVAL", "1"), _MAX_INTERVAL),
            count=_parse_number("COUNT", parts["COUNT"], 100 * _MAX_INTERVAL) if "COUNT" in parts else None,
            until=None if "COUNT" in parts else until,
            byweekday=[_parse_weekday(item, frequency) for item in parts["BYDAY"].split(",")]
            if "BYDAY" in parts
            else None,
            bymonth=months,
            bymonthday=monthdays,
            cache=True,
        ),
    )
    if next(iter(days.rule), None) is None:
        raise ScheduleError(f"{text!r} names no day from {start} on, so the window can never open; correct the rule")
    return days


def _split(text: str) -> dict[str, str]:
    """Return the parts of the recurrence rule `text` by name.

    Raises: ScheduleError if a part is not supported, has no value, or occurs twice.
    """
    parts: dict[str, str] = {}
    for part in text.upper().removeprefix("RRULE:").split(";"):
        name, separator, value = part.partition("=")
        if name not in _RULE_PARTS:
            raise ScheduleError(
                f"{part!r} is not supported; use only {', '.join(_RULE_PARTS)}, as in FREQ=MONTHLY;BYDAY=2TU"
            )
        if not separator or not value or name in parts:
            raise ScheduleError(f"{name} needs one value, as in FREQ=MONTHLY;BYDAY=2TU")
        parts[name] = value
    return parts


def _parse_until(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y%m%d")
    except ValueError:
        raise ScheduleError(f"UNTIL {text!r} is not a date; write the last local day, such as 20261231") from None


def _parse_number(name: str, text: str, maximum: int, *, signed: bool = False) -> int:
    digits = text.removeprefix("-") if signed else text.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits[:9]) <= maximum:
        raise ScheduleError(
            f"{name} {text!r} is not valid; "
            f"write a number from 1 to {maximum}{', or below 0 to count from the end' * signed}"
        )
    return int(text)


def _parse_numbers(name: str, text: str, maximum: int, *, signed: bool = False) -> list[int]:
    return [_parse_number(name, item, maximum, signed=signed) for item in text.split(",")]


def _parse_weekday(item: str, frequency: str) -> rrule.weekday:
    """Return the weekday that `item` names, such as `TU`, `2TU` (the second) or `-1FR` (the last).

    Raises: ScheduleError if `item` is invalid, or `frequency` does not allow a number.
    """
    weekday, ordinal = _WEEKDAYS.get(item[-2:]), item[:-2]
    if weekday is None:
        raise ScheduleError(f"BYDAY {item!r} is not a weekday; write days as {', '.join(_WEEKDAYS)}, 2TU or -1FR")
    if not ordinal:
        return weekday
    if frequency not in {"MONTHLY", "YEARLY"}:
        raise ScheduleError(
            f"BYDAY has {item!r}, but numbered days need FREQ=MONTHLY or FREQ=YEARLY (RFC 5545); correct FREQ or BYDAY"
        )
    return weekday(_parse_number("BYDAY", ordinal.removeprefix("+"), 53, signed=True))
