"""What holds items back besides the pace: waves, approvals, failures, availability, people; and what passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from applier.causes import Cause, Reason
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import ApprovalPoint, NewInstances, OnHalt, Policy, PolicyScope, Rollback
from gitops.rollouts.requests import approve, halt, resume
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Unpaced
from gitops.rollouts.state import RequestRefused, TargetRevision
from renderer.label_selector import LabelSelector
from tests.support.rollouts.rollouts import MINUTE, START, Rollout, items, linear, settled
from tests.support.rollouts.waves import WAVES, tier, two_waves

# ---- waves


def test_a_wave_starts_when_the_one_before_has_settled_with_its_own_bake() -> None:
    """The canaries go two at a time and bake for 30 minutes; then prod starts from one again."""
    rollout = two_waves()
    assert rollout.step() == ["a", "b"]
    rollout.apply("a", "b")
    assert rollout.step() == []
    assert rollout.wake_at() == rollout.now + 30 * MINUTE
    rollout.now += 30 * MINUTE
    assert rollout.run() == ["c", "d", "ef"]


def test_a_held_canary_is_passed() -> None:
    """S1-12, S1-24: a hold never blocks others."""
    rollout = two_waves()
    rollout.change("b", held=Cause(Reason.HELD, "investigating"))
    assert rollout.step() == ["a"]
    rollout.apply("a")
    rollout.now += 30 * MINUTE
    assert rollout.step() == ["c"]


@pytest.mark.parametrize("reason", [Reason.HELD, Reason.SUSPENDED])
def test_one_that_a_person_holds_on_its_way_is_passed(reason: Reason) -> None:
    """S1-12, S1-24, surface 1.2: it uses up no place, is not waited for, and does not fail; once released it counts again."""
    rollout = Rollout(Policy(name="p", shape=Exponential(2)), items("01234567"))
    assert rollout.run(sick="3") == ["0", "1", "23"]
    rollout.change("3", held=Cause(reason, "somebody looks into it"))
    assert rollout.run() == ["4", "567"]
    assert {key: wait.reason for key, wait in rollout.waits().items()} == {"3": reason}
    assert rollout.state.completed == TargetRevision(1)
    rollout.change("3", held=None)
    assert rollout.waits()["3"].reason is Reason.PROGRESSING


def test_one_that_cannot_be_rendered_any_more_on_its_way_is_not_passed() -> None:
    """What goes wrong at the target stops the others; only a person's word lets them pass."""
    rollout = Rollout(Policy(name="p", shape=linear(2)), items("0123"))
    rollout.step()
    rollout.change("0", held=Cause(Reason.RENDER_FAILED, "no field size"))
    rollout.apply("1")
    assert rollout.step() == []


def test_one_that_is_held_on_its_way_has_moved_for_an_approval_by_number() -> None:
    """No more than three, before somebody has agreed, have ever seen the new revision."""
    rollout = Rollout(Policy(name="p", shape=linear(2), approvals=(ApprovalPoint(after_settled=3),)), items("012345"))
    rollout.step()
    rollout.change("0", held=Cause(Reason.HELD, "investigating"))
    assert rollout.run() == ["2"]


def test_a_canary_behind_a_window_is_not_passed() -> None:
    """The calendar is no hold: it is waited for."""
    rollout = two_waves()
    rollout.change("b", blocked=Cause(Reason.GATE_CLOSED, "window"))
    rollout.step()
    rollout.apply("a")
    rollout.now += 30 * MINUTE
    assert rollout.step() == []


def test_a_canary_that_gets_sick_stops_the_waves_after_it() -> None:
    rollout = two_waves()
    rollout.step()
    rollout.apply("a", "b")
    rollout.now += 30 * MINUTE
    assert rollout.step() == ["c"]
    rollout.apply("c")
    rollout.apply("a", healthy=False)
    assert rollout.step() == []


