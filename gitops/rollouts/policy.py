"""What a PropagationPolicy says, as values; and what holds where there is none.

Which policy governs an instance is decided whole: the most specific one, without anything inherited from another. Every instance is in exactly one
wave: one that fits no wave, or several, goes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from applier.plan.model import Barrier
from gitops.rollouts.shapes import ALL_ITEMS, NO_ITEMS, CountOrPercent, Exponential, Shape, Unpaced
from gitops.windows.window import Openness, matches_any
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.label_selector import LabelSelector

REST_WAVE: Final = "rest"
"""The wave of instances that fit no declared wave, or several."""

ALL_WAVE: Final = "all"
"""The one wave of a policy that declares none."""


class PolicyScope(StrEnum):
    REVISIONS = "Revisions"
    ALL_WAVE = "All"


class Mode(StrEnum):
    BATCH = "Batch"
    SLIDING = "Sliding"


class OnHalt(StrEnum):
    STOP = "Stop"
    PROPOSE_REVERT = "ProposeRevert"
    ROLL_BACK = "RollBack"


class ItemOrder(StrEnum):
    STABLE = "Stable"
    SHUFFLE_PER_REVISION = "ShufflePerRevision"


class NewInstances(StrEnum):
    LAST_COMPLETED = "LastCompleted"
    LATEST = "Latest"


class OnNewRevision(StrEnum):
    SUPERSEDE = "Supersede"
    FINISH = "Finish"
    PIPELINE = "Pipeline"


class OnViolation(StrEnum):
    WARN = "Warn"
    REJECT = "Reject"


@dataclass(frozen=True, slots=True)
class PolicySelector:
    """Definitions by name, with `*`; instances by label. None: all of them."""

    rgds: tuple[str, ...] = ()
    instances: LabelSelector | None = None

    def matches(self, definition: str, labels: Mapping[str, str]) -> bool:
        return matches_any(self.rgds or None, definition) and (self.instances is None or self.instances.matches(labels))

    def rank(self, definition: str) -> tuple[int, bool]:
        """How specific it is for this definition; the higher wins: its name, a pattern, nothing; then a label selector or none."""
        by_name = 2 if definition in self.rgds else 1 if self.rgds else 0
        return by_name, self.instances is not None


@dataclass(frozen=True, slots=True)
class Wave:
    """Instances that move together, before the next wave. `shape` and `bake` are the policy's where None."""

    name: str
    selector: LabelSelector = field(default_factory=LabelSelector)
    shape: Shape | None = None
    bake: timedelta | None = None
    windows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalPoint:
    """Where somebody has to agree: after a wave, or once so many have settled. `by`: groups that may; empty: whoever may write the record."""

    after_wave: str = ""
    after_settled: int = 0
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As `levelgate approve --after` takes it."""
        return self.after_wave or str(self.after_settled)


@dataclass(frozen=True, slots=True)
class Rollback:
    """How a move back to a content that was there before goes; `shape` is the gate's own where None."""

    shape: Shape | None = None
    skip_bake: bool = True
    ignore_approvals: bool = True


@dataclass(frozen=True, slots=True)
class Availability:
    """Windows must be open for `at_least` in every `per`, in pieces of at least `contiguous`."""

    at_least: timedelta
    per: timedelta
    contiguous: timedelta = timedelta()
    on_violation: OnViolation = OnViolation.WARN


