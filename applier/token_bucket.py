"""Token bucket for request rates. Pure: times are arguments, in seconds.

Source: the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371). Its whole state is the time at
which the bucket will be full.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from renderer.frozen import dataclass

_ROUNDING_SECONDS: Final = 1e-6
"""Tolerance for sums of seconds: without it, rounding errors delay the last token of a burst."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Limit of `per_second` (above 0) in the long run, and of `burst` (at least 1) at once."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Bucket that refills at a rate, and is full at the second `full_at`."""

    rate: Rate
    full_at: float = -inf

    @property
    def next_at(self) -> float:
        """Return the second from which a token is available."""
        return self.full_at - (self.rate.burst - 1) / self.rate.per_second - _ROUNDING_SECONDS

    def take(self, now: float) -> TokenBucket:
        """Return the bucket without a token that is taken at *now*, which must not be before `next_at`."""
        return replace(self, full_at=max(self.full_at, now) + 1 / self.rate.per_second)
