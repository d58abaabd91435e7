"""On which days a window opens: five-field cron, and a subset of the recurrence rules of RFC 5545.

Days are days of the calendar, without a zone. What does not exist in a month or year (31 April, 29 February) is skipped, never moved.
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

FREQUENCIES: Final = {"DAILY": rrule.DAILY, "WEEKLY": rrule.WEEKLY, "MONTHLY": rrule.MONTHLY, "YEARLY": rrule.YEARLY}
_WEEKDAYS: Final = {
    "MO": rrule.MO, "TU": rrule.TU, "WE": rrule.WE, "TH": rrule.TH, "FR": rrule.FR, "SA": rrule.SA, "SU": rrule.SU
}  # fmt: skip
_RULE_PARTS: Final = ("FREQ", "INTERVAL", "BYDAY", "BYMONTH", "BYMONTHDAY", "COUNT", "UNTIL")
_MAX_INTERVAL: Final = 1000
_MAX_YEARS: Final = 50
_LAST_YEAR: Final = datetime(2500, 1, 1)


class ScheduleError(ValueError):
    """The text of a schedule is not valid; says what would be."""


@dataclass(frozen=True, slots=True)
class Days(ABC):
    """Days in order, found a year at a time and remembered: edges are looked for again and again in the same years."""

    _years: dict[int, tuple[date, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def iter_from(self, day: date) -> Iterator[date]:
        """The days from this one on, the next first, as far as 50 years."""
        days = self._days_in_year(day.year)
        yield from days[bisect_left(days, day) :]
        for year in range(day.year + 1, day.year + _MAX_YEARS):
            yield from self._days_in_year(year)

    def iter_before(self, day: date) -> Iterator[date]:
        """The days before this one, the latest first, as far as 50 years."""
        days = self._days_in_year(day.year)
        yield from reversed(days[: bisect_left(days, day)])
        for year in range(day.year - 1, day.year - _MAX_YEARS, -1):
            yield from reversed(self._days_in_year(year))

    def _days_in_year(self, year: int) -> tuple[date, ...]:
        if year not in self._years:
            self._years[year] = tuple(self.in_year(year))
        return self._years[year]

    @abstractmethod
    def in_year(self, year: int) -> Iterable[date]:
        """The days in a year, in order."""


@dataclass(frozen=True, slots=True)
class CronDays(Days):
    """The days of a cron expression, as `day-of-month month day-of-week`."""

    fields: str

    def in_year(self, year: int) -> tuple[date, ...]:
        return _cron_days(self.fields, year)


@dataclass(frozen=True, slots=True)
class RuleDays(Days):
    """The days of a recurrence rule, from `start` on."""

    text: str
    start: date
    parse_rule: rrule.rrule = field(compare=False, repr=False)

    def in_year(self, year: int) -> Iterator[date]:
        for moment in self.parse_rule.between(datetime(year, 1, 1), datetime(year, 12, 31), inc=True):
            yield moment.date()


@lru_cache(maxsize=256)
def _cron_days(fields: str, year: int) -> tuple[date, ...]:
    """Remembered beyond a window: each commit reads its windows anew, and most windows open on the days of a few expressions."""
    # Asked for its next moment, CronSim goes to it hour by hour, 8,760 of them.
    expression = CronSim(f"0 0 {fields}", datetime(year, 1, 1))
    days = map(date.fromordinal, range(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal()))
    return tuple(day for day in days if day.month in expression.months and expression.match_day(day))


def parse_cron(text: str) -> tuple[CronDays, tuple[time, ...]]:
    """The days of a cron expression and the times of day. Raises ScheduleError."""
    parts = text.split()
    if len(parts) != 5:
        raise ScheduleError(
            f"{text!r} has {len(parts)} fields; cron has five: minute hour day-of-month month day-of-week"
        )
    if parts[2] != "*" and parts[4] != "*":
        raise ScheduleError(
            f"{text!r} restricts day-of-month and day-of-week; cron would open on either, which is rarely meant; "
            "leave one of them '*', or write an rrule"
        )
    try:
        expression = CronSim(text, datetime(2000, 1, 1))
    except CronSimError as error:
        raise ScheduleError(f"{text!r}: {_format_cron_error(str(error))}; a valid example is '0 9 * * 1-5'") from None
    times = tuple(time(hour, minute) for hour in sorted(expression.hours) for minute in sorted(expression.minutes))
    return CronDays(" ".join(parts[2:])), times


def _format_cron_error(message: str) -> str:
    """`Bad day-of-month` as part of a sentence; cronsim says it of 30 February, too."""
    name = message.removeprefix("Bad ")
    return f"{name} is not valid, or no such day exists" if name.startswith("day-of-month") else f"{name} is not valid"


def parse_rule(text: str, start: date) -> RuleDays:
    """The days of a rule that begins at `start`, which is one of them only if the rule says so. Raises ScheduleError."""
    parts = _split(text)
    frequency = parts.get("FREQ", "")
    if frequency not in FREQUENCIES:
        raise ScheduleError(f"FREQ is {frequency or 'missing'}; it is one of {', '.join(FREQUENCIES)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise ScheduleError("COUNT and UNTIL exclude one another (RFC 5545)")
    until = _parse_until(parts["UNTIL"]) if "UNTIL" in parts else _LAST_YEAR
    months = _parse_numbers("BYMONTH", parts["BYMONTH"], 12) if "BYMONTH" in parts else None
    monthdays = _parse_numbers("BYMONTHDAY", parts["BYMONTHDAY"], 31, signed=True) if "BYMONTHDAY" in parts else None
    # dateutil would look for such a day up to the year 9999.
    if monthdays and min(map(abs, monthdays)) > max(monthrange(2000, month)[1] for month in months or range(1, 13)):
        raise ScheduleError(f"{text!r}: no such day exists, so the window can never open")
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
    if next(iter(days.parse_rule), None) is None:
        raise ScheduleError(f"{text!r} names no day from {start} on, so the window can never open")
    return days


def _split(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.upper().removeprefix("RRULE:").split(";"):
        name, separator, value = part.partition("=")
        if name not in _RULE_PARTS:
            raise ScheduleError(
                f"{part!r} is not supported; the parts are {', '.join(_RULE_PARTS)}, as in FREQ=MONTHLY;BYDAY=2TU"
            )
        if not separator or not value or name in parts:
            raise ScheduleError(f"{name} needs one value, as in FREQ=MONTHLY;BYDAY=2TU")
        parts[name] = value
    return parts


def _parse_until(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y%m%d")
    except ValueError:
        raise ScheduleError(f"UNTIL is {text!r}; write the last local day, such as 20261231") from None


def _parse_number(name: str, text: str, maximum: int, *, signed: bool = False) -> int:
    digits = text.removeprefix("-") if signed else text.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits[:9]) <= maximum:
        raise ScheduleError(
            f"{name} is {text!r}; it is a number from 1 to {maximum}{', or below 0 to count from the end' * signed}"
        )
    return int(text)


def _parse_numbers(name: str, text: str, maximum: int, *, signed: bool = False) -> list[int]:
    return [_parse_number(name, item, maximum, signed=signed) for item in text.split(",")]


def _parse_weekday(item: str, frequency: str) -> rrule.weekday:
    """`TU`, `2TU` (the second), `-1FR` (the last)."""
    weekday, ordinal = _WEEKDAYS.get(item[-2:]), item[:-2]
    if weekday is None:
        raise ScheduleError(f"BYDAY has {item!r}; days are {', '.join(_WEEKDAYS)}, with a number such as 2TU or -1FR")
    if not ordinal:
        return weekday
    if frequency not in {"MONTHLY", "YEARLY"}:
        raise ScheduleError(f"BYDAY has {item!r}; numbered days need FREQ=MONTHLY or FREQ=YEARLY (RFC 5545)")
    return weekday(_parse_number("BYDAY", ordinal.removeprefix("+"), 53, signed=True))
