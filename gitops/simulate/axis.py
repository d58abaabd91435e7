"""Where a moment stands on a picture: time runs to the right, and stretches in which nothing happens are shortened."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Final

from renderer.frozen import dataclass

MAX_GAP_RATIO: Final = 8
"""A stretch without an event is drawn no longer than so many of those of the shortest quarter: where little happens, most are nights."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`moments` in order, each `at` a distance from the left; `breaks` are the distances at which time was left out."""

    moments: tuple[datetime, ...]
    positions: tuple[float, ...]
    breaks: tuple[float, ...]

    @classmethod
    def from_events(cls, events: Iterable[datetime], width: float) -> Axis:
        """An axis as wide as `width`, from the first of the moments to the last."""
        moments = tuple(sorted(set(events)))
        gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
        max_gap = MAX_GAP_RATIO * sorted(gaps)[len(gaps) // 4] if gaps else 0.0
        drawn_gaps = [min(gap, max_gap) for gap in gaps]
        scale = width / sum(drawn_gaps) if drawn_gaps else 0.0
        positions = tuple(accumulate((length * scale for length in drawn_gaps), initial=0.0))
        middles = ((left + right) / 2 for left, right in pairwise(positions))
        breaks = tuple(middle for middle, gap in zip(middles, gaps, strict=True) if gap > max_gap)
        return cls(moments, positions, breaks)

    def position_of(self, moment: datetime) -> float:
        """The distance of a moment; those outside stand at the ends."""
        if moment <= self.moments[0]:
            return 0.0
        if moment >= self.moments[-1]:
            return self.positions[-1]
        index = bisect_right(self.moments, moment) - 1
        earlier, later = self.moments[index], self.moments[index + 1]
        return self.positions[index] + (self.positions[index + 1] - self.positions[index]) * (
            (moment - earlier) / (later - earlier)
        )
