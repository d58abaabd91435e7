"""The timeline of a simulation: one track for each instance, and its events in order. Values only.

A backtest is the same history under two sets of rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from applier.causes import Reason
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


class TrackStage(StrEnum):
    """Where an instance stands; `waiting`: its turn has not come, `held`: only people, gates and the calendar keep it."""

    SETTLED = "settled"
    MOVING = "moving"
    BAKING = "baking"
    WAITING = "waiting"
    HELD = "held"
    FAILED = "failed"
    GONE = "gone"


def stage_of(reason: Reason) -> TrackStage:
    """The stage that a reason stands for."""
    if reason is Reason.SETTLED:
        return TrackStage.SETTLED
    if reason is Reason.BAKING:
        return TrackStage.BAKING
    if reason.is_queued:
        return TrackStage.WAITING
    if reason.is_failure:
        return TrackStage.FAILED
    return TrackStage.HELD if reason.is_hold else TrackStage.MOVING


@dataclass(frozen=True, slots=True)
class TrackState:
    """Why an instance is where it is. `by` names what holds it: windows, other instances, nodes."""

    stage: TrackStage
    reason: Reason
    message: str = ""
    node: str = ""
    blockers: tuple[str, ...] = ()
    until: datetime | None = None

    def continues(self, previous: TrackState) -> bool:
        """Is it the same, apart from its words, and from who is before it in its turn?"""
        is_same = (self.stage, self.reason, self.node) == (previous.stage, previous.reason, previous.node)
        return is_same and (self.stage is not TrackStage.HELD or self.blockers == previous.blockers)


@dataclass(frozen=True, slots=True)
class TrackSpan:
    """A standing for some time; `ends` is that of the simulation where nothing ended it."""

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
    fields: Mapping[str, Any] = field(default_factory=dict)


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
        """Instances by the stage that they end in."""
        counts = dict.fromkeys(map(str, TrackStage), 0)
        for track in self.tracks:
            counts[track.spans[-1].state.stage] += 1
        return counts


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
