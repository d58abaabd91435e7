"""Durations as people write them, everywhere: in commands, windows, policies and configuration."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_PART: Final = re.compile(r"([0-9]{1,9})(ms|[smhd])")
MAX_DURATION: Final = timedelta(days=36_525)
"""A hundred years: so that what is reckoned from it stays within the calendar."""
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> timedelta:
    """`90s`, `30m`, `1h30m`, `2d` (48 hours). Raises ValueError with what would be valid."""
    parts = _PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 30m, 1h30m or 2d")
    seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if seconds > MAX_DURATION.total_seconds():
        raise ValueError(f"{text!r} is longer than {MAX_DURATION.days}d, the longest duration")
    return timedelta(seconds=seconds)
