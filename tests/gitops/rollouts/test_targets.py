"""Which revision each wave moves to when a newer one comes: Supersede, Finish, Pipeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from gitops.rollouts.policy import OnNewRevision, Policy
from gitops.rollouts.requests import halt
from gitops.rollouts.state import RolloutState, TargetRevision
from gitops.rollouts.targets import assign_targets, bake_times, newest_target
from renderer.render.revisions import DefinitionRevision
from tests.support.rollouts.rollouts import START
from tests.support.rollouts.waves import WAVES, tier

FINISH = replace(WAVES, on_new_revision=OnNewRevision.FINISH)
THREE = Policy(name="p", waves=(tier("dev"), tier("stage"), tier("prod")), on_new_revision=OnNewRevision.PIPELINE)


def aimed(policy: Policy, state: RolloutState, revision: int) -> RolloutState:
    return assign_targets(policy, state, TargetRevision(revision), now=START)


def passed(state: RolloutState, *waves: str) -> RolloutState:
    """These waves are complete at their targets."""
    return replace(state, passed={**state.passed, **{wave: state.targets[wave] for wave in waves}})


def targets(state: RolloutState) -> list[int]:
    return [target.revision for target in state.targets.values()]


def test_a_newer_revision_supersedes_what_is_under_way() -> None:
    """S1-29: nothing moves towards a superseded revision any more."""
    state = aimed(WAVES, aimed(WAVES, RolloutState(), 1), 2)
    assert targets(state) == [2, 2, 2]
    assert [entry.subject for entry in state.decisions] == ["r1: canary, prod, rest", "r2: canary, prod, rest"]


def test_the_same_revision_again_changes_nothing() -> None:
    state = aimed(WAVES, RolloutState(), 1)
    assert assign_targets(WAVES, state, TargetRevision(1, commit="another"), now=START) is state


def test_finish_goes_to_the_end_before_it_jumps_to_the_newest() -> None:
    """S1-30: with a commit each hour the tail would never arrive."""
    state = aimed(FINISH, RolloutState(), 1)
    state = passed(aimed(FINISH, state, 2), "canary")
    assert targets(aimed(FINISH, state, 3)) == [1, 1, 1]
    assert targets(aimed(FINISH, passed(state, "prod", "rest"), 3)) == [3, 3, 3]


def test_finish_does_not_wait_for_what_is_halted() -> None:
    """The fix must be able to come."""
    state = halt(aimed(FINISH, RolloutState(), 1), by="ada", why="bad", now=START)
    state = aimed(FINISH, state, 2)
    assert (targets(state), state.halts) == ([2, 2, 2], ())


def test_a_pipeline_lets_the_first_wave_go_on_while_the_tail_catches_up() -> None:
    """S1-29, S1-30: stage takes a revision as soon as dev has settled at it, even when dev has moved on."""
    state = passed(aimed(THREE, RolloutState(), 1), "dev")
    state = aimed(THREE, state, 2)
    assert targets(state) == [2, 1, 1, 1]
    state = aimed(THREE, passed(state, "dev"), 3)
    assert targets(state) == [2, 1, 1, 1], "two revisions are on their way, and pipelineMax is 2"
    state = aimed(THREE, passed(state, "stage"), 3)
    assert targets(state) == [2, 2, 1, 1]
    state = aimed(THREE, passed(state, "prod", "rest"), 3)
    assert targets(state) == [3, 2, 2, 2]


def test_a_tail_that_was_slow_takes_what_the_wave_before_it_has_passed() -> None:
    three = replace(THREE, pipeline_max=3)
    state = aimed(three, passed(aimed(three, RolloutState(), 1), "dev"), 2)
    state = aimed(three, passed(state, "dev"), 3)
    assert targets(state) == [3, 1, 1, 1]
    assert targets(aimed(three, passed(state, "stage"), 3)) == [3, 2, 1, 1]


def test_a_halt_in_the_tail_waits_behind_the_wave_before_it() -> None:
    """What is halted at 1 follows to 2, which the first wave is still at."""
    state = aimed(THREE, passed(aimed(THREE, RolloutState(), 1), "dev"), 2)
    halted = replace(
        state, halts=halt(replace(state, targets={"stage": TargetRevision(1)}), by="a", why="b", now=START).halts
    )
    assert targets(aimed(THREE, halted, 2)) == [2, 2, 2, 2]


def test_waves_that_are_new_in_the_policy_take_part() -> None:
    state = aimed(replace(FINISH, waves=()), RolloutState(), 1)
    assert targets(aimed(FINISH, state, 2)) == [2, 2, 2]


def test_a_rollback_is_a_revision_with_the_content_of_an_older_one() -> None:
    """S1-26: a revert gets a new number; the digest tells."""
    stored = [
        DefinitionRevision(number, digest, f"r{number}", commit=f"c{number}")
        for number, digest in ((1, "x"), (2, "y"), (3, "x"))
    ]
    assert (newest_target(stored).reverts, newest_target(stored).commit) == (1, "c3")
    assert newest_target(stored[:2]).is_rollback is False


def test_each_wave_bakes_as_it_says_and_not_in_a_rollback() -> None:
    policy = replace(WAVES, bake=timedelta(minutes=5))
    state = assign_targets(policy, RolloutState(), TargetRevision(2), now=START)
    assert [bake.seconds // 60 for bake in bake_times(policy, state).values()] == [30, 5, 5]
    back = assign_targets(policy, RolloutState(), TargetRevision(2, reverts=1), now=START)
    assert [bake.seconds for bake in bake_times(policy, back).values()] == [0, 0, 0]