@dataclass(frozen=True, slots=True)
class WindowRules:
    """What holds for windows of a whole source; said by its default policy."""

    default_when_no_window: Openness = Openness.OPEN
    expired_allow: Openness = Openness.CLOSED
    availability: Availability | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy. `name` is empty for what holds where Git has none; that does not pace creation while nothing has completed."""

    name: str = ""
    origin: SourceLocation = field(default_factory=SourceLocation)
    selector: PolicySelector = field(default_factory=PolicySelector)
    governs: PolicyScope = PolicyScope.REVISIONS
    barrier: Barrier = Barrier.PATH
    shape: Shape = field(default_factory=Exponential)
    mode: Mode = Mode.BATCH
    bake: timedelta = timedelta()
    progress_deadline: timedelta = timedelta(minutes=10)
    max_failures: CountOrPercent = NO_ITEMS
    max_flaps: int = 3
    on_halt: OnHalt = OnHalt.STOP
    min_available: CountOrPercent = NO_ITEMS
    order: ItemOrder = ItemOrder.STABLE
    waves: tuple[Wave, ...] = ()
    approvals: tuple[ApprovalPoint, ...] = ()
    rollback: Rollback = field(default_factory=Rollback)
    new_instances: NewInstances = NewInstances.LAST_COMPLETED
    on_new_revision: OnNewRevision = OnNewRevision.SUPERSEDE
    pipeline_max: int = 2
    max_hold: timedelta = timedelta(hours=72)
    windows: WindowRules = field(default_factory=WindowRules)

    @property
    def is_explicit(self) -> bool:
        return bool(self.name)

    @property
    def all_waves(self) -> tuple[Wave, ...]:
        """The declared waves in order and the implicit last one; one wave where none is declared."""
        return (*self.waves, Wave(REST_WAVE)) if self.waves else (Wave(ALL_WAVE),)

    def rollout_of(self, definition: str) -> str:
        """The name of the rollout in which instances of this definition are under it."""
        return definition if self.selector.instances is None else f"{definition}.{self.name}"

    def bake_of(self, wave: Wave) -> timedelta:
        return self.bake if wave.bake is None else wave.bake

    def shape_of(self, wave: Wave) -> Shape:
        return self.shape if wave.shape is None else wave.shape

    def with_pace(self, shape: Shape) -> Policy:
        """The same with the pace that a definition's own `propagateWhen` sets. That counts as said by somebody."""
        waves = tuple(replace(wave, shape=None) for wave in self.waves)
        return replace(self, name=self.name or "propagateWhen", shape=shape, waves=waves)

    def without_pace(self) -> Policy:
        """The same where `propagateWhen` is empty: nothing waits for anything else. Where Git has no policy, no failure stops others either."""
        allowed = self.max_failures if self.is_explicit else ALL_ITEMS
        return replace(self.with_pace(Unpaced()), max_failures=allowed)

    def hold_end(self, since: datetime, until: datetime | None) -> datetime:
        """When a hold lapses: as the person said, and no later than `maxHold` after it began."""
        latest = since + self.max_hold
        return latest if until is None else min(latest, until)

    def wave_of(self, labels: Mapping[str, str]) -> str:
        """The wave of an instance with these labels."""
        if not self.waves:
            return ALL_WAVE
        matching = self._matching_waves(labels)
        return matching[0] if len(matching) == 1 else REST_WAVE

    def find_stragglers(self, instances: Mapping[str, Mapping[str, str]]) -> list[Problem]:
        """Warnings about instances (labels by key) that are in the implicit last wave, where there are declared ones."""
        if not self.waves:
            return []
        return [
            Problem(
                self.origin.file,
                self.origin.line,
                "spec.waves",
                f"{key} fits {' and '.join(matching) or 'no wave'}; it moves last, in wave {REST_WAVE}; "
                "every instance should fit exactly one wave",
            )
            for key, labels in sorted(instances.items())
            if len(matching := self._matching_waves(labels)) != 1
        ]

    def _matching_waves(self, labels: Mapping[str, str]) -> list[str]:
        return [wave.name for wave in self.waves if wave.selector.matches(labels)]


DEFAULT_POLICY: Final = Policy()
"""Where Git has no policy: exponential, factor 2, and nothing fails tolerably."""


def select_policy(policies: Iterable[Policy], definition: str, labels: Mapping[str, str]) -> Policy | Problem:
    """The policy of one instance: the most specific, `DEFAULT_POLICY` where none fits; the problem where two are equally specific."""
    matching = [policy for policy in policies if policy.selector.matches(definition, labels)]
    if not matching:
        return DEFAULT_POLICY
    rank = max(policy.selector.rank(definition) for policy in matching)
    best_matches = sorted(
        (candidate for candidate in matching if candidate.selector.rank(definition) == rank),
        key=lambda candidate: candidate.name,
    )
    if len(best_matches) == 1:
        return best_matches[0]
    rivals = " and ".join(f"{candidate.name} ({candidate.origin})" for candidate in best_matches[:-1])
    return Problem(
        best_matches[-1].origin.file,
        best_matches[-1].origin.line,
        "spec.selector",
        f"policy {best_matches[-1].name} selects {definition} exactly as specifically as {rivals}; "
        "name the definition in one of them, or make one select more narrowly",
    )
