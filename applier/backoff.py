"""Waiting times: after failures in a row, for answers by those that came lately, and until a time of day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, TypeVar

from renderer.frozen import dataclass

T = TypeVar("T", float, timedelta)

_MAX_DOUBLINGS: Final = 32
"""Enough for every maximum, and so few that no product overflows."""


def exponential_backoff(failures: int, first: T, maximum: T) -> T:
    """Return the wait before the next try: `first` without an earlier failure, doubled by each, at most `maximum`."""
    return min(first * (1 << min(failures, _MAX_DOUBLINGS)), maximum)


def is_waiting(until: datetime, max_wait: timedelta, now: datetime) -> bool:
    """Is that time still to come? It is not where it is farther away than anybody waits: then the clock was set back."""
    return timedelta() < until - now <= max_wait


@dataclass(slots=True)
class AdaptiveTimeout:
    """Three times as many seconds as there lately were between two answers, at least `shortest` and at most `longest`."""

    min_seconds: float
    max_seconds: float
    _answer_gap: float = 0.0

    @property
    def seconds(self) -> float:
        """Without any answer, after which others go on."""
        return min(self.max_seconds, max(self.min_seconds, 3 * self._answer_gap))

    def record_gap(self, seconds: float) -> None:
        """So long it was from one answer to the next."""
        self._answer_gap = min(self.max_seconds, max(seconds, 0.95 * self._answer_gap))
