"""Conversion between instants in UTC and local times of a zone.

Local times are naive `datetime` values. If a clock change skips a local time, the conversion yields the instant of the
change. If a local time occurs twice, it has two instants, and the caller chooses one. Zones always come from the
package tzdata, so that all machines agree.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

import tzdata

DATE_LINE = timedelta(hours=4)
"""Largest clock change.

If a zone skips more time, the zone moves across the date line, and the skipped local times do not occur.
"""


def tzdata_version() -> str:
    """Return the version of the time zone data, such as `2026b`."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the names of all zones in the IANA database."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def load_zone(name: str) -> ZoneInfo:
    """Return the zone with the IANA name `name`.

    Raises: KeyError if no zone has this name.
    """
    if name not in zone_names():
        raise KeyError(name)
    with resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def to_local(moment: datetime, time_zone: ZoneInfo) -> datetime:
    """Return the local time of `time_zone` at the instant `moment`."""
    return moment.astimezone(time_zone).replace(tzinfo=None)


def opening_instant(local_time: datetime, time_zone: ZoneInfo) -> datetime | None:
    """Return the first instant with the local time `local_time` in `time_zone`.

    If the zone skips `local_time` because the zone moves across the date line, return None.
    """
    first, second = _both_instants(local_time, time_zone)
    if first <= second:
        return first
    return None if first - second > DATE_LINE else _clock_change_instant(second, first, time_zone)


def closing_instant(local_time: datetime, time_zone: ZoneInfo, *, last: bool) -> datetime:
    """Return the instant with the local time `local_time` in `time_zone`.

    If `local_time` occurs twice and `last` is true, return the later instant. If `last` is false, return the earlier
    instant.
    """
    first, second = _both_instants(local_time, time_zone)
    if first <= second:
        return second if last else first
    return _clock_change_instant(second, first, time_zone)


def offset_on(day: date, time_zone: ZoneInfo) -> timedelta | None:
    """Return the offset from UTC of all local times on `day`, or None if the clock changes on `day`."""
    midnight = datetime.combine(day, time(), time_zone)
    offset = midnight.utcoffset()
    return offset if offset == (midnight + timedelta(days=1)).utcoffset() else None


def _both_instants(local_time: datetime, time_zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the instants of `local_time`, computed with the offsets before and after a clock change (PEP 495).

    If the change skips `local_time`, the first instant is later than the second.
    """
    first = local_time.replace(tzinfo=time_zone)
    return first.astimezone(UTC), first.replace(fold=1).astimezone(UTC)


def _clock_change_instant(earlier: datetime, later: datetime, time_zone: ZoneInfo) -> datetime:
    """Return the instant of the clock change between `earlier` and `later`, to the second."""
    # All seconds before the change have the old offset, and all later seconds the new offset. So a binary search works.
    new = later.astimezone(time_zone).utcoffset()
    seconds = range(int((later - earlier).total_seconds()) + 1)
    return earlier + timedelta(
        seconds=bisect_left(
            seconds,
            True,
            key=lambda elapsed: (earlier + timedelta(seconds=elapsed)).astimezone(time_zone).utcoffset() == new,
        )
    )
