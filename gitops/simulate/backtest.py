"""What other windows and policies would have done to the commits of the past: the same history twice, once under each set of rules."""

from __future__ import annotations

from datetime import datetime, timedelta

from gitops.simulate.timeline import CommitArrival, Timeline, TrackStage
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """One commit under the repository's own rules (`actual`) and under the others (`tested`)."""

    actual: CommitArrival
    tested: CommitArrival

    @property
    def delay(self) -> timedelta | None:
        """How much later all of it is there than under its own rules; None where one of the two never has all of it."""
        if self.actual.settled is None or self.tested.settled is None:
            return None
        return self.tested.settled - self.actual.settled


def compare(actual: Timeline, tested: Timeline) -> tuple[BacktestResult, ...]:
    """Commit by commit; both timelines are of the same commits."""
    return tuple(map(BacktestResult, actual.arrivals, tested.arrivals))


def held_time(timeline: Timeline, begins: datetime, ends: datetime) -> timedelta:
    """For how long at least one instance was held by the calendar, a gate or a person between these times."""
    spans = (span for track in timeline.tracks for span in track.spans if span.state.stage is TrackStage.HELD)
    total, until = timedelta(), begins
    for span in sorted(spans, key=lambda span: span.begins):
        total += max(timedelta(), min(span.ends, ends) - max(span.begins, until))
        until = max(until, min(span.ends, ends))
    return total
