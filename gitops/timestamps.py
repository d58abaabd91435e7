"""Moments as Kubernetes writes them (RFC 3339, UTC), in records, JSON and messages."""

from __future__ import annotations

from datetime import datetime
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
