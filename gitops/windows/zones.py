"""Conversion between instants in UTC and local times of a zone, which are naive.

A local time that a clock change skips is converted to the instant of the change. A local time that occurs twice has two
instants, and the caller chooses one. Zones always come from the package tzdata, so that all machines agree.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

import tzdata

DATE_LINE = timedelta(hours=4)
"""Largest clock change. A zone that skips more has moved across the date line, and the skipped time did not occur."""


def tzdata_version() -> str:
    """Return the version of the time zone data, such as `2026b`."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return all names of zones."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def load_zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name. Raises: KeyError if there is none."""
    if name not in zone_names():
        raise KeyError(name)
    with resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def to_local(moment: datetime, time_zone: ZoneInfo) -> datetime:
    """Return the local time at an instant."""
    return moment.astimezone(time_zone).replace(tzinfo=None)


def opening_instant(local_time: datetime, time_zone: ZoneInfo) -> datetime | None:
    """Return the first instant of a local time; None if the zone skipped it by moving across the date line."""
    first, second = _both_instants(local_time, time_zone)
    if first <= second:
        return first
    return None if first - second > DATE_LINE else _clock_change_instant(second, first, time_zone)


def closing_instant(local_time: datetime, time_zone: ZoneInfo, *, last: bool) -> datetime:
    """Return the instant of a local time; of a local time that occurs twice, the later one with `last`."""
    first, second = _both_instants(local_time, time_zone)
    if first <= second:
        return second if last else first
    return _clock_change_instant(second, first, time_zone)


def changes_between(start: datetime, end: datetime, time_zone: ZoneInfo) -> bool:
    """Return whether the clock changes between two local times, which are at most about a day apart."""
    return start.replace(tzinfo=time_zone).utcoffset() != end.replace(tzinfo=time_zone).utcoffset()


def _both_instants(local_time: datetime, time_zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the instants of a local time by the offsets before and after a clock change (PEP 495).

    They are in reverse order if the change skips the local time.
    """
    first = local_time.replace(tzinfo=time_zone)
    return first.astimezone(UTC), first.replace(fold=1).astimezone(UTC)


def _clock_change_instant(earlier: datetime, later: datetime, time_zone: ZoneInfo) -> datetime:
    """Return the instant of the clock change between two instants, to the second."""
    # Seconds before the change have the old offset and all later ones the new, so a binary search finds it.
    new = later.astimezone(time_zone).utcoffset()
    seconds = range(int((later - earlier).total_seconds()) + 1)
    return earlier + timedelta(
        seconds=bisect_left(
            seconds,
            True,
            key=lambda elapsed: (earlier + timedelta(seconds=elapsed)).astimezone(time_zone).utcoffset() == new,
        )
    )
