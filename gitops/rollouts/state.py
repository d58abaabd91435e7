"""Persistent state of a rollout: targets, halts, approvals, the last completed revision, and the latest decisions.

Each reconciliation computes everything else from the instances. `gitops/records/rollout_records.py` stores the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from gitops.errors import GitopsError
from gitops.rollouts.queue_position import WaveForecast
from gitops.timestamps import timestamp
from renderer.frozen import dataclass

MAX_DECISIONS: Final = 50
"""Maximum number of decisions in the log of a rollout. The log drops the oldest decisions first."""
CONTROLLER: Final = "levelgate"
OVERRIDDEN: Final = "overridden"
"""Decision to bypass a closed window by a break-glass."""
HALTED: Final = "halted"
"""Decision to move no further item to a target."""
PROPOSED: Final = "proposed"
"""Decision about a proposed revert: its pull request, or the reason why no pull request exists."""
ANY_TARGET: Final = 0
"""Target of a halt that applies to every target."""
MAX_TEXT_CHARACTERS: Final = 500
"""Maximum length, in characters, of each text in a decision. `RolloutState.with_decision` cuts longer texts."""
UNDATED: Final = datetime.min.replace(tzinfo=UTC)
"""Time of everything in a state that a query has decided, until `RolloutState.dated` replaces it.

A result of a query must not contain the present time.
"""
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class RequestRefused(GitopsError):
    """Rejection of a person's request. The text gives the reason."""


@dataclass(frozen=True, slots=True)
class TargetRevision:
    """Revision that a wave moves to. Targets with the same number are equal."""

    revision: int
    """Number of the revision."""
    commit: str = field(default="", compare=False)
    """Commit in Git that contains the revision."""
    reverts: int = field(default=0, compare=False)
    """Number of the newest older revision with the same content, or 0 if no older revision has this content."""

    @property
    def is_rollback(self) -> bool:
        """Return whether an older revision has the same content."""
        return self.reverts > 0

    def __str__(self) -> str:
        return f"r{self.revision}"


