"""Moments as Kubernetes writes them (RFC 3339, UTC), in records, JSON and messages, and as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def timestamp(moment: datetime) -> str:
    """Return `2026-11-20T10:30:00Z`; `moment` is in UTC."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def optional_timestamp(moment: datetime | None) -> str | None:
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
    """Return the moment of a time as somebody wrote it; without a zone it is the terminal's.

    A time that summer time skips is as far after the gap as it would have been. Of one that comes twice the first counts
    (RFC 5545, 3.3.5).
    """
    if moment.tzinfo is None and moment.astimezone().replace(tzinfo=None) != moment:
        moment = moment.replace(fold=1)  # `astimezone` takes a time in the gap for one before it
    return moment.astimezone(UTC)
