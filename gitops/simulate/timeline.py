"""The timeline of a simulation: one track for each instance, and all events in order.

A backtest compares two timelines of the same commits under different windows and policies.
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
"""Words for states in a simulation. A suspended instance or halted rollout counts as held. Only a simulation
distinguishes baking from progressing.
"""


@dataclass(frozen=True, slots=True)
class TrackState:
    """State of an instance, with its cause."""

    reason: Reason
    message: str = ""
    node: str = ""
    blockers: tuple[str, ...] = ()
    """Names of the windows, instances or nodes that hold up the instance."""
    until: datetime | None = None
    is_deleted: bool = False

    @property
    def state(self) -> DisplayState:
        return DisplayState.TERMINATING if self.is_deleted else DisplayState.from_reason(self.reason)

    @property
    def word(self) -> str:
        """Return the word for the state, one of `SIMULATED_STATES`."""
        if self.is_deleted:
            return "deleted"
        if self.reason is Reason.BAKING:
            return "baking"
        return "held" if self.is_held else self.state.lower()

    @property
    def is_held(self) -> bool:
        """Return whether the instance waits for a person or for a time."""
        return self.state.needs_person_or_time

    @property
    def is_over(self) -> bool:
        """Return whether the instance has reached its final state: settled or deleted."""
        return self.state in {DisplayState.SETTLED, DisplayState.TERMINATING}

    def continues(self, previous: TrackState) -> bool:
        """Return whether this state and `previous` differ at most in the message and the queue position."""
        return (self.reason, self.node, self.is_deleted) == (previous.reason, previous.node, previous.is_deleted) and (
            not self.is_held or self.blockers == previous.blockers
        )


@dataclass(frozen=True, slots=True)
class TrackSpan:
    """Period in which an instance is in one state. The last span of a track ends with the simulation."""

    begins: datetime
    ends: datetime
    state: TrackState


@dataclass(frozen=True, slots=True)
class Track:
    """States of one instance over time."""

    instance: ObjectKey
    rollout: str
    """Rollout of the instance's definition, or an empty string if the definition has no rollout."""
    wave: str
    """Wave of the instance, or an empty string if the definition has no rollout."""
    spans: tuple[TrackSpan, ...]
    written: bool = False
    """True if the simulation changes an object of the instance."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Event of a simulation, as text for people and as values for programs."""

    at: datetime
    kind: str
    subject: str
    """Name of a source, rollout, instance or window."""
    text: str
    fields: Mapping[str, Any]
    """Values of the event for programs, by name."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Period in which a window is active. If the beginning or the end is too far away to compute, its value is None."""

    begins: datetime | None
    ends: datetime | None


@dataclass(frozen=True, slots=True)
class SimulatedWindow:
    """Window with its openings during a simulation."""

    name: str
    kind: str
    zone: str
    description: str
    openings: tuple[Opening, ...]


@dataclass(frozen=True, slots=True)
class CommitArrival:
    """Arrival of a commit in a simulation, with the progress of the commit."""

    at: datetime
    commit: str
    subject: str
    started: datetime | None = None
    """Time of the first write for the commit, or None before that write."""
    settled: datetime | None = None
    """Time at which the commit settled, or None before that time."""
    is_superseded: bool = False
    """True if the next commit arrives before this commit settles."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Result of a simulation: commits, tracks, events, windows and warnings."""

    source: str
    begins: datetime
    ends: datetime
    end_reason: str
    """Reason for the end of the simulation, as text for people."""
    arrivals: tuple[CommitArrival, ...]
    tracks: tuple[Track, ...]
    events: tuple[TimelineEvent, ...]
    windows: tuple[SimulatedWindow, ...]
    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of instances in each state at the end of the simulation."""
        counts = Counter(track.spans[-1].state.word for track in self.tracks)
        return {state: counts[state] for state in SIMULATED_STATES}


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """Comparison of one commit's arrival under its own rules with its arrival under tested rules."""

    actual: CommitArrival
    """Arrival under the rules that the commit contains."""
    tested: CommitArrival
    """Arrival under the tested rules."""

    @property
    def delay(self) -> timedelta | None:
        """Return the extra time to settle under the tested rules, or None if either arrival has not settled."""
        if self.actual.settled is None or self.tested.settled is None:
            return None
        return self.tested.settled - self.actual.settled


def compare(actual: Timeline, tested: Timeline) -> tuple[BacktestResult, ...]:
    """Compare two timelines of the same commits, commit by commit."""
    return tuple(map(BacktestResult, actual.arrivals, tested.arrivals))


def held_time(timeline: Timeline, begins: datetime, ends: datetime) -> timedelta:
    """Return the total time between `begins` and `ends` during which a window, a gate or a person held an instance."""
    spans = (span for track in timeline.tracks for span in track.spans if span.state.is_held)
    total, until = timedelta(), begins
    for span in sorted(spans, key=lambda span: span.begins):
        total += max(timedelta(), min(span.ends, ends) - max(span.begins, until))
        until = max(until, min(span.ends, ends))
    return total
