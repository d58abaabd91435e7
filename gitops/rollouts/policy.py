"""A `PropagationPolicy` as a value, the default policy, and the choice between policies.

The most specific policy alone governs an instance. A policy inherits no field of a less specific policy. Every instance
is in exactly one wave. If an instance fits no declared wave, or more than one, the instance is in the last wave,
`rest`.
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
"""The wave of instances that fit no declared wave, or more than one declared wave."""

ALL_WAVE: Final = "all"
"""The only wave of a policy that declares no waves."""


class PolicyScope(StrEnum):
    """Changes that a policy governs: only new revisions of the definition, or also changes of an instance's spec."""

    REVISIONS = "Revisions"
    ALL = "All"


class Mode(StrEnum):
    """Time at which further items may move: after a whole batch has settled, or after any item has settled."""

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
    """Names of definitions, which may contain `*`. If `rgds` is empty, the selector selects all definitions."""
    instances: LabelSelector | None = None
    """Labels of instances. If `instances` is None, the selector selects all instances."""

    def matches(self, definition: str, labels: Mapping[str, str]) -> bool:
        """Return whether the selector selects an instance of `definition` with `labels`."""
        return matches_any(self.rgds or None, definition) and (self.instances is None or self.instances.matches(labels))

    def rank(self, definition: str) -> tuple[int, bool]:
        """Return the specificity of the selector for `definition`. A higher rank is more specific.

        The exact name of the definition ranks above a pattern, and a pattern ranks above an empty `rgds`. If two
        selectors are equal by this rule, a selector with `instances` ranks above a selector without `instances`.
        """
        by_name = 2 if definition in self.rgds else 1 if self.rgds else 0
        return by_name, self.instances is not None


@dataclass(frozen=True, slots=True)
class Wave:
    """Instances of a rollout that move before the instances of the next wave."""

    name: str
    selector: LabelSelector = field(default_factory=LabelSelector)
    shape: Shape | None = None
    """Shape of the wave. None means that the shape of the policy applies."""
    bake: timedelta | None = None
    """Bake time of the wave. None means that the bake time of the policy applies."""
    windows: tuple[str, ...] = ()
    """Names of windows that must be open before an instance of the wave moves."""


@dataclass(frozen=True, slots=True)
class ApprovalPoint:
    """Point at which a rollout continues only after an approval. Either `after_wave` or `after_settled` is set."""

    after_wave: str = ""
    """Name of the wave that completes before the approval, or an empty string."""
    after_settled: int = 0
    """Number of items that may move before the approval, or 0."""
    by: tuple[str, ...] = ()
    """Groups to contact, for display. RBAC on the record of the rollout decides which people can approve."""

    def __str__(self) -> str:
        """Return the point as `levelgate approve --after` accepts it."""
        return self.after_wave or str(self.after_settled)