def test_an_instance_of_no_wave_or_of_two_goes_last() -> None:
    """S1-19: nobody is left out silently."""
    both = replace(tier("prod"), name="everyone", selector=LabelSelector())
    policy = Policy(name="p", waves=(tier("canary"), both))
    assert [policy.wave_of({"tier": name}) for name in ("canary", "prod")] == ["rest", "everyone"]
    assert WAVES.wave_of({"tier": "dev"}) == "rest"


def test_a_wave_behind_its_own_window_waits_for_it() -> None:
    rollout = two_waves()
    opens = rollout.now + 20 * MINUTE
    rollout.closed = {"canary": Cause(Reason.GATE_CLOSED, "window dba-hours", until=opens)}
    assert rollout.step() == []
    assert rollout.wake_at() == opens
    rollout.closed = {}
    assert rollout.step() == ["a", "b"]


def test_a_hold_lapses_as_it_says_and_after_the_longest_that_is_allowed() -> None:
    """S1-12."""
    policy = Policy(name="p", max_hold=60 * MINUTE)
    assert policy.hold_end(START, START + 5 * MINUTE) == START + 5 * MINUTE
    assert policy.hold_end(START, START + 500 * MINUTE) == START + 60 * MINUTE
    assert policy.hold_end(START, None) == START + 60 * MINUTE


# ---- order


def test_higher_priority_goes_first_then_the_name() -> None:
    """S1-19."""
    found = {
        "b": RolloutItem("b"),
        "a": RolloutItem("a"),
        "c": RolloutItem("c", priority=1),
        "d": RolloutItem("d", priority=-1),
    }
    assert Rollout(Policy(name="p", shape=linear(1)), found).run() == ["c", "a", "b", "d"]


# ---- approvals


def test_a_wave_that_needs_approval_waits_for_a_person() -> None:
    policy = replace(WAVES, approvals=(ApprovalPoint(after_wave="canary", by=("leads",)),), bake=0 * MINUTE)
    rollout = two_waves(policy)
    rollout.step()
    rollout.apply("a", "b")
    rollout.now += 30 * MINUTE
    assert rollout.step() == []
    told = {"approval": {"after": "canary", "by": ["leads"]}}
    wait = Cause(Reason.APPROVAL_REQUIRED, "r2 needs approval after canary by leads", details=told)
    assert rollout.waits()["c"] == wait
    rollout.state = approve(policy, rollout.state, "canary", by="ada", why="looks good", now=rollout.now)
    assert rollout.step() == ["c"]


def test_an_approval_does_not_pass_health() -> None:
    """Approved ahead of time, the canaries still have to settle."""
    policy = replace(WAVES, approvals=(ApprovalPoint(after_wave="canary"),))
    rollout = two_waves(policy)
    rollout.state = approve(policy, rollout.state, "canary", by="ada", why="", now=rollout.now)
    assert rollout.step() == ["a", "b"]
    assert rollout.step() == []


def test_an_approval_after_a_number_lets_no_more_than_that_move() -> None:
    policy = Policy(name="p", shape=Exponential(2), approvals=(ApprovalPoint(after_settled=3),))
    rollout = Rollout(policy, items("0123456789"))
    assert rollout.run() == ["0", "1", "2"]
    assert rollout.waits()["3"].message == "r2 needs approval after 3"
    rollout.state = approve(policy, rollout.state, "3", by="ada", why="", now=rollout.now)
    assert rollout.run() == ["3", "4567", "89"]


def test_approvals_lapse_with_the_target() -> None:
    policy = replace(WAVES, approvals=(ApprovalPoint(after_wave="canary"),))
    rollout = two_waves(policy)
    rollout.state = approve(policy, rollout.state, "canary", by="ada", why="", now=rollout.now)
    rollout.aim(TargetRevision(3))
    assert rollout.state.approvals == ()


def test_an_approval_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(RequestRefused, match="requires no approval after 'prod'; add the point to `approvals`"):
        approve(WAVES, two_waves().state, "prod", by="ada", why="", now=two_waves().now)


# ---- failures and the halt


def fail(rollout: Rollout, *keys: str) -> None:
    rollout.apply(*keys, healthy=False)
    rollout.now += 11 * MINUTE


