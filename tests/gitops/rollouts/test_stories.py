"""Whole rollouts, from the commit to the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from applier.causes import Cause, Reason
from gitops.records.rollout_records import decode_rollout, encode_rollout
from gitops.rollouts.advance import decide_grants, reserve
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.policy import DEFAULT_POLICY, ApprovalPoint, OnNewRevision, Policy
from gitops.rollouts.requests import approve
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Shape
from gitops.rollouts.state import TargetRevision
from tests.support.properties.examples import examples
from tests.support.rollouts.rollouts import MINUTE, Rollout, items, linear
from tests.support.rollouts.waves import WAVES

TEN = "0123456789"


def test_exponential_over_ten_instances_with_one_that_never_becomes_ready() -> None:
    """S1-16: it holds the second half, then halts the rollout; the revert touches the four that moved and nobody else."""
    rollout = Rollout(DEFAULT_POLICY, items(TEN))
    assert rollout.run(sick="3") == ["0", "1", "23"]
    assert rollout.waits()["9"].message == "10th of 10, exponential 2"
    wakes = rollout.wake_at()
    assert wakes
    assert wakes - rollout.now > 10 * MINUTE
    rollout.now = wakes
    assert rollout.step() == []
    assert rollout.waits()["9"].reason is Reason.HALTED
    rollout.aim(TargetRevision(3, reverts=1))
    rollout.items = items("012") | items("3", healthy=False) | items("456789", updated=True)
    assert rollout.run() == ["01", "23"]
    assert rollout.state.completed == TargetRevision(3)


def test_a_bad_revision_halts_after_the_allowed_failures_and_the_revert_repairs_in_order() -> None:
    rollout = Rollout(Policy(name="p", shape=linear(2), max_failures=CountOrPercent(2)), items(TEN))
    moved = ""
    while granted := rollout.step():
        moved += "".join(granted)
        rollout.apply(*granted, healthy=False)
        rollout.now += 11 * MINUTE
    assert (moved, rollout.state.halts[0].why) == ("0123", "4 of 10 items failed in wave all, more than the limit of 2")
    rollout.aim(TargetRevision(3, reverts=1))
    rollout.items = items("0123", healthy=False) | items("456789", updated=True)
    assert rollout.run() == ["01", "23"]


def test_a_person_keeps_their_own_environment_where_it_is() -> None:
    """S1-12: others pass, and it follows when it is released."""
    rollout = Rollout(Policy(name="p", shape=linear(3)), items("012345"))
    rollout.change("1", held=Cause(Reason.HELD, "ada: my session is in memory"))
    assert rollout.run() == ["023", "45"]
    assert rollout.state.completed == TargetRevision(1)
    rollout.change("1", held=None)
    assert rollout.run() == ["1"]
    rollout.step()
    assert rollout.state.completed == TargetRevision(2)


def test_a_window_that_closes_in_the_middle_lets_go_on_at_the_number_that_has_settled() -> None:
    """W28: 0 to 3 moved and 3 is not ready when the window closes; when it opens again, 4 to 7 start at once."""
    rollout = Rollout(Policy(name="p", shape=Exponential(2)), items(TEN))
    for _ in range(3):
        rollout.apply(*(key for key in rollout.step() if key != "3"))
    rollout.closed = {"all": Cause(Reason.GATE_CLOSED, "window business-hours")}
    rollout.apply("3")
    assert rollout.step() == []
    rollout.closed = {}
    assert rollout.step() == ["4", "5", "6", "7"]


def test_a_new_commit_in_the_middle_moves_everybody_straight_to_the_newest() -> None:
    """S1-29: nothing goes to the superseded revision any more."""
    rollout = Rollout(Policy(name="p", shape=linear(2)), items("0123"))
    assert rollout.step() == ["0", "1"]
    rollout.aim(TargetRevision(3))
    rollout.items = items("0123")
    decision = rollout.ask()
    assert dict(decision.grants) == {"0": 3, "1": 3}


def test_a_pipeline_moves_two_revisions_at_once() -> None:
    """S1-29, S1-30: the canary goes on to r3 while prod is still moving to r2."""
    policy = Policy(name="p", shape=linear(1), waves=WAVES.waves[:1], on_new_revision=OnNewRevision.PIPELINE)
    rollout = Rollout(policy, items("a", labels={"tier": "canary"}) | items("yz"))
    rollout.step()
    rollout.apply("a")
    rollout.now += 30 * MINUTE
    assert rollout.step() == ["y"]
    rollout.aim(TargetRevision(3))
    rollout.items["a"] = RolloutItem("a", {"tier": "canary"})
    assert dict(rollout.ask().grants) == {"a": 3}
    rollout.apply("y")
    assert dict(rollout.ask().grants) == {"a": 3, "z": 2}


def test_an_approval_by_count_counts_what_moves_to_that_target() -> None:
    """In a pipeline: two are at r2 already, none at r3."""
    policy = Policy(
        name="p",
        shape=linear(1),
        waves=WAVES.waves[:1],
        on_new_revision=OnNewRevision.PIPELINE,
        approvals=(ApprovalPoint(after_settled=2),),
    )
    rollout = Rollout(policy, items("a", labels={"tier": "canary"}) | items("yz"))
    rollout.step()
    rollout.apply("a")
    rollout.now += 30 * MINUTE
    assert rollout.run() == ["y"]
    rollout.state = approve(policy, rollout.state, "2", by="ada", why="", now=rollout.now)
    assert rollout.step() == ["z"]
    rollout.aim(TargetRevision(3))
    rollout.items["a"] = RolloutItem("a", {"tier": "canary"})
    assert dict(rollout.ask().grants) == {"a": 3}


@examples(60)
@given(
    shape=st.one_of(st.integers(2, 4).map(Exponential), st.integers(1, 4).map(lambda n: Linear(CountOrPercent(n)))),
    crashes=st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=20),
)
def test_a_restart_between_any_two_writes_grants_nothing_twice(
    shape: Shape, crashes: list[tuple[int, bool, bool]]
) -> None:
    """S1-28: grants are stored one by one, then the record; the process dies after any of these writes, and starts from what is stored."""
    rollout = Rollout(Policy(name="p", shape=shape), items(TEN))
    granted: list[str] = []
    for number in range(len(crashes) + len(TEN) + 1):
        stored, records, settles = crashes[number] if number < len(crashes) else (len(TEN), True, True)
        collection = rollout.collection()
        state = decode_rollout(encode_rollout(rollout.state), now=rollout.now)
        decision = decide_grants(rollout.policy, collection, state, now=rollout.now)
        reserve(collection, decision, now=rollout.now)
        written = list(decision.grants)[:stored]
        for key in written:
            rollout.items[key] = collection[key]
        granted += written
        if records and len(written) == len(decision.grants):
            rollout.state = decision.state
        counters = rollout.collection().counters
        match shape:
            case Exponential(factor):
                most = (factor - 1) * counters.settled
            case Linear(n):
                most = n.value
        assert counters.in_flight <= max(1, most)
        if settles:
            rollout.apply(*(key for key, item in rollout.items.items() if item.granted and not item.updated))
    assert granted == sorted(TEN)
    rollout.step()
    assert rollout.state.completed == TargetRevision(2)


def test_the_record_says_what_was_decided() -> None:
    rollout = Rollout(
        Policy(name="p", shape=linear(2)), {name: RolloutItem(name) for name in ("prod/api", "prod/auth")}
    )
    rollout.step()
    rollout.apply("prod/api", "prod/auth")
    rollout.step()
    assert [(entry.what, entry.subject, entry.by) for entry in rollout.state.decisions] == [
        ("target", "r2: all", "levelgate"),
        ("granted", "r2, wave all: prod/api, prod/auth", "levelgate"),
        ("completed", "r2", "levelgate"),
    ]
