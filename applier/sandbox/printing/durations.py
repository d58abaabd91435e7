"""Ages as kubectl shows them: apimachinery `pkg/util/duration`, HumanDuration."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


def format_duration(seconds: float) -> str:
    """`45s`, `3m12s`, `5h`, `2d4h`, `3y40d`: exact where that matters to people."""
    whole_seconds = int(seconds)
    if whole_seconds < -1:
        return "<invalid>"
    if whole_seconds < 0:
        return "0s"
    if whole_seconds < 2 * MINUTE:
        return f"{whole_seconds}s"
    if whole_seconds < 10 * MINUTE:
        return _format_two_units(whole_seconds, MINUTE, "m", 1, "s")
    if whole_seconds < 3 * HOUR:
        return f"{whole_seconds // MINUTE}m"
    if whole_seconds < 8 * HOUR:
        return _format_two_units(whole_seconds, HOUR, "h", MINUTE, "m")
    if whole_seconds < 2 * DAY:
        return f"{whole_seconds // HOUR}h"
    if whole_seconds < 8 * DAY:
        return _format_two_units(whole_seconds, DAY, "d", HOUR, "h")
    if whole_seconds < 2 * YEAR:
        return f"{whole_seconds // DAY}d"
    if whole_seconds < 8 * YEAR:
        return _format_two_units(whole_seconds, YEAR, "y", DAY, "d")
    return f"{whole_seconds // YEAR}y"


def _format_two_units(whole_seconds: int, unit: int, name: str, smaller_unit: int, smaller_name: str) -> str:
    remainder = whole_seconds % unit // smaller_unit
    return f"{whole_seconds // unit}{name}" + (f"{remainder}{smaller_name}" if remainder else "")
