"""Which items of a rollout may move now.

A function of values and of the time that is passed in: asked twice with nothing new in between it grants nothing new. A grant is never taken back:
closing a gate stops what has not started.

Levels and latches: pace, waves, windows, approvals and availability are asked each time. A halt stays until the target changes or a person resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from applier.causes import Cause, Reason
from gitops.rollouts.collection import Counters, RolloutCollection, RolloutItem, SortKey
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import ApprovalPoint, Mode, NewInstances, OnHalt, Policy, PolicyScope, Wave
from gitops.rollouts.shapes import frontier
from gitops.rollouts.state import CONTROLLER, HALTED, DecisionRecord, Halt, Revert, RolloutState, TargetRevision
from gitops.rollouts.targets import shape_of
from renderer.frozen import dataclass
from renderer.phrasing import join_names

Pace = Callable[[RolloutItem, Counters], bool]
"""May this item move, given the counters of its wave, which already hold what was granted before it? Asked in order, until the first no."""
ObstacleCheck = Callable[[str], Cause | None]
"""What keeps this item where it is besides its pace. Asked in order of those whose turn it is: one that is kept makes room for the next."""


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """`grants`: revision by key of what may move now, in order. `starts`: new items that begin at an older, completed revision and wait there.

    `state` is to be stored. `wake_at`: when to ask again although nothing happened; None: time alone changes nothing.
    """

    grants: Mapping[str, int]
    starts: Mapping[str, int]
    state: RolloutState
    wake_at: datetime | None


@dataclass(frozen=True, slots=True)
class RolloutSnapshot:
    """A rollout at one moment. `closed`: waves whose own windows are closed, and why."""

    policy: Policy
    collection: RolloutCollection
    state: RolloutState
    closed: Mapping[str, Cause]

    def target(self, wave: Wave) -> TargetRevision:
        return self.state.targets[wave.name]

    def counters(self, wave: Wave) -> Counters:
        return self.collection.waves[wave.name].counters

    def limit(self, wave: Wave, counters: Counters) -> int:
        """F: how many of the wave may be under way or done. Failures that are tolerated are done; more than that halts."""
        shape = shape_of(self.policy, wave, self.target(wave))
        done = counters.settled + counters.failed
        return frontier(shape, done, counters.total, sliding=self.policy.mode is Mode.SLIDING)

    def limits(self, wave: Wave) -> tuple[int, int]:
        """How many of the wave may be under way or done now, and once all that moved have settled."""
        counters = self.counters(wave)
        once_settled = counters._replace(settled=counters.updated - counters.failed)
        return self.limit(wave, counters), self.limit(wave, once_settled)

    @property
    def lacks_availability(self) -> bool:
        """Are fewer items healthy, at whatever revision, than the policy wants? Then only those may move that are not healthy anyway."""
        counters = self.collection.counters
        return counters.healthy < self.policy.min_available.round_up(counters.total)

    def obstacles(self, wave: Wave) -> Iterator[Cause]:
        """Why nothing of this wave may start, whatever its pace; the one that a person should hear of first."""
        target, earlier = self.target(wave), self._earlier_waves(wave)
        if halt := self.state.halt_of(target):
            yield Cause(Reason.HALTED, str(replace(halt, target=target.revision)))
        incomplete = [
            earlier_wave
            for earlier_wave in earlier
            if self.target(earlier_wave) == target and not is_complete(self.counters(earlier_wave))
        ]
        if incomplete:
            yield Cause(Reason.WAVE_NOT_REACHED, f"wave {wave.name} waits for wave {incomplete[0].name}")
        earlier_names, moved_count = {earlier_wave.name for earlier_wave in earlier}, self._count_moved(target)
        for point in unapproved_points(self.policy, self.state, target):
            if point.after_wave in earlier_names or 0 < point.after_settled <= moved_count:
                approvers = f" by {' or '.join(point.by)}" if point.by else ""
                details = {"approval": {"after": str(point), "by": list(point.by)}}
                yield Cause(
                    Reason.APPROVAL_REQUIRED, f"{target} needs approval after {point}{approvers}", details=details
                )
        if wave.name in self.closed:
            yield self.closed[wave.name]

    def moves_before_approval(self, target: TargetRevision) -> int | None:
        """How many more may move before the next approval by count; None: any number."""
        points = [
            point.after_settled for point in unapproved_points(self.policy, self.state, target) if point.after_settled
        ]
        return max(0, min(points) - self._count_moved(target)) if points else None

    def _earlier_waves(self, wave: Wave) -> tuple[Wave, ...]:
        waves = self.policy.all_waves
        return waves[: waves.index(wave)]

    def _count_moved(self, target: TargetRevision) -> int:
        """Items of all waves with this target that are at it or were let move there."""
        wave_counters = (self.counters(wave) for wave in self.policy.all_waves if self.target(wave) == target)
        return sum(counters.updated + counters.paused for counters in wave_counters)


def unapproved_points(policy: Policy, state: RolloutState, target: TargetRevision) -> Sequence[ApprovalPoint]:
    """Where somebody has to agree, and has not yet; nowhere in a rollback that needs none."""
    if target.is_rollback and policy.rollback.ignore_approvals:
        return ()
    return [point for point in policy.approvals if not state.is_approved(target, str(point))]


def is_complete(counters: Counters) -> bool:
    """Nothing of the wave is left to wait for: what is held is passed, what failed is tolerated (or halts)."""
    return counters.settled + counters.failed + counters.held == counters.total


def decide_grants(
    policy: Policy,
    collection: RolloutCollection,
    state: RolloutState,
    *,
    now: datetime,
    closed: Mapping[str, Cause] | None = None,
    pace: Pace | None = None,
    find_obstacle: ObstacleCheck = lambda _: None,
) -> RolloutStep:
    """Which items may move now. `closed`: waves whose own windows are closed, and why. `pace` takes the place of the policy's shapes.

    The collection must hold the items as they stand to the targets of `state`. The caller stores each grant on its item before it acts on it, and
    counts it at once (`reserve`).
    """
    collection.advance_to(now)
    new_state = _conclude(policy, collection, state, now)
    snapshot = RolloutSnapshot(policy, collection, new_state, closed or {})
    grants: dict[str, int] = {}
    starts: dict[str, int] = {}
    entries: list[DecisionRecord] = []
    for wave in policy.all_waves:
        target = snapshot.target(wave)
        joining_keys, waiting_keys = _newcomers(
            snapshot, wave, find_obstacle, is_paced=policy.is_explicit or pace is not None
        )
        granted_keys = (
            *joining_keys,
            *_movable_keys(snapshot, wave, joining_keys, pace or _shape_pace(snapshot, wave), find_obstacle),
        )
        if granted_keys:
            entries.append(DecisionRecord(now, "granted", f"{target}, wave {wave.name}: {join_names(granted_keys)}"))
        grants |= dict.fromkeys(granted_keys, target.revision)
        if new_state.completed:
            starts |= {key: new_state.completed.revision for key in waiting_keys if key not in grants}
    wake_at = collection.now if _may_change_targets(state, new_state) else _next_change(snapshot)
    return RolloutStep(grants, starts, new_state.with_decision(*entries), wake_at)


def _may_change_targets(old_state: RolloutState, new_state: RolloutState) -> bool:
    """May there be another target now?"""
    return (old_state.halts, old_state.passed, old_state.completed) != (
        new_state.halts,
        new_state.passed,
        new_state.completed,
    )


def _next_change(snapshot: RolloutSnapshot) -> datetime | None:
    moments = [snapshot.collection.next_change, *(wait.until for wait in snapshot.closed.values())]
    return min((moment for moment in moments if moment is not None), default=None)


def reserve(collection: RolloutCollection, step: RolloutStep, *, now: datetime) -> None:
    """Count what was granted, before anything of it has been written; new items that start elsewhere are new no more."""
    for key in step.grants:
        collection.set_item(replace(collection[key], granted=True, progress=ItemProgress.start(now)))
    for key in step.starts:
        collection.set_item(replace(collection[key], is_new=False, healthy=False))


def _movable_keys(
    snapshot: RolloutSnapshot, wave: Wave, joining_keys: Sequence[str], pace: Pace, find_obstacle: ObstacleCheck
) -> Iterator[str]:
    """Items of one wave that may move, in order, once those that `joining_keys` are counted."""
    items = snapshot.collection.waves[wave.name]
    obstacles = list(snapshot.obstacles(wave))
    taken_keys = set(joining_keys)
    if snapshot.policy.governs is PolicyScope.ALL_WAVE and all(
        obstacle.reason is Reason.WAVE_NOT_REACHED for obstacle in obstacles
    ):
        for key in _untaken_keys(items.repairs, taken_keys):
            if not snapshot.collection[key].is_new and not find_obstacle(key):
                taken_keys.add(key)
                yield key
    if obstacles:
        return
    remaining = snapshot.moves_before_approval(snapshot.target(wave))
    for key in _untaken_keys(items.repairs if snapshot.lacks_availability else items.eligible, taken_keys):
        if find_obstacle(key):
            continue
        counters = items.counters._replace(updated=items.counters.updated + len(taken_keys))
        if (remaining is not None and len(taken_keys) >= remaining) or not pace(snapshot.collection[key], counters):
            return
        taken_keys.add(key)
        yield key


def _untaken_keys(sort_keys: Iterable[SortKey], taken_keys: Container[str]) -> Iterator[str]:
    return (sort_key[-1] for sort_key in sort_keys if sort_key[-1] not in taken_keys)


def _shape_pace(snapshot: RolloutSnapshot, wave: Wave) -> Pace:
    return lambda _, counters: counters.updated < snapshot.limit(wave, counters)


def _newcomers(
    snapshot: RolloutSnapshot, wave: Wave, find_obstacle: ObstacleCheck, *, is_paced: bool
) -> tuple[list[str], list[str]]:
    """New items that join the target at once, and those that start at the last completed revision unless they may move.

    An item that runs nothing is no change of a definition, so it is not paced. Where nothing has completed there is nothing else to start at: then a
    policy of Git paces creation as well, and the default does not.
    """
    target, completed = snapshot.target(wave), snapshot.state.completed
    if completed is None and is_paced:
        return [], []
    new_keys = [sort_key[-1] for sort_key in snapshot.collection.waves[wave.name].newcomers]
    if completed == target:
        return new_keys, []
    if completed and snapshot.policy.new_instances is NewInstances.LAST_COMPLETED:
        return [], new_keys
    if snapshot.state.halt_of(target):
        return [], new_keys
    return [
        key for key in new_keys if snapshot.collection.state_of(key).is_eligible and not find_obstacle(key)
    ], new_keys


def _conclude(policy: Policy, collection: RolloutCollection, state: RolloutState, now: datetime) -> RolloutState:
    """With the halts, passed waves and completion that the counters show. What fails after all was completed is no matter of the rollout."""
    is_over = state.is_completed
    for wave in policy.all_waves:
        counters, target = collection.waves[wave.name].counters, state.targets[wave.name]
        allowed = max(policy.max_failures.round_down(counters.total), state.forgiven.get(wave.name, 0))
        if counters.failed > allowed and not is_over and not state.halt_of(target):
            why = f"{counters.failed} of {counters.total} failed in wave {wave.name}, {allowed} may"
            revert = Revert() if policy.on_halt is OnHalt.PROPOSE_REVERT else None
            halt = Halt(target.revision, now, CONTROLLER, why, revert)
            state = replace(state, halts=(*state.halts, halt)).with_decision(
                DecisionRecord(now, HALTED, str(target), why=why)
            )
        if is_complete(counters) and not state.halt_of(target) and state.passed.get(wave.name) != target:
            state = replace(state, passed={**state.passed, wave.name: target})
    total, targets = collection.counters, set(state.targets.values())
    if len(targets) == 1 and total.settled == total.total > 0 and (target := targets.pop()) != state.completed:
        state = replace(state, completed=target).with_decision(DecisionRecord(now, "completed", str(target)))
    return state
