"""Ages as kubectl shows them: apimachinery `pkg/util/duration`, HumanDuration."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


def human(seconds: float) -> str:
    """`45s`, `3m12s`, `5h`, `2d4h`, `3y40d`: exact where that matters to people."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        return _two(whole, YEAR, "y", DAY, "d")
    return f"{whole // YEAR}y"


def _two(whole: int, unit: int, name: str, lesser: int, lesser_name: str) -> str:
    rest = whole % unit // lesser
    return f"{whole // unit}{name}" + (f"{rest}{lesser_name}" if rest else "")
