"""Local time of a zone to instants.

Invariants: every instant is UTC, every local time naive. A local time that a change of the clock skips stands for the instant of the change;
one that comes twice is taken once. Zones come from the package tzdata on every machine, whatever the system has, so that all of them agree.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

import tzdata

DATE_LINE = timedelta(hours=4)
"""A zone that skips more than this at once has moved across the date line: the time skipped did not take place."""


def tzdata_version() -> str:
    """The edition of the time zone data, such as `2026b`."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All names that a zone may have."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def load_zone(name: str) -> ZoneInfo:
    """The zone of this IANA name. Raises KeyError for any other text."""
    if name not in zone_names():
        raise KeyError(name)
    with resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def to_local(moment: datetime, time_zone: ZoneInfo) -> datetime:
    """What the clock on the wall shows at an instant."""
    return moment.astimezone(time_zone).replace(tzinfo=None)


def opening_instant(local_time: datetime, time_zone: ZoneInfo) -> datetime | None:
    """The first instant of a local time; None where the zone skipped it when it moved across the date line."""
    first, second = _both_instants(local_time, time_zone)
    if first <= second:
        return first
    return None if first - second > DATE_LINE else _clock_change_instant(second, first, time_zone)


def closing_instant(local_time: datetime, time_zone: ZoneInfo, *, last: bool) -> datetime:
    """The instant of a local time; the `last` or the first one where it comes twice."""
    first, second = _both_instants(local_time, time_zone)
    if first <= second:
        return second if last else first
    return _clock_change_instant(second, first, time_zone)


def changes_between(start: datetime, end: datetime, time_zone: ZoneInfo) -> bool:
    """Does the clock change between two local times, less than a day or so apart?"""
    return start.replace(tzinfo=time_zone).utcoffset() != end.replace(tzinfo=time_zone).utcoffset()


def _both_instants(local_time: datetime, time_zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The instants of a local time by the offset before and after a change (PEP 495); in reverse order where the change skips it."""
    first = local_time.replace(tzinfo=time_zone)
    return first.astimezone(UTC), first.replace(fold=1).astimezone(UTC)


def _clock_change_instant(earlier: datetime, later: datetime, time_zone: ZoneInfo) -> datetime:
    """The instant of the change of the clock between two instants; changes fall on whole seconds."""
    new = later.astimezone(time_zone).utcoffset()
    seconds = range(int((later - earlier).total_seconds()) + 1)
    return earlier + timedelta(
        seconds=bisect_left(
            seconds,
            True,
            key=lambda elapsed: (earlier + timedelta(seconds=elapsed)).astimezone(time_zone).utcoffset() == new,
        )
    )
