"""Timestamps as Kubernetes writes them (RFC 3339, UTC), and times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def timestamp(moment: datetime) -> str:
    """Return `moment`, which is in UTC, as text such as `2026-11-20T10:30:00Z`."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def optional_timestamp(moment: datetime | None) -> str | None:
    """Return the timestamp of `moment`, or None if `moment` is None."""
    return timestamp(moment) if moment else None


def micro_timestamp(moment: datetime) -> str:
    """Return `moment`, which is in UTC, as a MicroTime of Kubernetes such as `2026-11-20T10:30:00.000000Z`."""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def parse_timestamp(text: Any) -> datetime | None:
    """Return the time in `text`. If `text` is not a time with a zone, return None."""
    try:
        parsed = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return parsed if parsed.tzinfo else None


def to_utc(moment: datetime) -> datetime:
    """Return `moment` in UTC. If `moment` has no zone, it counts as a time in the zone of the terminal.

    If daylight saving skips `moment`, the result moves forward by the length of the gap. If `moment` occurs twice, the
    first occurrence counts.

    Source: RFC 5545, 3.3.5.
    """
    if moment.tzinfo is None and moment.astimezone().replace(tzinfo=None) != moment:
        moment = moment.replace(fold=1)  # otherwise `astimezone` treats it as a time before the gap
    return moment.astimezone(UTC)