def test_a_failure_beyond_the_allowed_halts_until_there_is_another_target() -> None:
    """A latch: recovery does not lift it, a newer revision does."""
    rollout = Rollout(Policy(name="p", shape=linear(3)), items("0123456"))
    rollout.step()
    rollout.apply("0", "2")
    fail(rollout, "1")
    assert rollout.step() == []
    assert [(one.target, one.why) for one in rollout.state.halts] == [
        (2, "1 of 7 items failed in wave all, more than the limit of 0")
    ]
    rollout.apply("1")
    assert rollout.step() == []
    rollout.aim(TargetRevision(3))
    rollout.items = items("0123456")
    assert rollout.step() == ["0", "1", "2"]


def test_baking_is_no_failure_and_neither_is_waiting_for_a_window() -> None:
    rollout = Rollout(Policy(name="p", bake=60 * MINUTE), items("01"))
    rollout.step()
    rollout.apply("0")
    rollout.now += 59 * MINUTE
    assert rollout.ask().state.halts == ()
    still = Rollout(Policy(name="p"), {"0": RolloutItem("0", granted=True, progress=ItemProgress.start(rollout.now))})
    still.change("0", progress=still.items["0"].progress.with_observation(still.now, is_healthy=False, is_waiting=True))
    still.now += 600 * MINUTE
    assert still.ask().state.halts == ()


def test_a_refused_apply_and_flapping_fail_at_once() -> None:
    for broken in ({"error": "denied"}, {"progress": ItemProgress(flaps=4)}):
        rollout = Rollout(Policy(name="p", shape=linear(2)), items("012"))
        rollout.step()
        rollout.change("0", **broken)
        rollout.step()
        assert rollout.state.halts


def test_failures_that_are_allowed_do_not_stop_the_rollout() -> None:
    """One may fail: it counts as done, so that the batch and the wave end without it."""
    rollout = Rollout(Policy(name="p", shape=linear(3), max_failures=CountOrPercent(1)), items("01234567"))
    rollout.step()
    rollout.apply("0", "2")
    fail(rollout, "1")
    assert rollout.run() == ["345", "67"]
    assert not rollout.state.halts


def test_a_wave_that_halts_has_not_been_passed() -> None:
    """Nothing is left to wait for in it, but a later wave must not take what failed there."""
    rollout = Rollout(Policy(name="p"), items("0"))
    rollout.step()
    fail(rollout, "0")
    rollout.step()
    assert (rollout.state.passed, rollout.state.completed) == ({}, TargetRevision(1))
    assert rollout.state.halts


def test_what_fails_after_the_rollout_has_completed_halts_nothing() -> None:
    """A halt stops a rollout; afterwards there is none, only an instance that is not healthy."""
    rollout = Rollout(Policy(name="p", shape=linear(2)), items("01"))
    rollout.run()
    rollout.step()
    fail(rollout, "1")
    rollout.step()
    assert (rollout.state.completed, rollout.state.halts) == (TargetRevision(2), ())


def test_a_share_of_failures_is_of_the_wave_and_rounded_down() -> None:
    """A tenth of two canaries is none."""
    rollout = two_waves(replace(WAVES, max_failures=CountOrPercent(10, is_percent=True)))
    rollout.step()
    fail(rollout, "a")
    rollout.step()
    assert rollout.state.halts


def test_resume_needs_a_reason_and_accepts_the_failures_there_are() -> None:
    rollout = Rollout(Policy(name="p", shape=linear(2)), items("012345"))
    rollout.step()
    rollout.apply("1")
    fail(rollout, "0")
    rollout.step()
    failed = {"all": rollout.collection().waves["all"].counters.failed}
    with pytest.raises(RequestRefused, match="resume needs a reason"):
        resume(rollout.state, failed, by="ada", why=" ", now=rollout.now)
    rollout.state = resume(rollout.state, failed, by="ada", why="known flake", now=rollout.now)
    assert rollout.step() == ["2", "3"]
    rollout.apply("3")
    fail(rollout, "2")
    assert rollout.step() == []
    assert rollout.state.halts[0].why == "2 of 6 items failed in wave all, more than the limit of 1"


