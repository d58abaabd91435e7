"""Accessors of timestamps and durations (CEL language definition, "Date/time functions").

This module reads time zones from the tzdata package, so that the time zones of a machine cannot change rendered
objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload

_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")

_ACCESSORS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_UNITS: Final = {
    "getHours": timedelta(hours=1),
    "getMinutes": timedelta(minutes=1),
    "getSeconds": timedelta(seconds=1),
}


def _register_accessor(name: str, part: Callable[[datetime], int]) -> None:
    @overload(f"timestamp.{name}(): int", f"timestamp.{name}(string): int")
    def access(moment: datetime, zone: str = "UTC") -> int:
        try:
            return part(moment.astimezone(_find_zone(zone)))
        except OverflowError:
            raise EvaluationError(f"{name}: out of range in the time zone {zone}") from None


def _register_unit(name: str, unit: timedelta) -> None:
    @overload(f"duration.{name}(): int")
    def count(length: timedelta) -> int:
        return length // unit if length >= timedelta(0) else -(-length // unit)


for _name, _part in _ACCESSORS.items():
    _register_accessor(_name, _part)
for _name, _unit in _UNITS.items():
    _register_unit(_name, _unit)


@overload("duration.getMilliseconds(): int")
def milliseconds(length: timedelta) -> int:
    """Return the milliseconds after the last whole second (CEL language definition).

    Unlike this function, cel-go returns the whole duration in milliseconds.
    """
    whole = abs(length) % timedelta(seconds=1) // timedelta(milliseconds=1)
    return whole if length >= timedelta(0) else -whole


@lru_cache(maxsize=64)
def _find_zone(name: str) -> tzinfo:
    """Return the time zone `name`, an IANA name or an offset (`+02:00`, `02:00`).

    Raises: EvaluationError for any other name.
    """
    if name == "UTC":
        return UTC
    if offset := _OFFSET.fullmatch(name):
        length = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if length < timedelta(days=1):
            return timezone(-length if offset[1] == "-" else length)
    from importlib.resources import files
    from zoneinfo import ZoneInfo

    if _ZONE.fullmatch(name):
        data = files("tzdata").joinpath("zoneinfo", *name.split("/"))
        if data.is_file():
            with data.open("rb") as stream:
                return ZoneInfo.from_file(stream, key=name)
    raise EvaluationError(f"unknown time zone {name[:50]!r}")
