"""Steps of a plan: its changes, grouped by the earliest start that each change has if the commit is merged now.

A change starts at once, at the end of its obstacles, or at an unknown time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from math import inf
from typing import NamedTuple

from applier.causes import Reason
from gitops.decisions.explanation import DecidedRollout
from gitops.plan.report import InterimChange, Obstacle, PlannedAction, PlannedChange, PlanStep
from gitops.plan.window_capacity import WindowCapacities
from gitops.reconcile.preview import Preview
from gitops.rollouts.advance import RolloutSnapshot, unapproved_points
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import RolloutState
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import join_names

_REMOVAL_WORDS = {PlannedAction.DELETE: "deleted", PlannedAction.RELEASE: "released"}


class _WaveTurn(NamedTuple):
    """Turn of an instance that moves to another revision."""

    rollout: str
    policy: Policy
    wave: int
    """Index of the instance's wave in the policy."""

    @property
    def name(self) -> str:
        """Return text such as `wave prod`, or an empty string for a rollout without waves."""
        return f"wave {self.wave_name}" if self.policy.waves else ""

    @property
    def wave_name(self) -> str:
        return self.policy.all_waves[self.wave].name


class _WaveDelay(NamedTuple):
    """Delay of a wave, and of all later waves, by the obstacles of its changes."""

    ends_at: datetime | None
    """Earliest time in UTC at which the delayed instances can have settled, or None if the wave has no obstacle."""

    beyond_forecast: timedelta
    """Time by which the wave starts later than the forecast of turns says, or zero if the time is unknown."""


class _StartGroup(NamedTuple):
    """Key of changes that start together."""

    rank: int
    """Class of the start: 0, 1 or 2.

    The rank is 0 for a change that starts at once. The rank is 1 for a change that waits only for earlier deletions, or
    for a turn behind waves whose obstacles have known ends. The rank is 2 for any other change.
    """

    at: datetime | None
    """Earliest start in UTC, or None if the changes start at once or the start is unknown."""

    wave: int
    """Index of the wave in the policy, or 0 for a change without a turn."""

    prerequisite: str
    """Condition for the start, as in `PlanStep.prerequisite`, or an empty string."""

    summary: str
    """Title of the step, as in `PlanStep.summary`, or an empty string."""


def schedule_steps(preview: Preview, changes: Sequence[PlannedChange]) -> Iterator[PlanStep]:
    """Yield the steps in the order in which they can start.

    The final change of an object is in at most one step: the step of the obstacle that decides the start. Interim
    changes may be in further steps. Three kinds of final changes are in no step, because other steps stand for them:
    changes of an instance that waits for its turn, changes that wait only for planned changes, and later items of a
    collection.
    """
    changes_by_start: dict[_StartGroup, list[PlannedChange]] = {}
    capacities = WindowCapacities(preview)
    starts = _StartTimes(preview, capacities, changes)
    deleted_keys = {change.key for change in changes if change.action is PlannedAction.DELETE}
    starting = [change for change in changes if not _own_obstacles(change) and not _is_later_item(change)]
    free_instances = {change.instance for change in starting if change.node}
    turn_instances = {change.instance for change in starting if change.obstacles}
    for change in changes:
        instance = change.instance
        own_obstacles = _own_obstacles(change)
        for interim_change in change.interim:
            if interim_change.action.is_change:
                changes_by_start.setdefault(_interim_start(interim_change), []).append(change)
        if not change.action.is_change or (not change.obstacles and instance in turn_instances):
            continue  # not a final change, or part of a move whose step lists the instance
        if own_obstacles and all(
            obstacle.reason is Reason.DEPENDENCY_NOT_READY and not obstacle.is_unplanned for obstacle in own_obstacles
        ):
            continue  # waits only for planned changes, whose steps stand for this change
        if instance in free_instances and _is_later_item(change):
            continue  # waits only for earlier items; the step of another node lists the instance
        start = starts.start_of(
            change, is_deleted=instance in deleted_keys, has_free_siblings=instance in free_instances
        )
        changes_by_start.setdefault(start, []).append(change)
    now = preview.due.now
    for start in sorted(changes_by_start, key=_sort_key):
        yield _make_step(start, changes_by_start[start], capacities, now)