def test_a_person_can_halt_and_only_with_a_reason() -> None:
    rollout = Rollout(Policy(name="p"), items("01"))
    with pytest.raises(RequestRefused, match="halt needs a reason"):
        halt(rollout.state, by="ada", why="", now=rollout.now)
    rollout.state = halt(rollout.state, by="ada", why="INC-7", now=rollout.now)
    assert rollout.step() == []
    assert rollout.waits()["0"].message == "r2 has been halted since 2026-11-20T13:00:00Z by ada: INC-7"
    last = rollout.state.decisions[-1]
    assert (last.what, last.subject, last.by, last.why) == ("halted", "r2", "ada", "INC-7")


def test_roll_back_on_halt_returns_to_the_last_completed_revision() -> None:
    """Where it is opted in, and until there is a newer one."""
    policy = Policy(name="p", shape=linear(2), on_halt=OnHalt.ROLL_BACK, rollback=Rollback(shape=Unpaced()))
    rollout = Rollout(policy, items("0123"))
    rollout.step()
    fail(rollout, "0", "1")
    assert rollout.wake_at() == rollout.now, "a halt may mean another target at once"
    rollout.step()
    rollout.aim(TargetRevision(2))
    assert {str(target) for target in rollout.state.targets.values()} == {"r1"}
    rollout.items = items("01", healthy=False) | items("23", updated=True)
    assert rollout.step() == ["0", "1"]
    rollout.aim(TargetRevision(2))
    assert {str(target) for target in rollout.state.targets.values()} == {"r1"}
    rollout.apply("0")
    fail(rollout, "1")
    rollout.step()
    assert {halt.target for halt in rollout.state.halts} == {1, 2}, "a rollback can fail as well"
    rollout.aim(TargetRevision(3))
    assert {str(target) for target in rollout.state.targets.values()} == {"r3"}


# ---- rollback


def test_a_rollback_skips_bake_and_approvals_and_has_its_own_shape() -> None:
    policy = Policy(
        name="p",
        shape=linear(1),
        bake=60 * MINUTE,
        approvals=(ApprovalPoint(after_settled=1),),
        rollback=Rollback(shape=Linear(CountOrPercent(4))),
    )
    rollout = Rollout(policy, items("012345"))
    rollout.aim(TargetRevision(3, reverts=1))
    assert rollout.run() == ["0123", "45"]


# ---- availability, repair


def test_too_few_healthy_items_hold_back_the_healthy_ones_only() -> None:
    policy = Policy(name="p", shape=Unpaced(), min_available=CountOrPercent(75, is_percent=True))
    rollout = Rollout(
        policy, items("0123") | {"4": RolloutItem("4", healthy=False), "5": RolloutItem("5", healthy=False)}
    )
    assert rollout.step() == ["4", "5"]
    assert rollout.waits()["0"].message == "5 of 6 must be healthy, 4 are"
    rollout.apply("4")
    assert rollout.step() == ["0", "1", "2", "3"]


def test_what_is_not_healthy_may_move_out_of_turn_where_the_policy_governs_all() -> None:
    """A repair does not queue, but a halt and a hold stand."""
    rollout = two_waves(replace(WAVES, governs=PolicyScope.ALL))
    rollout.change("e", healthy=False)
    assert rollout.step() == ["a", "b", "e"]
    rollout = two_waves(replace(WAVES, governs=PolicyScope.ALL))
    rollout.change("e", healthy=False)
    rollout.state = halt(rollout.state, by="ada", why="INC-7", now=rollout.now)
    assert rollout.step() == []


def test_a_repair_out_of_turn_takes_a_place() -> None:
    rollout = Rollout(
        Policy(name="p", shape=linear(2), governs=PolicyScope.ALL),
        items("abc") | {"z": RolloutItem("z", healthy=False)},
    )
    assert rollout.step() == ["z", "a"]


