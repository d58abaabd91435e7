"""Timestamps as Kubernetes writes them (RFC 3339, UTC), and times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def timestamp(moment: datetime) -> str:
    """Return `2026-11-20T10:30:00Z`; `moment` is in UTC."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def optional_timestamp(moment: datetime | None) -> str | None:
    """Return the timestamp, or None for None."""
    return timestamp(moment) if moment else None


def micro_timestamp(moment: datetime) -> str:
    """Return `2026-11-20T10:30:00.000000Z`, a MicroTime of Kubernetes."""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def parse_timestamp(text: Any) -> datetime | None:
    """Return the moment that `text` names with a zone; None for any other text."""
    try:
        parsed = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return parsed if parsed.tzinfo else None


def to_utc(moment: datetime) -> datetime:
    """Return a time in UTC; a time without a zone is in that of the terminal.

    A time that daylight saving skips is moved behind the gap by as much as it is after the start of the gap. Of a
    time that occurs twice the first counts (RFC 5545, 3.3.5).
    """
    if moment.tzinfo is None and moment.astimezone().replace(tzinfo=None) != moment:
        moment = moment.replace(fold=1)  # otherwise `astimezone` takes it for a time before the gap
    return moment.astimezone(UTC)
