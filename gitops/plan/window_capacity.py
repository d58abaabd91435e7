"""Comparison of two times: the time that a window leaves for a plan's changes, and the time that the changes need.

The needed time follows these rules:

- If an instance has a record of its last change, the time runs from the first write until the instance was healthy.
- Without a record, an instance needs the progress deadline of its policy for each level.
- Moves to another revision run in the batches of their rollout, wave after wave. A bake follows each batch.
- All changes outside of rollouts run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from applier.causes import Reason
from applier.cluster import CONTENT_MANAGER
from applier.plan.model import ApplySetPlan, CandidateChange, Operation
from applier.state.managed_fields import applied_at
from applier.state.observed import annotation
from gitops.plan.report import HalfwayEnd, PlannedAction, PlannedChange, WindowCapacity
from gitops.reconcile.preview import Preview
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import DEFAULT_POLICY, Policy
from gitops.rollouts.shapes import frontier
from gitops.windows.verdict import start_state
from gitops.windows.window import Drain
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.levelgate_status import LevelgateStatus

_OPERATIONS = {PlannedAction.CREATE: Operation.CREATE, PlannedAction.DELETE: Operation.PRUNE}


@dataclass
class WindowCapacities:
    """Window capacities for the steps of one preview."""

    preview: Preview

    def capacity_for(self, changes: Sequence[PlannedChange], begins_at: datetime) -> WindowCapacity | None:
        """Return the capacity for changes that start together, or None if no window closes after the start."""
        with self.preview.due.state.graph.reading():
            closes_at = min(self._closings(changes, begins_at), default=None)
        if closes_at is None:
            return None
        needs, is_recorded = self._required_time(changes)
        return WindowCapacity(closes_at - begins_at, needs, is_recorded)

    def halfway_end(self, changes: Sequence[PlannedChange], begins_at: datetime) -> HalfwayEnd | None:
        """Return the changes that a closing window may stop between two levels, or None if no change can stop there."""
        with self.preview.due.state.graph.reading():
            drains = self._drains(changes, begins_at)
        if not (refs := _halfway_refs(changes, drains)):
            return None
        return HalfwayEnd(min(drains.values()).name.title(), refs)

    @cached_property
    def _sets(self) -> Mapping[ObjectKey, ApplySetPlan]:
        return {set_plan.rendered.parent: set_plan for set_plan in self.preview.due.plan.sets}

    def _closings(self, changes: Sequence[PlannedChange], begins_at: datetime) -> Iterator[datetime]:
        """Yield the next closing times of the windows that are open at the start.

        Only windows that apply to the changes or to the waves of the changes count.
        """
        state = self.preview.due.state
        for change in changes:
            candidate_change = self._candidate_change(change)
            verdict = state.window_verdict_at(candidate_change, begins_at) if candidate_change else None
            if verdict and verdict.is_open and verdict.until:
                yield verdict.until
            wave_windows = (
                state.wave_windows(change.instance.group_kind, self.policy_of(change.instance))
                if change.instance
                else {}
            )
            for obstacle in change.obstacles:
                window = wave_windows.get(obstacle.name) if obstacle.reason is Reason.WINDOW_CLOSED else None
                start = start_state(window, begins_at) if window else None
                if start and start.is_open and start.until:
                    yield start.until

    def _drains(self, changes: Sequence[PlannedChange], begins_at: datetime) -> Mapping[ObjectKey | None, Drain]:
        """Return the strictest drain of windows that close after the start, by instance.

        The key None is for plain objects.
        """
        drains: dict[ObjectKey | None, Drain] = {}
        state = self.preview.due.state
        for change in changes:
            candidate_change = self._candidate_change(change)
            verdict = state.window_verdict_at(candidate_change, begins_at) if candidate_change else None
            if candidate_change is None or verdict is None or not (verdict.is_open and verdict.until):
                continue
            closed = state.window_verdict_at(candidate_change, verdict.until)
            drain = min((one.window.drain for one in closed.closed_windows), default=Drain.INSTANCE)
            drains[change.instance] = min(drain, drains.get(change.instance, drain))
        return drains

    def _candidate_change(self, change: PlannedChange) -> CandidateChange | None:
        """Return a change in the form that windows judge, or None if the object's set or name is unknown."""
        owner_plan = (
            self._sets.get(change.instance)
            if change.node and change.instance
            else next((set_plan for set_plan in self._sets.values() if set_plan.rendered.is_source), None)
        )
        if owner_plan is None or change.key is None:
            return None
        return CandidateChange(
            owner_plan.rendered, change.key, _OPERATIONS.get(change.action, Operation.UPDATE), change.node, change.level
        )

    def policy_of(self, instance: ObjectKey | None) -> Policy:
        """Return the policy of an instance, or the default policy."""
        return self.preview.due.state.policies.get(instance, DEFAULT_POLICY) if instance else DEFAULT_POLICY

    def _required_time(self, changes: Sequence[PlannedChange]) -> tuple[timedelta, bool]:
        """Return the time that the changes need, and whether every duration in it is recorded."""
        levels: dict[ObjectKey | None, set[int]] = {}
        for change in changes:
            levels.setdefault(change.instance, set()).update(
                {change.level or 0} if change.node or not change.instance else ()
            )
        waves: dict[tuple[str, Policy], dict[str, list[timedelta]]] = {}
        longest, is_recorded = timedelta(), True
        for instance, instance_levels in levels.items():
            policy, recorded = self.policy_of(instance), self._recorded_duration(instance)
            duration = max(1, len(instance_levels)) * policy.progress_deadline if recorded is None else recorded
            rendered = self.preview.first.bundle.instances.get(instance) if instance else None
            if rendered and rendered.applied != rendered.target_revision:  # the instance moves, so a rollout has it
                wave = policy.wave_of(rendered.manifest["metadata"].get("labels") or {})
                waves.setdefault((rendered.definition, policy), {}).setdefault(wave, []).append(duration)
            longest, is_recorded = max(longest, duration), is_recorded and recorded is not None
        rollouts = (_rollout_duration(policy, durations) for (_, policy), durations in waves.items())
        return max([longest, *rollouts]), is_recorded

    def _recorded_duration(self, instance: ObjectKey | None) -> timedelta | None:
        """Return the duration of an instance's last change: from the first write until the instance was healthy.

        If no write is recorded, or if the instance became unhealthy after the change, return None.
        """
        set_plan = self._sets.get(instance) if instance else None
        if set_plan is None or set_plan.parent is None:
            return None
        progress = ItemProgress.from_dict(LevelgateStatus.from_instance(set_plan.parent).progress)
        times = [
            (written_at, annotation(node_plan.live, well_known.COMMIT))
            for node_plan in set_plan.nodes
            if node_plan.live and (written_at := applied_at(node_plan.live, CONTENT_MANAGER))
        ]
        if not times or progress is None or progress.ready_since is None or progress.flaps:
            return None
        last, newest = max(times)
        first = min(written_at for written_at, commit in times if commit == newest)
        return progress.ready_since - first if last <= progress.ready_since else None


def _halfway_refs(changes: Sequence[PlannedChange], drains: Mapping[ObjectKey | None, Drain]) -> tuple[str, ...]:
    """Return the instances and plain objects that change on several levels and may stop between two levels."""
    names: list[str] = []
    own_changes: dict[ObjectKey | None, list[PlannedChange]] = {}
    for change in changes:
        if change.node or change.instance is None:
            own_changes.setdefault(change.instance, []).append(change)
    for instance, drain in drains.items():
        own = own_changes.get(instance, [])
        if drain.may_end_halfway and len({change.level for change in own}) > 1:
            names += [instance.qualified_name] if instance else [change.ref for change in own]
    return tuple(dict.fromkeys(names))


def _rollout_duration(policy: Policy, waves: Mapping[str, Sequence[timedelta]]) -> timedelta:
    """Return the duration of a rollout, given the durations of its instances by wave.

    The shape of the policy decides the size of each batch. A batch takes as long as the slowest instance of the wave,
    plus the bake.
    """
    total = timedelta()
    for wave in policy.all_waves:
        durations = waves.get(wave.name, ())
        settled = 0
        while settled < len(durations):
            settled = frontier(policy.shape_of(wave), settled, len(durations))
            total += max(durations) + policy.bake_of(wave)
    return total
