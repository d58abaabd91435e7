"""Which revision each wave of a rollout moves to, and how: what a newer revision means for one that is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from gitops.rollouts.policy import OnHalt, OnNewRevision, Policy, Wave
from gitops.rollouts.shapes import Shape
from gitops.rollouts.state import ANY_TARGET, DecisionRecord, RolloutState, TargetRevision
from renderer.render.revisions import DefinitionRevision


def newest(revisions: Sequence[DefinitionRevision]) -> TargetRevision:
    """The newest of all stored revisions of a definition, oldest first, as a target."""
    last = revisions[-1]
    same = [older.number for older in revisions[:-1] if older.digest == last.digest]
    return TargetRevision(last.number, last.commit, reverts=max(same, default=0))


def assign_targets(policy: Policy, state: RolloutState, target: TargetRevision, *, now: datetime) -> RolloutState:
    """Which revision each wave moves to, now that `target` is the newest.

    Superseding, all waves turn at once. Else a wave finishes what it is at (or is halted there), then takes what the wave before it has passed or is
    at; the first takes the newest once fewer than `pipelineMax` revisions are on their way (1 for Finish).
    """
    halt = state.halt_of(target)
    if halt and policy.on_halt is OnHalt.ROLL_BACK and state.completed and state.completed.revision != target.revision:
        back = replace(state.completed, reverts=state.completed.revision)
        targets = {wave.name: back for wave in policy.all_waves}
        state = state if targets == state.targets else replace(state, passed={})
    elif policy.on_new_revision is OnNewRevision.SUPERSEDE:
        targets = {wave.name: target for wave in policy.all_waves}
    else:
        targets = _following(policy, state, target)
    if targets == state.targets:
        return state
    changed = {name for name in targets if state.targets.get(name) != targets[name]}
    current = {target.revision, *(one.revision for one in targets.values())}
    aimed = replace(
        state,
        targets=targets,
        passed={name: passed for name, passed in state.passed.items() if name in targets},
        halts=tuple(one for one in state.halts if one.target in {ANY_TARGET, *current}),
        forgiven={name: number for name, number in state.forgiven.items() if name not in changed},
        approvals=tuple(one for one in state.approvals if one.target in current),
    )
    names = {
        str(targets[name]): [one for one in targets if one in changed and targets[one] == targets[name]]
        for name in changed
    }
    return aimed.with_decision(
        *(DecisionRecord(now, "target", f"{name}: {', '.join(waves)}") for name, waves in sorted(names.items()))
    )


def _following(policy: Policy, state: RolloutState, newest: TargetRevision) -> dict[str, TargetRevision]:
    most = policy.pipeline_max if policy.on_new_revision is OnNewRevision.PIPELINE else 1
    first, *others = (wave.name for wave in policy.all_waves)
    on_the_way = {state.targets[name] for name in others if not _is_free(state, name)}
    if on_the_way and (ahead := state.passed.get(first)):
        on_the_way.add(ahead)
    starts = _is_free(state, first) and len(on_the_way | {newest}) <= most
    targets = {first: newest if starts else state.targets.get(first, newest)}
    for before, name in pairwise((first, *others)):
        own, passed = state.targets.get(name), state.passed.get(before)
        if own and not _is_free(state, name):
            targets[name] = own
        elif passed and passed != own == state.passed.get(name):
            targets[name] = passed
        else:
            targets[name] = targets[before]
    return targets


def _is_free(state: RolloutState, wave: str) -> bool:
    """Has it nothing to finish?"""
    target = state.targets.get(wave)
    return target is None or state.passed.get(wave) == target or state.halt_of(target) is not None


def bakes(policy: Policy, state: RolloutState) -> dict[str, timedelta]:
    """How long the items of each wave must stay healthy before they count; nothing in a rollback that skips it."""
    return {
        wave.name: timedelta()
        if state.targets[wave.name].is_rollback and policy.rollback.skip_bake
        else policy.bake_of(wave)
        for wave in policy.all_waves
    }


def shape_of(policy: Policy, wave: Wave, target: TargetRevision) -> Shape:
    shape = policy.shape_of(wave)
    return policy.rollback.shape or shape if target.is_rollback else shape