def test_what_runs_nothing_yet_is_not_repaired_by_a_move() -> None:
    policy = Policy(name="p", shape=linear(1), governs=PolicyScope.ALL)
    rollout = Rollout(policy, items("ab", is_new=True, healthy=False), completed=None)
    assert rollout.step() == ["a"]


# ---- new instances


NEW = {"n": RolloutItem("n", is_new=True, healthy=False)}


def test_the_first_rollout_is_not_paced_by_the_default() -> None:
    """S1-7: there is nothing else to start at."""
    rollout = Rollout(Policy(), items("0123", is_new=True, healthy=False), completed=None)
    assert rollout.step() == ["0", "1", "2", "3"]


def test_the_first_rollout_is_paced_where_somebody_says_so() -> None:
    everyone = items("0123", is_new=True, healthy=False)
    assert Rollout(Policy(name="p"), everyone, completed=None).step() == ["0"]
    gated = Rollout(Policy(), everyone, completed=None)
    gated.pace = lambda _, counters: counters.in_flight < 3
    assert gated.step() == ["0", "1", "2"]


def test_a_pace_that_a_definition_sets_takes_the_place_of_all_shapes_of_the_policy() -> None:
    """It paces creation as well; the waves stay."""
    canaries = items("ab", labels={"tier": "canary"}, is_new=True)
    rollout = Rollout(WAVES.with_pace(linear(1)), canaries | items("cd", labels={"tier": "prod"}), completed=None)
    assert rollout.step() == ["a"]
    assert Rollout(Policy().with_pace(linear(2)), canaries, completed=None).step() == ["a", "b"]
    assert Rollout(WAVES.with_pace(Unpaced()), canaries, completed=None).step() == ["a", "b"]


def test_a_new_instance_joins_at_once_when_no_rollout_is_under_way() -> None:
    """S1-8."""
    rollout = Rollout(Policy(name="p"), {"0": settled(RolloutItem("0"))} | NEW, completed=2)
    assert rollout.step() == ["n"]


def test_a_new_instance_does_not_enlarge_the_canary() -> None:
    """S1-41: outside of the frontier it starts at the last completed revision, and waits its turn there."""
    rollout = Rollout(Policy(name="p"), items("01") | NEW)
    decision = rollout.ask()
    assert (dict(decision.grants), dict(decision.starts)) == ({"0": 2}, {"n": 1})
    rollout.step()
    assert (rollout.items["n"].is_new, dict(rollout.ask().starts)) == (False, {})


def test_a_new_instance_inside_the_frontier_joins_the_new_revision() -> None:
    """S1-41."""
    rollout = Rollout(Policy(name="p", shape=linear(2)), items("z") | NEW)
    decision = rollout.ask()
    assert (dict(decision.grants), dict(decision.starts)) == ({"n": 2, "z": 2}, {})


def test_a_policy_may_send_new_instances_to_the_newest_always_but_not_past_a_halt() -> None:
    rollout = Rollout(Policy(name="p", new_instances=NewInstances.LATEST), items("01") | NEW)
    assert dict(rollout.ask().grants) == {"n": 2}
    rollout.state = halt(rollout.state, by="ada", why="INC-7", now=rollout.now)
    assert (dict(rollout.ask().grants), dict(rollout.ask().starts)) == ({}, {"n": 1})


def test_a_new_instance_that_joins_counts_once() -> None:
    """It takes its place in the frontier, and before the next approval."""
    latest = Policy(name="p", shape=linear(3), new_instances=NewInstances.LATEST)
    assert Rollout(latest, items("01") | NEW).step() == ["n", "0", "1"]
    assert Rollout(replace(latest, shape=linear(2)), items("01") | NEW).step() == ["n", "0"]
    asking = replace(latest, approvals=(ApprovalPoint(after_settled=2),))
    assert Rollout(asking, items("01") | NEW).step() == ["n", "0"]


def test_a_held_new_instance_is_not_started() -> None:
    rollout = Rollout(Policy(name="p"), items("0") | {"n": replace(NEW["n"], held=Cause(Reason.HELD, "later"))})
    decision = rollout.ask()
    assert ("n" in decision.grants, "n" in decision.starts) == (False, False)
