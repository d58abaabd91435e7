"""Lengths of waits after repeated failures and for answers, and a test for waits until a given time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, TypeVar

from renderer.frozen import dataclass

T = TypeVar("T", float, timedelta)

_MAX_DOUBLINGS: Final = 32
"""Largest exponent. With a larger exponent, the wait would be at its maximum anyway, and the product could overflow."""


def exponential_backoff(failures: int, first: T, maximum: T) -> T:
    """Return the wait before the next try, at most `maximum`.

    If no try has failed yet, the wait is `first`. Each failure doubles the wait.
    """
    return min(first * (1 << min(failures, _MAX_DOUBLINGS)), maximum)


def is_waiting(until: datetime, max_wait: timedelta, now: datetime) -> bool:
    """Return whether `until` is in the future.

    If `until` is more than `max_wait` after `now`, the clock has jumped back. In that case, return False.
    """
    return timedelta() < until - now <= max_wait


@dataclass(slots=True)
class AdaptiveTimeout:
    """Timeout of three times the recent gap between two answers, at least `min_seconds` and at most `max_seconds`."""

    min_seconds: float
    max_seconds: float
    _answer_gap: float = 0.0

    @property
    def seconds(self) -> float:
        """Return how many seconds the caller waits for an answer before the caller proceeds."""
        return min(self.max_seconds, max(self.min_seconds, 3 * self._answer_gap))

    def record_gap(self, seconds: float) -> None:
        """Record a gap of `seconds` between two answers.

        A smaller gap lowers the recent gap by at most 5 percent.
        """
        self._answer_gap = min(self.max_seconds, max(seconds, 0.95 * self._answer_gap))
