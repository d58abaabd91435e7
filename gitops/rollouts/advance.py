"""Grants of a rollout: the items that may move to their target now.

The functions are pure: the time is a parameter. If nothing changes between two calls, the second call grants nothing
more. No call revokes a grant, so a gate that closes stops only items that have no grant yet.

Each call evaluates pace, waves, windows, approvals and availability. A halt lasts until the target changes or a person
resumes the rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from applier.causes import Cause, Reason
from gitops.rollouts.collection import Counters, RolloutCollection, RolloutItem, RolloutItems, SortKey
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import ApprovalPoint, Mode, NewInstances, OnHalt, Policy, PolicyScope, Wave
from gitops.rollouts.shapes import frontier
from gitops.rollouts.state import CONTROLLER, HALTED, DecisionRecord, Halt, Revert, RolloutState, TargetRevision
from gitops.rollouts.targets import shape_of
from renderer.frozen import dataclass
from renderer.phrasing import join_names

Pace = Callable[[RolloutItem, Counters], bool]
"""Function that returns whether an item may move, given the counters of its wave, which include earlier grants.

The first False ends the grants in the wave.
"""
ObstacleCheck = Callable[[str], Cause | None]
"""Function that returns the cause, other than pace, that keeps the item with the given key from moving, or None.

If the function returns a cause, the rollout skips the item, and the next item may move instead.
"""


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """Result of one decision about a rollout."""

    grants: Mapping[str, int]
    """Number of the target revision for each item that may move now, by key, in the order of the rollout."""
    starts: Mapping[str, int]
    """Number of the last completed revision for each new item that starts there without a grant, by key of the item."""
    state: RolloutState
    """State to store."""


@dataclass(frozen=True, slots=True)
class RolloutSnapshot:
    """Policy, items, state and closed waves of a rollout at one time."""

    policy: Policy
    collection: RolloutItems
    state: RolloutState
    closed: Mapping[str, Cause]
    """Cause for each wave whose own windows are closed, by name of the wave."""

    def target(self, wave: Wave) -> TargetRevision:
        """Return the revision that `wave` moves to."""
        return self.state.targets[wave.name]

    def counters(self, wave: Wave) -> Counters:
        """Return the counters of `wave`."""
        return self.collection.waves[wave.name].counters

    def limit(self, wave: Wave, counters: Counters) -> int:
        """Return how many items of `wave` may be in flight or settled."""
        return wave_limit(self.policy, wave, self.target(wave), counters)

    def limits(self, wave: Wave) -> tuple[int, int]:
        """Return the limit of `wave` now, and its limit once every item in flight has settled."""
        return wave_limits(self.policy, wave, self.target(wave), self.counters(wave))

    @property
    def lacks_availability(self) -> bool:
        """Return whether fewer items than `minAvailable` are healthy, so that only unhealthy items may move."""
        counters = self.collection.counters
        return counters.healthy < self.policy.min_available.round_up(counters.total)

    def obstacles(self, wave: Wave) -> Iterator[Cause]:
        """Yield the causes other than pace that stop all of `wave`, the most important for a person first."""
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
        """Return how many more items may move to `target` before an approval after a number of items is needed.

        If no such approval is missing, return None.
        """
        points = [
            point.after_settled for point in unapproved_points(self.policy, self.state, target) if point.after_settled
        ]
        return max(0, min(points) - self._count_moved(target)) if points else None

    def _earlier_waves(self, wave: Wave) -> tuple[Wave, ...]:
        waves = self.policy.all_waves
        return waves[: waves.index(wave)]

    def _count_moved(self, target: TargetRevision) -> int:
        """Return how many items in the waves with this target run the target or have a grant for it."""
        wave_counters = (self.counters(wave) for wave in self.policy.all_waves if self.target(wave) == target)
        return sum(counters.updated + counters.paused for counters in wave_counters)


def wave_limit(policy: Policy, wave: Wave, target: TargetRevision, counters: Counters) -> int:
    """Return how many items of a wave with these counters may be in flight or settled.

    A failed item counts as settled, so that it does not block the wave. Failures above the limit of the policy halt the
    rollout.
    """
    shape, done = shape_of(policy, wave, target), counters.settled + counters.failed
    return frontier(shape, done, counters.total, sliding=policy.mode is Mode.SLIDING)


def wave_limits(policy: Policy, wave: Wave, target: TargetRevision, counters: Counters) -> tuple[int, int]:
    """Return the limit of a wave with these counters, and its limit once every item in flight has settled."""
    once_settled = counters._replace(settled=counters.updated - counters.failed)
    return wave_limit(policy, wave, target, counters), wave_limit(policy, wave, target, once_settled)


def unapproved_points(policy: Policy, state: RolloutState, target: TargetRevision) -> Sequence[ApprovalPoint]:
    """Return the approval points of `policy` at which `target` lacks an approval.

    In a rollback under a policy with `ignoreApprovals`, return no approval point.
    """
    if target.is_rollback and policy.rollback.ignore_approvals:
        return ()
    return [point for point in policy.approvals if not state.is_approved(target, str(point))]


def is_complete(counters: Counters) -> bool:
    """Return whether the next wave no longer waits for the wave with these counters.

    The next wave waits neither for held items nor for failed items. Failures above the limit of the policy halt the
    rollout.
    """
    return counters.settled + counters.failed + counters.held == counters.total


def decide_grants(
    policy: Policy,
    collection: RolloutItems,
    state: RolloutState,
    *,
    now: datetime,
    closed: Mapping[str, Cause] | None = None,
    pace: Pace | None = None,
    find_obstacle: ObstacleCheck = lambda _: None,
) -> RolloutStep:
    """Decide which items may move now.

    Before the call, the caller compares the items of `collection` with the targets of `state`, at `now`. After the
    call, the caller counts the grants at once with `reserve`, and stores each grant on its instance before the instance
    moves.

    Args:
        now: time of the decision in UTC, for its records.
        closed: cause for each wave whose own windows are closed, by name of the wave.
        pace: pace that replaces the shapes of the policy.
        find_obstacle: check for a cause, other than pace, that keeps an item from moving.
    """
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
    return RolloutStep(grants, starts, new_state.with_decision(*entries))


def next_decision(
    collection: RolloutCollection, before: RolloutState, step: RolloutStep, closed: Mapping[str, Cause]
) -> datetime | None:
    """Return the time in UTC of the decision after `step` if nothing happens, or None if time alone changes nothing.

    Args:
        before: state from which `step` was decided.
        closed: cause for each wave whose own windows are closed, by name of the wave.
    """
    if _may_change_targets(before, step.state):
        return collection.now
    moments = [collection.next_change, *(wait.until for wait in closed.values())]
    return min((moment for moment in moments if moment is not None), default=None)


def _may_change_targets(old_state: RolloutState, new_state: RolloutState) -> bool:
    """Return whether `new_state` differs from `old_state` in a field from which `assign_targets` chooses targets."""
    return (old_state.halts, old_state.passed, old_state.completed) != (
        new_state.halts,
        new_state.passed,
        new_state.completed,
    )


def reserve(collection: RolloutCollection, step: RolloutStep, *, now: datetime) -> None:
    """Count the grants of `step` in `collection`, before the caller writes them.

    Items in `step.starts` stop being new, so that the next decision does not start them again.
    """
    for key in step.grants:
        collection.set_item(replace(collection[key], granted=True, progress=ItemProgress.start(now)))
    for key in step.starts:
        collection.set_item(replace(collection[key], is_new=False, healthy=False))


def counters_after(collection: RolloutItems, step: RolloutStep) -> Mapping[str, Counters]:
    """Return the counters by name of the wave after `reserve` has counted `step`."""
    counters = dict(collection.wave_counters)
    for key in {**step.grants, **step.starts}:
        # An item that may move is neither settled nor failed, and other items wait for it.
        before = collection.counters_of(key)
        after = before._replace(updated=1) if key in step.grants else before._replace(healthy=0)
        wave = collection.wave_of(key)
        counters[wave] = counters[wave].subtract_counters(before).add_counters(after)
    return counters


def _movable_keys(
    snapshot: RolloutSnapshot, wave: Wave, joining_keys: Sequence[str], pace: Pace, find_obstacle: ObstacleCheck
) -> Iterator[str]:
    """Yield the keys of the items of `wave` that may move, in order.

    The items in `joining_keys` count as granted already.
    """
    items = snapshot.collection.waves[wave.name]
    obstacles = list(snapshot.obstacles(wave))
    taken_keys = set(joining_keys)
    # With `governs: All`, changes of an instance's own spec wait too. The change may be the repair of an unhealthy
    # instance, so pace and the order of the waves do not apply to such an instance.
    if snapshot.policy.governs is PolicyScope.ALL and all(
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
    """Return the pace that the shape of `wave` sets."""
    return lambda _, counters: counters.updated < snapshot.limit(wave, counters)


def _newcomers(
    snapshot: RolloutSnapshot, wave: Wave, find_obstacle: ObstacleCheck, *, is_paced: bool
) -> tuple[list[str], list[str]]:
    """Return the keys of new items of `wave` that start at the target, and the keys of all other new items.

    The other new items start at the completed revision, except items with a grant for the target. The creation of an
    instance changes no running instance, so creation is not paced. Before the first revision has completed, a new item
    can start only at the target.

    Args:
        is_paced: whether creation is paced until the first revision has completed. An explicit policy paces creation,
            and the default policy does not.
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


def _conclude(policy: Policy, collection: RolloutItems, state: RolloutState, now: datetime) -> RolloutState:
    """Return `state` with the halts, passed waves and completion that follow from the counters of `collection`.

    A failure after the rollout has completed does not halt the rollout.
    """
    is_over = state.is_completed
    for wave in policy.all_waves:
        counters, target = collection.waves[wave.name].counters, state.targets[wave.name]
        allowed = max(policy.max_failures.round_down(counters.total), state.forgiven.get(wave.name, 0))
        if counters.failed > allowed and not is_over and not state.halt_of(target):
            why = (
                f"{counters.failed} of {counters.total} items failed in wave {wave.name}, "
                f"more than the limit of {allowed}"
            )
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
