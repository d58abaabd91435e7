"""A token bucket: so many at once after a rest, and so many a second in the long run. Pure: moments come in as arguments.

Source: the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371): the bucket is the moment at which it will be full.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from renderer.frozen import dataclass

_ROUNDING_SECONDS: Final = 1e-6
"""Sums of seconds are not exact: without this the last of a burst may come a moment late."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` above 0 in the long run, and at most `burst` (at least 1) at once."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Tokens that come back at a rate. `full_at` is the second at which all are there again."""

    rate: Rate
    full_at: float = -inf

    @property
    def next_at(self) -> float:
        """Return the second from which on a token is there."""
        return self.full_at - (self.rate.burst - 1) / self.rate.per_second - _ROUNDING_SECONDS

    def take(self, now: float) -> TokenBucket:
        """Return the bucket without the token that is taken now, which is not before `next_at`."""
        return replace(self, full_at=max(self.full_at, now) + 1 / self.rate.per_second)
