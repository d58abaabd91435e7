"""Items of rollouts as queries, counted by difference: an instance that changes is counted again, and no other one.

The progress of an item folds over past observations, so it is an input. A query tells which observation the progress
lacks, and the shell adds the observation to the progress at the time at which it takes the observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gitops.decisions import live
from gitops.decisions.holds import hold
from gitops.decisions.moments import is_item_due
from gitops.decisions.people import instance_directives, suspension
from gitops.decisions.permissions import instance_window_cause
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.rollout_members import (
    all_instances,
    membership,
    rollout_instances,
    rollout_rules,
    unknown_members,
)
from gitops.decisions.rollout_targets import WaveGoal, shuffle_salt, wave_goal
from gitops.decisions.set_plans import prospective_plan
from gitops.queries import Input, QueryGraph, QueryIndex, Roots, query
from gitops.rollouts.collection import (
    RankedItem,
    RolloutItem,
    RolloutItems,
    WaveItems,
    item_state,
    sort_key_of,
)
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.items import ItemObservation, ObservedItem, observe_plan, recorded_progress
from gitops.rollouts.policy import Policy
from renderer.identity import ObjectKey


class TargetProgress(NamedTuple):
    """Progress of an item toward one target."""

    revision: int
    """Number of the target revision."""
    progress: ItemProgress


item_progress: Final[Input[[ObjectKey], TargetProgress | None]] = Input(
    "item_progress", initial=None, starts_unread=False
)
"""Progress of an instance that the process has observed itself, or None. Then the status of the instance tells it.

The status is a copy of the progress: a status that could not be written restarts no bake.
"""


class ProgressChange(NamedTuple):
    """Change of the input `item_progress` of an instance that the next observation makes."""

    revision: int
    """Number of the target revision."""
    before: ItemProgress | None
    """Progress before the observation, or None if the progress starts with the observation."""
    observation: ItemObservation | None
    """Observation to add, or None for an instance whose progress no longer counts."""
    bake: timedelta
    """Bake time of the item's wave."""

    def progress_at(self, now: datetime) -> TargetProgress | None:
        """Return the value to set after an observation at `now`, or None to drop the progress."""
        if self.observation is None:
            return None
        before = self.before or ItemProgress.start(now)
        return TargetProgress(self.revision, self.observation.added_to(before, now, self.bake))


def _goal_of(graph: QueryGraph, instance: ObjectKey) -> WaveGoal | None:
    member = membership(graph, instance)
    return wave_goal(graph, member.rollout, member.wave) if member else None


@query
def observed_item(graph: QueryGraph, instance: ObjectKey) -> ObservedItem | None:
    """Return an instance as its rollout sees it, without progress, or None for an instance in no rollout."""
    member, plan = membership(graph, instance), prospective_plan(graph, instance)
    goal, rules = _goal_of(graph, instance), rollout_rules(graph, member.rollout) if member else None
    if plan is None or goal is None or rules is None:
        return None
    item = RolloutItem(
        instance.qualified_name,
        labels=plan.rendered.manifest["metadata"].get("labels") or {},
        priority=instance_directives(graph, instance).priority,
        granted=granted_revision(graph, instance) == goal.target.revision,
        held=suspension(graph, instance) or hold(graph, instance),
        blocked=instance_window_cause(graph, instance),
    )
    return observe_plan(item, plan, goal.target, is_creation_paced=rules.is_creation_paced)


@query
def _known_progress(graph: QueryGraph, instance: ObjectKey) -> ItemProgress | None:
    """Return the progress of an instance toward its present target, or None if none is known."""
    if (goal := _goal_of(graph, instance)) is None:
        return None
    observed = item_progress(graph, instance)
    if observed and observed.revision == goal.target.revision:
        return observed.progress
    return recorded_progress(live.live(graph, instance), goal.target)


def _is_unplaced(graph: QueryGraph, instance: ObjectKey, goal: WaveGoal) -> bool:
    """Return whether an instance has its grant, and is not rendered from its target revision yet."""
    if granted_revision(graph, instance) != goal.target.revision:
        return False
    plan = prospective_plan(graph, instance)
    return plan is not None and plan.rendered.revision != goal.target.revision


@query
def progress_change(graph: QueryGraph, instance: ObjectKey) -> ProgressChange | None:
    """Return what the progress of an instance lacks, or None if nothing new was observed.

    Nothing is observed of an instance that has its grant, and is still rendered from the revision before: the ready
    nodes are those of the earlier revision.
    """
    observed, goal = observed_item(graph, instance), _goal_of(graph, instance)
    if observed is None or goal is None or _is_unplaced(graph, instance, goal):
        return None
    revision, observation = goal.target.revision, observed.observation
    if observation is None:
        is_known = item_progress(graph, instance) is not None
        return ProgressChange(revision, None, None, goal.bake) if is_known else None
    before = _known_progress(graph, instance)
    if before and observation.is_reflected_in(before):
        return None
    return ProgressChange(revision, before, observation, goal.bake)


