"""How long to wait: for answers of which it is not known when they come, by those that came lately; and until a time of day."""

from __future__ import annotations

from datetime import datetime, timedelta

from renderer.frozen import dataclass


def waits(until: datetime, longest: timedelta, now: datetime) -> bool:
    """Is that time still to come? It is not where it is farther away than anybody waits: then the clock was set back."""
    return timedelta() < until - now <= longest


@dataclass(slots=True)
class AdaptiveTimeout:
    """Three times as many seconds as there lately were between two answers, at least `shortest` and at most `longest`."""

    shortest: float
    longest: float
    _gap: float = 0.0

    @property
    def seconds(self) -> float:
        """Without any answer, after which others go on."""
        return min(self.longest, max(self.shortest, 3 * self._gap))

    def waited(self, seconds: float) -> None:
        """So long it was from one answer to the next."""
        self._gap = min(self.longest, max(seconds, 0.95 * self._gap))