@dataclass(frozen=True, slots=True)
class Rollback:
    """Rules for a rollback: a rollout to the content of an older revision."""

    shape: Shape | None = None
    """Shape of every wave in a rollback. None means that each wave keeps its own shape."""
    skip_bake: bool = True
    """True if a rollback skips the bake time."""
    ignore_approvals: bool = True
    """True if a rollback needs no approvals."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Required open time in every period of the length `per`.

    The open intervals of at least the length `contiguous` must add up to `at_least`.
    """

    at_least: timedelta
    per: timedelta
    contiguous: timedelta = timedelta()
    on_violation: OnViolation = OnViolation.WARN


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Rules for all windows of a source, set in its default policy."""

    default_when_no_window: Openness = Openness.OPEN
    """Answer for a target that no Allow governs."""
    expired_allow: Openness = Openness.CLOSED
    """Effect of an Allow that has ended."""
    availability: Availability | None = None
    """Required open time, or None if the policy requires none."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A `PropagationPolicy`, or the default policy."""

    name: str = ""
    """Name of the policy, or an empty string for `DEFAULT_POLICY`.

    `DEFAULT_POLICY` does not pace the creation of instances before the first revision has completed.
    """
    origin: SourceLocation = field(default_factory=SourceLocation)
    selector: PolicySelector = field(default_factory=PolicySelector)
    governs: PolicyScope = PolicyScope.REVISIONS
    barrier: Barrier = Barrier.PATH
    shape: Shape = field(default_factory=Exponential)
    mode: Mode = Mode.BATCH
    bake: timedelta = timedelta()
    progress_deadline: timedelta = timedelta(minutes=10)
    """Time on the clock of an item after which the item fails."""
    max_failures: CountOrPercent = NO_ITEMS
    """Number of failed items that a wave tolerates. A further failure halts the rollout."""
    max_flaps: int = 3
    """Number of times that an item may lose its health during the bake time. After a further loss, the item fails."""
    on_halt: OnHalt = OnHalt.STOP
    min_available: CountOrPercent = NO_ITEMS
    """Number of healthy items that must remain. Below this number, only unhealthy items may move."""
    order: ItemOrder = ItemOrder.STABLE
    waves: tuple[Wave, ...] = ()
    approvals: tuple[ApprovalPoint, ...] = ()
    rollback: Rollback = field(default_factory=Rollback)
    new_instances: NewInstances = NewInstances.LAST_COMPLETED
    on_new_revision: OnNewRevision = OnNewRevision.SUPERSEDE
    pipeline_max: int = 2
    """Maximum number of revisions in flight under `onNewRevision: Pipeline`."""
    max_hold: timedelta = timedelta(hours=72)
    """Longest time for which a hold applies."""
    windows: WindowRules = field(default_factory=WindowRules)

    @property
    def is_explicit(self) -> bool:
        """Return whether Git declares this policy, or the pace of this policy (`propagateWhen`)."""
        return bool(self.name)

    @property
    def all_waves(self) -> tuple[Wave, ...]:
        """Return the declared waves in order and then the wave `rest`, or only `all` if no wave is declared."""
        return (*self.waves, Wave(REST_WAVE)) if self.waves else (Wave(ALL_WAVE),)

    def rollout_of(self, definition: str) -> str:
        """Return the name of the rollout of the instances of `definition` under this policy."""
        return definition if self.selector.instances is None else f"{definition}.{self.name}"

    def bake_of(self, wave: Wave) -> timedelta:
        """Return the bake time of `wave`, or the bake time of the policy if the wave has no bake time."""
        return self.bake if wave.bake is None else wave.bake

    def shape_of(self, wave: Wave) -> Shape:
        """Return the shape of `wave`, or the shape of the policy if the wave has no shape."""
        return self.shape if wave.shape is None else wave.shape

    def with_pace(self, shape: Shape) -> Policy:
        """Return the policy with `shape`, which `propagateWhen` of a definition sets, for all waves.

        The returned policy is explicit.
        """
        waves = tuple(replace(wave, shape=None) for wave in self.waves)
        return replace(self, name=self.name or "propagateWhen", shape=shape, waves=waves)

    def without_pace(self) -> Policy:
        """Return the policy for an empty `propagateWhen`: all items move at once.

        If no policy in Git selects the instances, failures do not halt the rollout.
        """
        allowed = self.max_failures if self.is_explicit else ALL_ITEMS
        return replace(self.with_pace(Unpaced()), max_failures=allowed)

    def hold_end(self, since: datetime, until: datetime | None) -> datetime:
        """Return the end of a hold in UTC: `until`, but at most `maxHold` after `since`."""
        latest = since + self.max_hold
        return latest if until is None else min(latest, until)

    def wave_of(self, labels: Mapping[str, str]) -> str:
        """Return the name of the wave of an instance with `labels`."""
        if not self.waves:
            return ALL_WAVE
        matching = self._matching_waves(labels)
        return matching[0] if len(matching) == 1 else REST_WAVE

    def find_stragglers(self, instances: Mapping[str, Mapping[str, str]]) -> list[Problem]:
        """Return a warning for each instance that fits no declared wave, or more than one declared wave.

        Args:
            instances: labels by key of the instance.
        """
        if not self.waves:
            return []
        return [
            Problem(
                self.origin.file,
                self.origin.line,
                "spec.waves",
                f"{key} fits {' and '.join(matching) or 'no wave'}; it moves last, in wave {REST_WAVE}; "
                "correct its labels, or the selectors of the waves",
            )
            for key, labels in sorted(instances.items())
            if len(matching := self._matching_waves(labels)) != 1
        ]

    def _matching_waves(self, labels: Mapping[str, str]) -> list[str]:
        return [wave.name for wave in self.waves if wave.selector.matches(labels)]


DEFAULT_POLICY: Final = Policy()
"""Policy of instances that no policy in Git selects: exponential with factor 2, halted by the first failure."""


def select_policy(policies: Iterable[Policy], definition: str, labels: Mapping[str, str]) -> Policy | Problem:
    """Return the most specific policy for an instance of `definition` with `labels`.

    If no policy selects the instance, return `DEFAULT_POLICY`. If two policies are equally specific, return a problem.
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
        "name the definition in one policy, or narrow the selector of one policy",
    )
