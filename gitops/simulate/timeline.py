"""The timeline of a simulation: one track for each instance, and its events in order. Values only.

A backtest is the same history under two sets of rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from applier.causes import Reason
from gitops.records.display_state import DisplayState
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

SIMULATED_STATES: Final = ("settled", "progressing", "baking", "waiting", "held", "failed", "deleted")
"""States that a simulation tells. Baking is told apart from progressing; suspended and halted count as held."""


@dataclass(frozen=True, slots=True)
class TrackState:
    """State of an instance and its cause. `blockers` names what holds it: windows, other instances, nodes."""

    reason: Reason
    message: str = ""
    node: str = ""
    blockers: tuple[str, ...] = ()
    until: datetime | None = None
    is_deleted: bool = False

    @property
    def state(self) -> DisplayState:
        return DisplayState.TERMINATING if self.is_deleted else DisplayState.from_reason(self.reason)

    @property
    def word(self) -> str:
        """Return the state as one of `SIMULATED_STATES`."""
        if self.is_deleted:
            return "deleted"
        if self.reason is Reason.BAKING:
            return "baking"
        return "held" if self.is_held else self.state.lower()

    @property
    def is_held(self) -> bool:
        return self.state.needs_person_or_time

    @property
    def is_over(self) -> bool:
        """Return whether nothing of it is still to come."""
        return self.state in {DisplayState.SETTLED, DisplayState.TERMINATING}

    def continues(self, previous: TrackState) -> bool:
        """Return whether the state is the same, apart from its message and its queue position."""
        return (self.reason, self.node, self.is_deleted) == (previous.reason, previous.node, previous.is_deleted) and (
            not self.is_held or self.blockers == previous.blockers
        )


@dataclass(frozen=True, slots=True)
class TrackSpan:
    """A state for some time; `ends` is that of the simulation where nothing ended it."""

    begins: datetime
    ends: datetime
    state: TrackState


@dataclass(frozen=True, slots=True)
class Track:
    """One instance from the first commit on. `rollout` and `wave` are empty where its definition has no rollout. `written`: it was changed."""

    instance: ObjectKey
    rollout: str
    wave: str
    spans: tuple[TrackSpan, ...]
    written: bool = False


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Something that happened. `who` is a source, rollout, instance or window; `kind` and `fields` are for machines."""

    at: datetime
    kind: str
    subject: str
    text: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Opening:
    """A window that is active from `begins` on until `ends`; None: beyond the time that was simulated."""

    begins: datetime | None
    ends: datetime | None


@dataclass(frozen=True, slots=True)
class SimulatedWindow:
    """One window while the simulation ran."""

    name: str
    kind: str
    zone: str
    description: str
    openings: tuple[Opening, ...]


@dataclass(frozen=True, slots=True)
class CommitArrival:
    """A commit, when it came, when the first of it was written, and when all that it wants was so; None where that is not yet. `overtaken`: another
    came before that.
    """

    at: datetime
    commit: str
    subject: str
    started: datetime | None = None
    settled: datetime | None = None
    is_superseded: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """`ended`: why the simulation stopped there, for people."""

    source: str
    begins: datetime
    ends: datetime
    end_reason: str
    arrivals: tuple[CommitArrival, ...]
    tracks: tuple[Track, ...]
    events: tuple[TimelineEvent, ...]
    windows: tuple[SimulatedWindow, ...]
    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of instances by the state that they end in."""
        counts = Counter(track.spans[-1].state.word for track in self.tracks)
        return {state: counts[state] for state in SIMULATED_STATES}


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
    spans = (span for track in timeline.tracks for span in track.spans if span.state.is_held)
    total, until = timedelta(), begins
    for span in sorted(spans, key=lambda span: span.begins):
        total += max(timedelta(), min(span.ends, ends) - max(span.begins, until))
        until = max(until, min(span.ends, ends))
    return total
