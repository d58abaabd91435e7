"""Targets of rollouts as queries. They follow from the stored state, and not from how instances are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple

from gitops.decisions.definitions import stored_revisions
from gitops.decisions.rollout_members import rollout_rules, rollouts
from gitops.decisions.rollout_records import remembered_state
from gitops.queries import Contributions, QueryGraph, QueryIndex, query
from gitops.rollouts.policy import ItemOrder
from gitops.rollouts.state import UNDATED, RolloutState, TargetRevision, is_same_state, is_same_target
from gitops.rollouts.targets import assign_targets, bake_times, newest_target


class WaveGoal(NamedTuple):
    """Target of a wave, and the time for which an item of the wave has to be healthy at the target."""

    target: TargetRevision
    bake: timedelta


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


class _Aim(NamedTuple):
    """Entry of `_aims`."""

    rollout: str
    wave: str | None
    """Wave whose goal the entry holds, or None for the entry of the whole rollout."""


class _RolloutAim(NamedTuple):
    """What the items of all waves read in the state of a rollout."""

    completed_revision: int
    """Number of the last revision that the rollout has completed, or 0."""
    shuffle_salt: str | None
    """Text on which the shuffled order depends, or None for an order without a shuffle."""


def _is_same_aim(before: WaveGoal | _RolloutAim, after: WaveGoal | _RolloutAim) -> bool:
    if isinstance(before, WaveGoal) and isinstance(after, WaveGoal):
        return is_same_target(before.target, after.target) and before.bake == after.bake
    return before == after


_Aims = Mapping[_Aim, WaveGoal | _RolloutAim]


def _are_same_aims(before: _Aims, after: _Aims) -> bool:
    return before.keys() == after.keys() and all(_is_same_aim(found, after[aim]) for aim, found in before.items())


@query(same=_are_same_aims)
def _aims_of(graph: QueryGraph, rollout: str) -> _Aims:
    """Return the goals of the waves of a rollout, and what the items of all waves read."""
    rules, state = rollout_rules(graph, rollout), aimed_state(graph, rollout)
    if rules is None or state is None:
        return {}
    bakes = bake_times(rules.policy, state)
    found: dict[_Aim, WaveGoal | _RolloutAim] = {
        _Aim(rollout, wave): WaveGoal(target, bakes[wave]) for wave, target in state.targets.items()
    }
    is_shuffled = rules.policy.order is ItemOrder.SHUFFLE_PER_REVISION
    salt = ",".join(map(str, state.targets.values())) if is_shuffled else None
    found[_Aim(rollout, None)] = _RolloutAim(state.completed.revision if state.completed else 0, salt)
    return found


_aims: Final[QueryIndex[str, _Aim, WaveGoal | _RolloutAim, Contributions[str, WaveGoal | _RolloutAim]]] = QueryIndex(
    "_aims",
    order=8,
    members=rollouts,
    contributions=_aims_of,
    new_entry=Contributions[str, WaveGoal | _RolloutAim],
    spreads_unread=False,
    same=_is_same_aim,
)
"""Goals of all waves. Through the index, a report in the record of a rollout marks none of its items."""


def wave_goal(graph: QueryGraph, rollout: str, wave: str) -> WaveGoal | None:
    """Return the goal of a wave, or None for a rollout without instances."""
    found = _aims.contribution_of(graph, rollout, _Aim(rollout, wave))
    return found if isinstance(found, WaveGoal) else None


def completed_revision(graph: QueryGraph, rollout: str) -> int:
    """Return the number of the last revision that a rollout has completed according to its stored state, or 0."""
    found = _aims.contribution_of(graph, rollout, _Aim(rollout, None))
    return found.completed_revision if isinstance(found, _RolloutAim) else 0


def shuffle_salt(graph: QueryGraph, rollout: str) -> str | None:
    """Return the text on which the shuffled order of a rollout depends, or None for an order without a shuffle."""
    found = _aims.contribution_of(graph, rollout, _Aim(rollout, None))
    return found.shuffle_salt if isinstance(found, _RolloutAim) else None
