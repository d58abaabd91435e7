"""Where a moment stands on a picture: time runs to the right, and stretches in which nothing happens are shortened."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Final

from renderer.frozen import dataclass

QUIET: Final = 8
"""A stretch without an event is drawn no longer than so many of those of the shortest quarter: where little happens, most are nights."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`moments` in order, each `at` a distance from the left; `breaks` are the distances at which time was left out."""

    moments: tuple[datetime, ...]
    at: tuple[float, ...]
    breaks: tuple[float, ...]

    @classmethod
    def over(cls, events: Iterable[datetime], width: float) -> Axis:
        """An axis as wide as `width`, from the first of the moments to the last."""
        moments = tuple(sorted(set(events)))
        gaps = [(after - before).total_seconds() for before, after in pairwise(moments)]
        longest = QUIET * sorted(gaps)[len(gaps) // 4] if gaps else 0.0
        drawn = [min(gap, longest) for gap in gaps]
        scale = width / sum(drawn) if drawn else 0.0
        at = tuple(accumulate((length * scale for length in drawn), initial=0.0))
        middles = ((left + right) / 2 for left, right in pairwise(at))
        breaks = tuple(middle for middle, gap in zip(middles, gaps, strict=True) if gap > longest)
        return cls(moments, at, breaks)

    def of(self, moment: datetime) -> float:
        """The distance of a moment; those outside stand at the ends."""
        if moment <= self.moments[0]:
            return 0.0
        if moment >= self.moments[-1]:
            return self.at[-1]
        index = bisect_right(self.moments, moment) - 1
        before, after = self.moments[index], self.moments[index + 1]
        return self.at[index] + (self.at[index + 1] - self.at[index]) * ((moment - before) / (after - before))
