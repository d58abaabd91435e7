"""Durations as text in commands, windows, policies, configuration and messages."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_PART: Final = re.compile(r"([0-9]{1,9})(ms|[smhd])")
MAX_DURATION: Final = timedelta(days=36_525)
"""A hundred years, so that the current time plus a duration stays in the range of `datetime`."""
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str, *, maximum: timedelta = MAX_DURATION) -> timedelta:
    """Return the duration in a text such as `90s`, `30m`, `1h30m` or `2d` (48 hours).

    Raises: ValueError if `text` is not a duration, or longer than `maximum`. The message describes a valid duration.
    """
    parts = _PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 30m, 1h30m or 2d")
    seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if seconds > maximum.total_seconds():
        raise ValueError(f"{text!r} is longer than {maximum.days}d; write a shorter duration")
    return timedelta(seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """Return text such as `52s`, `1h30m` or `2d4h`, which `parse_duration` reads.

    For a duration below a second, return text such as `300ms`. For a negative duration, return text such as `-2m`.
    """
    if duration < timedelta():
        return f"-{format_duration(-duration)}"
    if duration < timedelta(seconds=1):
        return f"{duration // timedelta(milliseconds=1)}ms" if duration else "0s"
    minutes, seconds = divmod(round(duration.total_seconds()), 60)
    parts = [(minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number)
