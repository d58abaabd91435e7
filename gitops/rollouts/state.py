"""What a rollout must not forget: which revision each wave moves to, halts, approvals, what completed last, and the last decisions.

Everything else is read from the instances each time. How it is stored: `gitops/records/rollout_records.py`.
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
CONTROLLER: Final = "levelgate"
OVERRIDDEN: Final = "overridden"
"""The decision to change something in spite of a closed window."""
HALTED: Final = "halted"
"""The decision that nothing more moves to a target."""
PROPOSED: Final = "proposed"
"""The decision of what becomes of a revert that was to be proposed."""
ANY_TARGET: Final = 0
"""The target of a halt that holds whatever the target is."""
MAX_TEXT_CHARACTERS: Final = 500
_MIN_TIME: Final = datetime.min.replace(tzinfo=UTC)
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class RequestRefused(GitopsError):
    """What a person asked of a rollout cannot be done; the text says what to do instead."""


@dataclass(frozen=True, slots=True)
class TargetRevision:
    """A revision to move to; its number is its identity. `reverts`: the newest older revision with the same content, which makes this a rollback;
    0: there is none.
    """

    revision: int
    commit: str = field(default="", compare=False)
    reverts: int = field(default=0, compare=False)

    @property
    def is_rollback(self) -> bool:
        return self.reverts > 0

    def __str__(self) -> str:
        return f"r{self.revision}"


@dataclass(frozen=True, slots=True)
class Revert:
    """What became of the proposal to take back what was halted: the `url` of the pull request, or `why` there is none; neither: nobody tried yet."""

    url: str = ""
    why: str = ""

    def __str__(self) -> str:
        if self.url:
            return f"a revert is proposed: {self.url}"
        return f"no revert is proposed: {self.why}" if self.why else "a revert will be proposed"


@dataclass(frozen=True, slots=True)
class Halt:
    """A latch: nothing more moves to `target` until there is another, or until somebody resumes. `revert`: the policy wants one proposed."""

    target: int
    since: _Moment
    by: str
    why: str
    revert: Revert | None = None

    def __str__(self) -> str:
        description = f"r{self.target} is halted since {timestamp(self.since)} by {self.by}: {self.why}"
        return f"{description}; {self.revert}" if self.revert else description


@dataclass(frozen=True, slots=True)
class Approval:
    """Somebody agreed that `target` goes on after this wave, or this number of settled items."""

    target: int
    after: str
    at: _Moment
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision: what was done to what, by whom and why."""

    at: _Moment
    what: str
    subject: str
    by: str = CONTROLLER
    why: str = ""


@dataclass(frozen=True, slots=True)
class WaveProgress:
    """How far a wave is, for people to read: of `total` instances some have `settled`, `failed`, are `moving`, are `held`; the others wait, for what
    is `ahead` of them. `limit` may be under way or settled, `then` may be once all that moved have settled.
    """

    name: str
    shape: str
    total: int
    settled: int
    moving: int
    held: int
    failed: int
    limit: int = 0
    then: int = 0
    ahead: WaveForecast = field(default_factory=WaveForecast)

    @property
    def moved(self) -> int:
        return self.settled + self.moving + self.failed

    def with_forecast(self, ahead: WaveForecast) -> WaveProgress:
        """With this ahead of those that wait; where nobody does, there is nothing to tell."""
        return replace(self, ahead=ahead if self.waiting else WaveForecast())

    @property
    def waiting(self) -> int:
        return self.total - self.settled - self.moving - self.held - self.failed


REPORT_FIELDS: Final = frozenset({"waves", "points", "externals"})


@dataclass(frozen=True, slots=True)
class RolloutState:
    """`targets` by wave; `passed`: where each wave was last complete; `forgiven`: failures of a wave that `resume` accepted. `waves`, in their
    order, tell how far it is, `points` after what its policy asks for approvals, `externals` which of the external facts that its definition asks
    for are so, and since when; nothing is decided by these (`TOLD`). `of` is what it is the rollout of, whatever that is called: a kind, with the
    name of its policy where that selects instances; empty where nobody said.
    """

    targets: Mapping[str, TargetRevision] = field(default_factory=dict)
    passed: Mapping[str, TargetRevision] = field(default_factory=dict)
    completed: TargetRevision | None = None
    halts: tuple[Halt, ...] = ()
    forgiven: Mapping[str, int] = field(default_factory=dict)
    approvals: tuple[Approval, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()
    waves: tuple[WaveProgress, ...] = ()
    points: tuple[str, ...] = ()
    externals: Mapping[str, _Moment] = field(default_factory=dict)
    of: str = ""

    @property
    def is_completed(self) -> bool:
        """Has every wave what completed last, and is nothing newer to come?"""
        return all(self.completed == target == self.passed.get(name) for name, target in self.targets.items())

    def halt_of(self, target: TargetRevision) -> Halt | None:
        return next((halt for halt in self.halts if halt.target in {ANY_TARGET, target.revision}), None)

    def is_approved(self, target: TargetRevision, after: str) -> bool:
        return any(approval.target == target.revision and approval.after == after for approval in self.approvals)

    def with_progress(
        self, waves: tuple[WaveProgress, ...], points: Iterable[str], externals: Iterable[str], now: datetime
    ) -> RolloutState:
        """With how far it is, the points of approval, and the external facts that are so now."""
        since = {name: self.externals.get(name, now) for name in sorted(externals)}
        return replace(self, waves=waves, points=tuple(points), externals=since)

    def with_forecast(self, ahead: Mapping[str, WaveForecast]) -> RolloutState:
        """With what those wait for that have not moved, by wave."""
        return replace(self, waves=tuple(wave.with_forecast(ahead[wave.name]) for wave in self.waves))

    @property
    def without_report(self) -> RolloutState:
        """What decisions rest on."""
        return replace(self, waves=(), points=(), externals={})

    def with_decision(self, *entries: DecisionRecord) -> RolloutState:
        """With these decisions recorded; only the newest are kept, each bounded in length.

        What the program decided already, or did under a break-glass, is not recorded again: killed between this record and what it speaks of, it
        decides the same anew, and a record that changed each time would be all that it ever wrote.
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
            replace(entry, at=_MIN_TIME)
            for entry in self.decisions
            if entry.by == CONTROLLER or entry.what == OVERRIDDEN
        }
        new_entries = [entry for entry in shortened if replace(entry, at=_MIN_TIME) not in known_entries]
        return replace(self, decisions=(*self.decisions, *new_entries)[-MAX_DECISIONS:])
