"""A `PropagationPolicy` as a value, the default policy, and the choice between policies.

The most specific policy alone governs an instance; fields of other policies are not inherited. Every instance is in
exactly one wave: an instance that fits no declared wave, or several, is in the last one, `rest`.
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
    """Changes that a policy governs: new revisions of the definition, or changes of an instance's own spec as well."""

    REVISIONS = "Revisions"
    ALL = "All"


class Mode(StrEnum):
    """Room for the next items: once a whole batch has settled, or once any item has."""

    BATCH = "Batch"
    SLIDING = "Sliding"


class OnHalt(StrEnum):
    """Action after failures have halted a rollout."""

    STOP = "Stop"
    PROPOSE_REVERT = "ProposeRevert"
    ROLL_BACK = "RollBack"


class ItemOrder(StrEnum):
    """Order of items with equal priority: by key, or by a hash that differs for each revision."""

    STABLE = "Stable"
    SHUFFLE_PER_REVISION = "ShufflePerRevision"


class NewInstances(StrEnum):
    """Revision at which a new instance starts during a rollout."""

    LAST_COMPLETED = "LastCompleted"
    LATEST = "Latest"


class OnNewRevision(StrEnum):
    """Effect of a newer revision on a rollout in flight; see `gitops/rollouts/targets.py`."""

    SUPERSEDE = "Supersede"
    FINISH = "Finish"
    PIPELINE = "Pipeline"


class OnViolation(StrEnum):
    """Severity of a violated `availability`."""

    WARN = "Warn"
    REJECT = "Reject"


@dataclass(frozen=True, slots=True)
class PolicySelector:
    """Selection of instances by their definition and labels."""

    rgds: tuple[str, ...] = ()
    """Names of definitions, with `*`; empty for all."""
    instances: LabelSelector | None = None
    """Labels of instances; None for all."""

    def matches(self, definition: str, labels: Mapping[str, str]) -> bool:
        """Return whether an instance of this definition, with these labels, is selected."""
        return matches_any(self.rgds or None, definition) and (self.instances is None or self.instances.matches(labels))

    def rank(self, definition: str) -> tuple[int, bool]:
        """Return the specificity for this definition: a name before a pattern before none, then labels before none."""
        by_name = 2 if definition in self.rgds else 1 if self.rgds else 0
        return by_name, self.instances is not None


@dataclass(frozen=True, slots=True)
class Wave:
    """Instances that move together, before the next wave. A `shape` or `bake` of None means that of the policy."""

    name: str
    selector: LabelSelector = field(default_factory=LabelSelector)
    shape: Shape | None = None
    bake: timedelta | None = None
    windows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalPoint:
    """Point of a rollout that needs an approval: after a wave, or after a number of items; one of the two is set."""

    after_wave: str = ""
    after_settled: int = 0
    by: tuple[str, ...] = ()
    """Groups to contact, for display. RBAC on the record of the rollout decides who can approve."""

    def __str__(self) -> str:
        """Return the point as `levelgate approve --after` accepts it."""
        return self.after_wave or str(self.after_settled)


@dataclass(frozen=True, slots=True)
class Rollback:
    """Rules for a rollback, a rollout to content that an older revision had.

    A `shape` of None means that of the wave.
    """

    shape: Shape | None = None
    skip_bake: bool = True
    ignore_approvals: bool = True


@dataclass(frozen=True, slots=True)
class Availability:
    """Minimum of open time: `at_least` in every period of `per`, in intervals of at least `contiguous`."""

    at_least: timedelta
    per: timedelta
    contiguous: timedelta = timedelta()
    on_violation: OnViolation = OnViolation.WARN


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Rules for all windows of a source, set in its default policy."""

    default_when_no_window: Openness = Openness.OPEN
    expired_allow: Openness = Openness.CLOSED
    availability: Availability | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A `PropagationPolicy`, or the default policy."""

    name: str = ""
    """Name of the policy; empty for the default policy, which does not pace creation before the first completion."""
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
        """Return whether Git declares this policy or its pace."""
        return bool(self.name)

    @property
    def all_waves(self) -> tuple[Wave, ...]:
        """Return the declared waves in order, then the implicit `rest`; the single wave `all` if none is declared."""
        return (*self.waves, Wave(REST_WAVE)) if self.waves else (Wave(ALL_WAVE),)

    def rollout_of(self, definition: str) -> str:
        """Return the name of the rollout of this definition's instances under this policy."""
        return definition if self.selector.instances is None else f"{definition}.{self.name}"

    def bake_of(self, wave: Wave) -> timedelta:
        """Return the bake time of a wave."""
        return self.bake if wave.bake is None else wave.bake

    def shape_of(self, wave: Wave) -> Shape:
        """Return the shape of a wave."""
        return self.shape if wave.shape is None else wave.shape

    def with_pace(self, shape: Shape) -> Policy:
        """Return the policy with the shape that `propagateWhen` of a definition sets; the result is explicit."""
        waves = tuple(replace(wave, shape=None) for wave in self.waves)
        return replace(self, name=self.name or "propagateWhen", shape=shape, waves=waves)

    def without_pace(self) -> Policy:
        """Return the policy for an empty `propagateWhen`: all at once.

        Without a policy in Git, failures halt nothing.
        """
        allowed = self.max_failures if self.is_explicit else ALL_ITEMS
        return replace(self.with_pace(Unpaced()), max_failures=allowed)

    def hold_end(self, since: datetime, until: datetime | None) -> datetime:
        """Return the end of a hold: `until`, but at most `maxHold` after `since`."""
        latest = since + self.max_hold
        return latest if until is None else min(latest, until)

    def wave_of(self, labels: Mapping[str, str]) -> str:
        """Return the name of the wave of an instance with these labels."""
        if not self.waves:
            return ALL_WAVE
        matching = self._matching_waves(labels)
        return matching[0] if len(matching) == 1 else REST_WAVE

    def find_stragglers(self, instances: Mapping[str, Mapping[str, str]]) -> list[Problem]:
        """Return a warning for each instance (labels by key) that fits no declared wave, or several."""
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
"""Policy of instances that no policy in Git selects: exponential, factor 2, and the first failure halts."""


def select_policy(policies: Iterable[Policy], definition: str, labels: Mapping[str, str]) -> Policy | Problem:
    """Return the most specific policy for an instance, `DEFAULT_POLICY` if none selects it.

    Return a problem if two policies are equally specific.
    """
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