PROGRESS_CHANGES: Final = Roots("progress_changes", order=9, members=rollout_instances, result=progress_change)
"""Instances whose progress has to change. A former root has left its rollout, so its progress has to be dropped."""


@query
def rollout_item(graph: QueryGraph, instance: ObjectKey) -> RolloutItem | None:
    """Return an instance as its rollout counts it, or None for an instance in no rollout.

    Without known progress, the item neither settles nor fails.
    """
    observed = observed_item(graph, instance)
    if observed is None or observed.observation is None:
        return observed.item if observed else None
    return replace(observed.item, progress=_known_progress(graph, instance) or ItemProgress())


@query
def _ranked_item(graph: QueryGraph, instance: ObjectKey) -> RankedItem | None:
    """Return an item with its present state, until a bake or a deadline of the item ends."""
    item, member, goal = rollout_item(graph, instance), membership(graph, instance), _goal_of(graph, instance)
    rules = rollout_rules(graph, member.rollout) if member else None
    if item is None or member is None or goal is None or rules is None:
        return None
    state = item_state(item, graph.now, bake=goal.bake, policy=rules.policy)
    if state.changes_at:
        is_item_due(graph, state.changes_at)
    return RankedItem(item, state, sort_key_of(item, shuffle_salt(graph, member.rollout)))


@query
def _end_of_item(graph: QueryGraph, instance: ObjectKey) -> tuple[bool, bool] | None:
    """Return whether an item has settled, and whether it has failed, or None for an instance in no rollout."""
    ranked = _ranked_item(graph, instance)
    return (ranked.state.is_settled, ranked.state.has_failed) if ranked else None


ITEM_ENDS: Final = Roots("item_ends", order=9, members=all_instances, result=_end_of_item)
"""Items that have settled or failed. The end of a bake or of a deadline changes them although nothing happens."""


class _WaveKey(NamedTuple):
    """Wave of a rollout."""

    rollout: str
    wave: str


class _InstanceWave(WaveItems):
    """Instances of one wave, counted by difference."""

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[str, ObjectKey] = {}
        """Instances by the key of their item."""

    def add(self, instance: ObjectKey, ranked: RankedItem) -> None:
        self.instances[ranked.item.key] = instance
        self.add_item(ranked)

    def remove(self, _instance: ObjectKey, ranked: RankedItem) -> None:
        del self.instances[ranked.item.key]
        self.remove_item(ranked.item.key)


@query
def _wave_entries(graph: QueryGraph, instance: ObjectKey) -> Mapping[_WaveKey, RankedItem]:
    ranked, member = _ranked_item(graph, instance), membership(graph, instance)
    return {_WaveKey(member.rollout, member.wave): ranked} if ranked and member else {}


_waves: Final[QueryIndex[ObjectKey, _WaveKey, RankedItem, _InstanceWave]] = QueryIndex(
    "_waves",
    order=9,
    members=all_instances,
    contributions=_wave_entries,
    new_entry=_InstanceWave,
    spreads_unread=True,
)
"""Items of rollouts, by rollout and wave.

While the rendering of an instance is unread, its wave is unknown. Until then, every wave is unread, so that no wave
completes.
"""


class CountedItems(RolloutItems):
    """Items of one rollout from a graph, for the query that makes the view. A query must not keep the view.

    Args:
        bakes: bake time by name of the wave, for every wave of `policy`.
    """

    def __init__(self, graph: QueryGraph, rollout: str, policy: Policy, bakes: Mapping[str, timedelta]) -> None:
        self._waves = {wave.name: _waves(graph, _WaveKey(rollout, wave.name)) for wave in policy.all_waves}
        self._bakes = bakes

    @property
    def waves(self) -> Mapping[str, WaveItems]:
        return self._waves

    @property
    def bakes(self) -> Mapping[str, timedelta]:
        return self._bakes

    def wave_of(self, key: str) -> str:
        for name, wave in self._waves.items():
            if key in wave.members:
                return name
        raise KeyError(key)

    def instance_of(self, key: str) -> ObjectKey:
        """Return the instance of the item `key`."""
        return self._waves[self.wave_of(key)].instances[key]


def uncounted_instances(graph: QueryGraph, rollout: str) -> frozenset[ObjectKey]:
    """Return the instances that a rollout may have and cannot count, because a query has failed."""
    return unknown_members(graph, rollout, _waves.failed(graph).keys())
