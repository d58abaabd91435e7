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


def version() -> str:
    """The edition of the time zone data, such as `2026b`."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """All names that a zone may have."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def zone(name: str) -> ZoneInfo:
    """The zone of this IANA name. Raises KeyError for any other text."""
    if name not in names():
        raise KeyError(name)
    with resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def local(moment: datetime, where: ZoneInfo) -> datetime:
    """What the clock on the wall shows at an instant."""
    return moment.astimezone(where).replace(tzinfo=None)


def opening(wall: datetime, where: ZoneInfo) -> datetime | None:
    """The first instant of a local time; None where the zone skipped it when it moved across the date line."""
    first, second = _both(wall, where)
    if first <= second:
        return first
    return None if first - second > DATE_LINE else _change(second, first, where)


def closing(wall: datetime, where: ZoneInfo, *, last: bool) -> datetime:
    """The instant of a local time; the `last` or the first one where it comes twice."""
    first, second = _both(wall, where)
    if first <= second:
        return second if last else first
    return _change(second, first, where)


def changes_between(start: datetime, end: datetime, where: ZoneInfo) -> bool:
    """Does the clock change between two local times, less than a day or so apart?"""
    return start.replace(tzinfo=where).utcoffset() != end.replace(tzinfo=where).utcoffset()


def _both(wall: datetime, where: ZoneInfo) -> tuple[datetime, datetime]:
    """The instants of a local time by the offset before and after a change (PEP 495); in reverse order where the change skips it."""
    first = wall.replace(tzinfo=where)
    return first.astimezone(UTC), first.replace(fold=1).astimezone(UTC)


def _change(before: datetime, after: datetime, where: ZoneInfo) -> datetime:
    """The instant of the change of the clock between two instants; changes fall on whole seconds."""
    new = after.astimezone(where).utcoffset()
    seconds = range(int((after - before).total_seconds()) + 1)
    return before + timedelta(
        seconds=bisect_left(
            seconds, True, key=lambda passed: (before + timedelta(seconds=passed)).astimezone(where).utcoffset() == new
        )
    )
