"""Targets of rollouts as queries. They follow from the stored state, and not from how instances are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from gitops.decisions.definitions import stored_revisions
from gitops.decisions.rollout_members import rollout_rules
from gitops.decisions.rollout_records import remembered_state
from gitops.queries import QueryGraph, query
from gitops.rollouts.policy import ItemOrder
from gitops.rollouts.state import UNDATED, RolloutState, TargetRevision, is_same_state, is_same_target
from gitops.rollouts.targets import assign_targets, bake_times, newest_target


class WaveGoal(NamedTuple):
    """Target of a wave, and the time for which an item of the wave has to be healthy at the target."""

    target: TargetRevision
    bake: timedelta


def _is_same_goal(before: WaveGoal | None, after: WaveGoal | None) -> bool:
    if before is None or after is None:
        return before is after
    return is_same_target(before.target, after.target) and before.bake == after.bake


@query(same=is_same_state)
def aimed_state(graph: QueryGraph, rollout: str) -> RolloutState | None:
    """Return the stored state of a rollout with a target for each wave, or None for a rollout without instances.

    The times of new decisions are `UNDATED`.
    """
    rules = rollout_rules(graph, rollout)
    if rules is None:
        return None
    remembered = replace(remembered_state(graph, rollout, rules.of), of=rules.of)
    return assign_targets(rules.policy, remembered, newest_target(stored_revisions(graph, rules.kind)), now=UNDATED)


@query(same=_is_same_goal)
def wave_goal(graph: QueryGraph, rollout: str, wave: str) -> WaveGoal | None:
    """Return the goal of a wave, or None for a rollout without instances.

    The goal is a value of its own, so that a decision in the state of the rollout concerns no item.
    """
    rules, state = rollout_rules(graph, rollout), aimed_state(graph, rollout)
    if rules is None or state is None:
        return None
    return WaveGoal(state.targets[wave], bake_times(rules.policy, state)[wave])


@query
def shuffle_salt(graph: QueryGraph, rollout: str) -> str | None:
    """Return the text on which the shuffled order of a rollout depends, or None for an order without a shuffle."""
    rules, state = rollout_rules(graph, rollout), aimed_state(graph, rollout)
    if rules is None or state is None or rules.policy.order is not ItemOrder.SHUFFLE_PER_REVISION:
        return None
    return ",".join(map(str, state.targets.values()))


@query
def completed_revision(graph: QueryGraph, rollout: str) -> int:
    """Return the number of the last revision that a rollout has completed according to its stored state, or 0."""
    state = aimed_state(graph, rollout)
    return state.completed.revision if state and state.completed else 0