@dataclass(frozen=True, slots=True)
class Revert:
    """Result of proposing a revert of a halted target.

    Until the reviewer of pull requests has tried to open a pull request, both fields are empty.
    """

    url: str = ""
    """URL of the pull request."""
    why: str = ""
    """Reason why no pull request exists."""

    def __str__(self) -> str:
        if self.url:
            return f"a revert is proposed: {self.url}"
        return f"no revert is proposed: {self.why}" if self.why else "a revert will be proposed"


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop of a rollout: no further item moves to `target` until a person resumes the rollout.

    Unless `target` is `ANY_TARGET`, the halt does not apply to a new target.
    """

    target: int
    """Number of the target revision, or `ANY_TARGET`."""
    since: _Moment
    by: str
    why: str
    revert: Revert | None = None
    """Result of the proposed revert, or None if the policy does not propose reverts."""

    def __str__(self) -> str:
        description = f"r{self.target} has been halted since {timestamp(self.since)} by {self.by}: {self.why}"
        return f"{description}; {self.revert}" if self.revert else description


@dataclass(frozen=True, slots=True)
class Approval:
    """Approval by a person to continue the rollout of `target` after the approval point `after`."""

    target: int
    """Number of the target revision."""
    after: str
    """Name of a wave, or number of items."""
    at: _Moment
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """Entry in the log of a rollout: an action, its subject, its author and the reason."""

    at: _Moment
    what: str
    """Action, such as `halted` or `resumed`."""
    subject: str
    """Target, wave or request that the action concerns."""
    by: str = CONTROLLER
    why: str = ""
    commit: str = ""
    """Commit for which a change bypassed windows, or an empty string for any other action."""


@dataclass(frozen=True, slots=True)
class WaveProgress:
    """Numbers of items of a wave in each state, and a forecast, for reports."""

    name: str
    shape: str
    total: int
    settled: int
    moving: int
    """Items that have moved and are neither settled nor failed."""
    held: int
    failed: int
    limit: int = 0
    """Number of items that may be in flight or settled."""
    then: int = 0
    """Value of `limit` once every item in flight has settled."""
    ahead: WaveForecast = field(default_factory=WaveForecast)
    """Forecast for the items that wait."""

    @property
    def moved(self) -> int:
        """Return how many items are in flight, settled or failed."""
        return self.settled + self.moving + self.failed

    def with_forecast(self, ahead: WaveForecast) -> WaveProgress:
        """Return the progress with the forecast `ahead`, or with an empty forecast if no item waits."""
        return replace(self, ahead=ahead if self.waiting else WaveForecast())

    @property
    def waiting(self) -> int:
        """Return how many items have not moved and are not held."""
        return self.total - self.settled - self.moving - self.held - self.failed


def is_same_target(before: TargetRevision, after: TargetRevision) -> bool:
    """Return whether two targets are equal, with the fields that `==` leaves out."""
    return (before.revision, before.commit, before.reverts) == (after.revision, after.commit, after.reverts)


REPORT_FIELDS: Final = frozenset({"waves", "points", "externals"})
"""Fields of `RolloutState` that people read and that no decision depends on."""


@dataclass(frozen=True, slots=True)
class RolloutState:
    """Content of the record of a rollout. Fields in `REPORT_FIELDS` are for people only."""

    targets: Mapping[str, TargetRevision] = field(default_factory=dict)
    """Target by name of the wave."""
    passed: Mapping[str, TargetRevision] = field(default_factory=dict)
    """Last target that a wave has completed, by name of the wave."""
    completed: TargetRevision | None = None
    """Last target at which every item of the rollout has settled."""
    halts: tuple[Halt, ...] = ()
    forgiven: Mapping[str, int] = field(default_factory=dict)
    """Number of failures that a `resume` has accepted, by name of the wave."""
    approvals: tuple[Approval, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()
    """The latest `MAX_DECISIONS` decisions, oldest first."""
    waves: tuple[WaveProgress, ...] = ()
    """Progress of the waves, in order."""
    points: tuple[str, ...] = ()
    """Approval points of the policy."""
    externals: Mapping[str, _Moment] = field(default_factory=dict)
    """Time in UTC since which an external fact of the definition is true, by name of the fact."""
    of: str = ""
    """Kind of the definition, and the name of the policy if the policy selects instances.

    If the definition gets a new name, this value still identifies the rollout. In records of earlier versions, the
    value is empty.
    """

    @property
    def is_completed(self) -> bool:
        """Return whether every wave has completed its target, and the target is the same as `completed`."""
        return all(self.completed == target == self.passed.get(name) for name, target in self.targets.items())

    def halt_of(self, target: TargetRevision) -> Halt | None:
        """Return the halt that applies to `target`, or None if `target` is not halted."""
        return next((halt for halt in self.halts if halt.target in {ANY_TARGET, target.revision}), None)

    def is_approved(self, target: TargetRevision, after: str) -> bool:
        """Return whether `target` has an approval at the approval point `after`."""
        return any(approval.target == target.revision and approval.after == after for approval in self.approvals)

    def with_progress(
        self, waves: tuple[WaveProgress, ...], points: Iterable[str], externals: Iterable[str], now: datetime
    ) -> RolloutState:
        """Return the state with the report fields `waves`, `points` and `externals`.

        An external fact that is already in the state keeps its time.

        Args:
            externals: names of the external facts that are true at `now`.
        """
        since = {name: self.externals.get(name, now) for name in sorted(externals)}
        return replace(self, waves=waves, points=tuple(points), externals=since)

    def with_forecast(self, ahead: Mapping[str, WaveForecast]) -> RolloutState:
        """Return the state with the forecasts in `ahead`, by name of the wave."""
        return replace(self, waves=tuple(wave.with_forecast(ahead[wave.name]) for wave in self.waves))

    def dated(self, now: datetime) -> RolloutState:
        """Return the state with `now` in place of each time that is `UNDATED`."""

        def date(moment: datetime) -> datetime:
            return now if moment == UNDATED else moment

        return replace(
            self,
            halts=tuple(replace(halt, since=date(halt.since)) for halt in self.halts),
            approvals=tuple(replace(approval, at=date(approval.at)) for approval in self.approvals),
            decisions=tuple(replace(entry, at=date(entry.at)) for entry in self.decisions),
            externals={name: date(since) for name, since in self.externals.items()},
        )

    def with_decision(self, *entries: DecisionRecord) -> RolloutState:
        """Return the state with `entries` appended to the log.

        Cut each text after `MAX_TEXT_CHARACTERS` characters. Keep only the newest `MAX_DECISIONS` decisions.

        If the log already contains a decision of the controller, or a decision under a break-glass, do not append the
        decision again. A process that is killed between the record and the action repeats its decision after the
        restart. If each repetition changed the record, a process that is killed repeatedly would never act.
        """
        shortened = [
            replace(
                entry,
                subject=entry.subject[:MAX_TEXT_CHARACTERS],
                by=entry.by[:MAX_TEXT_CHARACTERS],
                why=entry.why[:MAX_TEXT_CHARACTERS],
            )
            for entry in entries
        ]
        known_entries = {
            replace(entry, at=UNDATED) for entry in self.decisions if entry.by == CONTROLLER or entry.what == OVERRIDDEN
        }
        new_entries = [entry for entry in shortened if replace(entry, at=UNDATED) not in known_entries]
        return replace(self, decisions=(*self.decisions, *new_entries)[-MAX_DECISIONS:])


def is_same_state(before: RolloutState | None, after: RolloutState | None) -> bool:
    """Return whether two states are equal, with the fields of targets that `==` leaves out."""
    if before is None or after is None:
        return before is after
    if before != after:
        return False
    pairs = [
        *((target, after.targets[name]) for name, target in before.targets.items()),
        *((target, after.passed[name]) for name, target in before.passed.items()),
    ]
    if before.completed and after.completed:
        pairs.append((before.completed, after.completed))
    return all(is_same_target(*pair) for pair in pairs)
