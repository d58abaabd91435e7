"""Token bucket for request rates. Pure: times are arguments, in seconds.

The whole state of a bucket is the time at which the bucket becomes full.

Source: the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from renderer.frozen import dataclass

_ROUNDING_SECONDS: Final = 1e-6
"""Tolerance for sums of seconds. Without this tolerance, rounding errors delay the last token of a burst."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Limit of a request rate: the long-term rate, and the size of a burst."""

    per_second: float
    """Long-term rate, in requests per second, above 0."""
    burst: int
    """Number of requests that may start at once, at least 1."""


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Bucket that refills at a rate."""

    rate: Rate
    full_at: float = -inf
    """Time from which the bucket is full, in seconds."""

    @property
    def next_at(self) -> float:
        """Return the time, in seconds, from which a token is available."""
        return self.full_at - (self.rate.burst - 1) / self.rate.per_second - _ROUNDING_SECONDS

    def take(self, now: float) -> TokenBucket:
        """Return the bucket after a request takes a token at `now`, which must not be before `next_at`."""
        return replace(self, full_at=max(self.full_at, now) + 1 / self.rate.per_second)
