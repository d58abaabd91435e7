"""Targets of a rollout: the revision that each wave moves to, and the effect of a newer revision during a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from gitops.rollouts.policy import OnHalt, OnNewRevision, Policy, Wave
from gitops.rollouts.shapes import Shape
from gitops.rollouts.state import ANY_TARGET, DecisionRecord, RolloutState, TargetRevision
from renderer.render.revisions import DefinitionRevision


def newest_target(revisions: Sequence[DefinitionRevision]) -> TargetRevision:
    """Return the newest of `revisions` as a target.

    Args:
        revisions: all stored revisions of a definition, oldest first.
    """
    last = revisions[-1]
    same_content = [older.number for older in revisions[:-1] if older.digest == last.digest]
    return TargetRevision(last.number, last.commit, reverts=max(same_content, default=0))


def assign_targets(policy: Policy, state: RolloutState, target: TargetRevision, *, now: datetime) -> RolloutState:
    """Return `state` with a target for each wave.

    If `target` is halted and the policy has `onHalt: RollBack`, all waves switch to the last completed revision.
    Otherwise, with `onNewRevision: Supersede`, all waves switch to `target` at once.

    With `Finish` or `Pipeline`, a wave keeps its target until the wave has completed the target or the target is
    halted. Then the wave gets the target that the previous wave has completed or has now. If at most `pipelineMax`
    revisions would then be in flight, the first wave gets `target`. With `Finish`, the limit is 1 revision.

    Args:
        target: newest revision of the definition.
    """
    halt = state.halt_of(target)
    if halt and policy.on_halt is OnHalt.ROLL_BACK and state.completed and state.completed.revision != target.revision:
        rollback_target = replace(state.completed, reverts=state.completed.revision)
        targets = {wave.name: rollback_target for wave in policy.all_waves}
        state = state if targets == state.targets else replace(state, passed={})
    elif policy.on_new_revision is OnNewRevision.SUPERSEDE:
        targets = {wave.name: target for wave in policy.all_waves}
    else:
        targets = _assign_in_order(policy, state, target)
    if targets == state.targets:
        return state
    changed = {name for name in targets if state.targets.get(name) != targets[name]}
    current = {target.revision, *(assigned.revision for assigned in targets.values())}
    new_state = replace(
        state,
        targets=targets,
        passed={name: passed for name, passed in state.passed.items() if name in targets},
        halts=tuple(earlier_halt for earlier_halt in state.halts if earlier_halt.target in {ANY_TARGET, *current}),
        forgiven={name: number for name, number in state.forgiven.items() if name not in changed},
        approvals=tuple(approval for approval in state.approvals if approval.target in current),
    )
    waves_by_target = {
        str(targets[name]): [
            wave_name for wave_name in targets if wave_name in changed and targets[wave_name] == targets[name]
        ]
        for name in changed
    }
    return new_state.with_decision(
        *(
            DecisionRecord(now, "target", f"{name}: {', '.join(waves)}")
            for name, waves in sorted(waves_by_target.items())
        )
    )


def _assign_in_order(policy: Policy, state: RolloutState, newest_revision: TargetRevision) -> dict[str, TargetRevision]:
    """Return the target of each wave for `Finish` and `Pipeline`."""
    max_in_flight = policy.pipeline_max if policy.on_new_revision is OnNewRevision.PIPELINE else 1
    first, *others = (wave.name for wave in policy.all_waves)
    # The revisions in flight are the targets that later waves have yet to complete, and the target that the first wave
    # has completed. The later waves get that target next.
    in_flight = {state.targets[name] for name in others if not _is_free(state, name)}
    if in_flight and (passed_target := state.passed.get(first)):
        in_flight.add(passed_target)
    starts = _is_free(state, first) and len(in_flight | {newest_revision}) <= max_in_flight
    targets = {first: newest_revision if starts else state.targets.get(first, newest_revision)}
    for previous, name in pairwise((first, *others)):
        current, passed = state.targets.get(name), state.passed.get(previous)
        if current and not _is_free(state, name):
            targets[name] = current
        elif passed and passed != current == state.passed.get(name):
            targets[name] = passed
        else:
            targets[name] = targets[previous]
    return targets


def _is_free(state: RolloutState, wave: str) -> bool:
    """Return whether `wave` may get a new target, because its target is missing, completed or halted."""
    target = state.targets.get(wave)
    return target is None or state.passed.get(wave) == target or state.halt_of(target) is not None


def bake_times(policy: Policy, state: RolloutState) -> dict[str, timedelta]:
    """Return the bake time by name of the wave.

    If the target of a wave is a rollback and the policy has `skipBake`, the bake time is zero.
    """
    return {
        wave.name: timedelta()
        if state.targets[wave.name].is_rollback and policy.rollback.skip_bake
        else policy.bake_of(wave)
        for wave in policy.all_waves
    }


def shape_of(policy: Policy, wave: Wave, target: TargetRevision) -> Shape:
    """Return the shape of `wave` for `target`.

    If `target` is a rollback and the policy has `rollback.shape`, return `rollback.shape`.
    """
    shape = policy.shape_of(wave)
    return policy.rollback.shape or shape if target.is_rollback else shape