def _make_step(
    start: _StartGroup, changes: Sequence[PlannedChange], capacities: WindowCapacities, now: datetime
) -> PlanStep:
    """Return the step of changes that start together. If the start is unknown, the step has no window capacity."""
    begins_at = start.at or (None if start.rank else now)
    names = dict.fromkeys(change.instance.qualified_name if change.instance else change.ref for change in changes)
    return PlanStep(
        start.summary,
        tuple(names),
        start.at,
        start.prerequisite,
        capacities.capacity_for(changes, begins_at) if begins_at else None,
        capacities.halfway_end(changes, begins_at) if begins_at else None,
    )


def _interim_start(interim_change: InterimChange) -> _StartGroup:
    """Return the start of an interim change, which happens at the present revision of the instance."""
    obstacle = max(
        interim_change.obstacles,
        key=lambda candidate: candidate.until.timestamp() if candidate.until else 0.0,
        default=None,
    )
    summary = interim_change.description.replace("it moves", "they move")
    if obstacle is None:
        return _StartGroup(0, None, 0, "", _join_title(summary))
    return _StartGroup(
        2,
        obstacle.until,
        0,
        "" if obstacle.until else _describe_obstacle(obstacle),
        _join_title(summary, _name_obstacle(obstacle)),
    )


def _sort_key(start: _StartGroup) -> tuple[float, int, int, int, str, str]:
    """Return the key that orders starts by time, then by wave. A blocked change whose start is unknown comes last."""
    unknown = 0.0 if start.rank < 2 else inf
    begins_at, rank = (start.at.timestamp(), 0) if start.at else (unknown, start.rank)
    return begins_at, rank, start.wave, start.rank, start.prerequisite, start.summary


def _own_obstacles(change: PlannedChange) -> list[Obstacle]:
    """Return the obstacles of a change, without the turn of its instance."""
    return [obstacle for obstacle in change.obstacles if not obstacle.is_turn]


def _is_later_item(change: PlannedChange) -> bool:
    """Return whether a change waits only for earlier items of its collection."""
    return bool(change.obstacles) and all(obstacle.is_of_items for obstacle in change.obstacles)


@dataclass
class _StartTimes:
    """Start times of the changes of one plan."""

    preview: Preview
    capacities: WindowCapacities
    changes: Sequence[PlannedChange]

    @cached_property
    def _turns(self) -> Mapping[ObjectKey, _WaveTurn | None]:
        instances = dict.fromkeys(change.instance for change in self.changes if change.instance)
        return {instance: _wave_turn(self.preview, self.capacities, instance) for instance in instances}

    @cached_property
    def _earlier_deletions(self) -> Mapping[ObjectKey | None, tuple[str, ...]]:
        return _earlier_deletions(self.changes)

    @cached_property
    def _obstacle_ends(self) -> Mapping[_WaveTurn, list[datetime | None]]:
        """Return the ends of the obstacles that delay each wave, by wave. An unknown end is None.

        Holds and suspensions do not count, because a held or suspended instance does not delay its wave. Obstacles of
        removals do not count, because an instance settles without its removals.
        """
        ends: dict[_WaveTurn, list[datetime | None]] = {}
        for change in self.changes:
            if change.instance and (turn := self._turns[change.instance]):
                ends.setdefault(turn, []).extend(
                    obstacle.until
                    for obstacle in _own_obstacles(change)
                    if obstacle.reason not in {Reason.HELD, Reason.SUSPENDED} and change.action not in _REMOVAL_WORDS
                )
        return ends

    def start_of(self, change: PlannedChange, *, is_deleted: bool, has_free_siblings: bool) -> _StartGroup:
        """Return the start of a change.

        Args:
            is_deleted: True if the instance of `change` is deleted.
            has_free_siblings: True if further nodes of the instance start at once, or with the turn of the instance.
                Then the title of a step for a node with an obstacle of its own names the node.
        """
        turn = self._turns.get(change.instance) if change.instance else None
        wave, name = (turn.wave, turn.name) if turn else (0, "")
        removal = _REMOVAL_WORDS.get(change.action, "") if not change.instance else "deleted" if is_deleted else ""
        if not change.obstacles:
            earlier = self._earlier_deletions.get(change.instance or change.key, ()) if removal else ()
            prerequisite = f"after {join_names(earlier)}" if earlier else ""
            return _StartGroup(1 if earlier else 0, None, wave, prerequisite, _join_title(removal or name))
        if own_obstacles := _own_obstacles(change):
            obstacle = max(own_obstacles, key=lambda candidate: candidate.until.timestamp() if candidate.until else 0.0)
            node = f"node {change.node}" if change.node and has_free_siblings and not is_deleted else ""
            prerequisite = "; ".join(
                filter(
                    None,
                    (
                        "" if obstacle.until else _describe_obstacle(obstacle),
                        _format_prerequisites(self._prerequisites(change, turn)),
                    ),
                )
            )
            title_words = (removal, name) if obstacle.is_unplanned else (removal, name, node, _name_obstacle(obstacle))
            return _StartGroup(2, self._earliest_start(change, turn), wave, prerequisite, _join_title(*title_words))
        # All obstacles are turns. `ObstacleFinder` puts the turn of the instance before the pace of collection items.
        obstacle = change.obstacles[0]
        prerequisite = (
            _describe_obstacle(obstacle)
            if obstacle.reason is not Reason.WAVE_NOT_REACHED
            else _format_prerequisites(self._prerequisites(change, turn))
        )
        # If an earlier wave has an obstacle without a known end, this wave cannot start before that wave.
        rank = 2 if None in self._ends_before(turn) else 1
        return _StartGroup(rank, self._earliest_start(change, turn), wave, prerequisite, _join_title(name))

    def _earliest_start(self, change: PlannedChange, turn: _WaveTurn | None) -> datetime | None:
        """Return the earliest time in UTC at which all obstacles with a known end can have ended.

        The obstacles in earlier waves delay the wave of `turn`. If an obstacle in an earlier wave has no known end,
        return None. If no obstacle has a known end, return None too.
        """
        delays = [self._wave_delay(earlier_turn) for earlier_turn in self._waves_before(turn)] if turn else []
        if None in delays:
            return None
        known_delays = [delay for delay in delays if delay and delay.ends_at]
        wave_ends = [delay.ends_at for delay in known_delays if delay.ends_at]
        now = self.preview.due.now
        delay_time = max((delay.beyond_forecast for delay in known_delays), default=timedelta())
        # The end of a turn is a forecast. If obstacles delay an earlier wave beyond the forecast, the turn ends later,
        # by the same time. Any other obstacle, such as a window, ends at its own time.
        openings = [
            obstacle.until + delay_time if obstacle.is_turn else max(obstacle.until, *wave_ends, now)
            for obstacle in change.obstacles
            if obstacle.until
        ]
        return max([*openings, *wave_ends], default=None)

    def _wave_delay(self, turn: _WaveTurn) -> _WaveDelay | None:
        """Return the delay of a wave by the obstacles of its changes, or None if an obstacle has no known end."""
        ends = self._obstacle_ends[turn]
        known_ends = [end for end in ends if end]
        if len(known_ends) < len(ends):
            return None
        rollout = self.preview.first.propagation.rollouts.get(turn.rollout)
        if not known_ends or rollout is None:
            return _WaveDelay(max(known_ends, default=None), timedelta())
        last_end = max(known_ends)
        starts_at = self._forecast_wave_start(rollout, turn)
        beyond = max(timedelta(), last_end - starts_at) if starts_at else timedelta()
        return _WaveDelay(last_end + rollout.collection.bakes[turn.wave_name], beyond)

    def _forecast_wave_start(self, rollout: DecidedRollout, turn: _WaveTurn) -> datetime | None:
        """Return the time in UTC at which the forecast of turns lets a wave start, or None if the time is unknown.

        The forecast knows the windows of waves, and not the obstacles of single instances.
        """
        snapshot = RolloutSnapshot(rollout.policy, rollout.collection, rollout.state, rollout.closed)
        obstacle = next(snapshot.obstacles(rollout.policy.all_waves[turn.wave]), None)
        if obstacle is None:
            return self.preview.due.now
        if obstacle.reason is not Reason.WAVE_NOT_REACHED:
            return obstacle.until
        turns_end = (
            change_obstacle.until
            for change in self.changes
            if change.instance and self._turns[change.instance] == turn
            for change_obstacle in change.obstacles
            if change_obstacle.reason is Reason.WAVE_NOT_REACHED and change_obstacle.until
        )
        return min(turns_end, default=None)

    def _prerequisites(self, change: PlannedChange, turn: _WaveTurn | None) -> list[str]:
        """Return the conditions that the wave of a change waits for: earlier waves, and missing approvals."""
        if turn is None or not turn.wave:
            return []
        state = self.preview.first.propagation.states.get(turn.rollout, RolloutState())
        waves = turn.policy.all_waves
        earlier_waves, target = {wave.name for wave in waves[: turn.wave]}, state.targets.get(waves[turn.wave].name)
        missing_approvals = unapproved_points(turn.policy, state, target) if target else turn.policy.approvals
        approvals = [
            f"an approval after {point}" + (f" ({' or '.join(point.by)})" if point.by else "")
            for point in missing_approvals
            if point.after_wave in earlier_waves
        ]
        waits_for_wave = any(self._waves_before(turn)) or any(
            obstacle.reason is Reason.WAVE_NOT_REACHED for obstacle in change.obstacles
        )
        return [*(["the wave before it"] if waits_for_wave else []), *approvals]

    def _ends_before(self, turn: _WaveTurn | None) -> list[datetime | None]:
        """Return the earliest ends of the obstacles in earlier waves. An unknown end is None."""
        return [end for other in self._waves_before(turn) for end in self._obstacle_ends[other]] if turn else []

    def _waves_before(self, turn: _WaveTurn) -> Iterator[_WaveTurn]:
        return (
            earlier_turn
            for earlier_turn in self._obstacle_ends
            if earlier_turn[:2] == turn[:2] and earlier_turn.wave < turn.wave
        )


def _earlier_deletions(changes: Sequence[PlannedChange]) -> dict[ObjectKey | None, tuple[str, ...]]:
    """Return, for each instance and plain object, the names of the readers that Levelgate deletes first.

    A reader refers to the object by `externalRef`: see `PlannedChange.readers`.
    """
    roots = {change.key: change.instance or change.key for change in changes}
    earlier: dict[ObjectKey | None, dict[str, None]] = {}
    for change in changes:
        root = roots[change.key]
        if root == change.key:
            reader_roots = (roots.get(reader, reader) for reader in change.readers)
            names = [reader_root.qualified_name for reader_root in reader_roots if reader_root and reader_root != root]
            earlier.setdefault(root, {}).update(dict.fromkeys(sorted(names)))
    return {root: tuple(names) for root, names in earlier.items() if names}


def _wave_turn(preview: Preview, capacities: WindowCapacities, instance: ObjectKey) -> _WaveTurn | None:
    """Return the turn of an instance, or None if the instance does not move to another revision."""
    rendered = preview.first.bundle.instances.get(instance)
    if rendered is None or not rendered.definition or rendered.applied == rendered.target_revision:
        return None
    policy = capacities.policy_of(instance)
    names = [wave.name for wave in policy.all_waves]
    return _WaveTurn(
        policy.rollout_of(rendered.definition),
        policy,
        names.index(policy.wave_of(rendered.manifest["metadata"].get("labels") or {})),
    )


def _join_title(*words: str) -> str:
    title = ", ".join(filter(None, words))
    return f"{title}:" if title else ""


def _format_prerequisites(prerequisites: Sequence[str]) -> str:
    return f"after {' and '.join(prerequisites)}" if prerequisites else ""


def _describe_obstacle(obstacle: Obstacle) -> str:
    """Return a text about an obstacle. The text is equal for all instances with this obstacle."""
    if obstacle.is_unplanned:
        return f"after {obstacle.name}"
    words = {
        Reason.PACE_REACHED: "after those before them",
        Reason.BRAKE_ENGAGED: "once a person approves the commit",
    }
    return words.get(obstacle.reason, f"{obstacle.reason}: {obstacle.message}")


def _name_obstacle(obstacle: Obstacle) -> str:
    words = {Reason.WINDOW_CLOSED: "window", Reason.NEVER_OPENS: "window"}
    return " ".join(filter(None, (words.get(obstacle.reason, str(obstacle.reason)), obstacle.name)))
