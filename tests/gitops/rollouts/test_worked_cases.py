"""Blocked and disturbed rollouts, case by case: the state, the counters, and who may move now."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from applier.causes import Cause, Reason
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.policy import Mode, Policy
from gitops.rollouts.shapes import Exponential, Linear, Shape
from gitops.rollouts.state import TargetRevision
from gitops.rollouts.targets import assign_targets
from tests.support.rollouts.rollouts import MINUTE, Rollout, items, linear, settled

DOUBLING = Policy(name="p", shape=Exponential(2))
TEN = "0123456789"


def by_threes() -> Policy:
    return Policy(name="p", shape=linear(3))


def moved(names: str, *, unready: str = "", of: str = TEN) -> dict[str, RolloutItem]:
    """`names` have settled except for `unready`, which are updated and not healthy; the others have not moved."""
    found = items(of)
    for name in names:
        found[name] = settled(found[name])
    for name in unready:
        found[name] = RolloutItem(name, updated=True, granted=True, healthy=False)
    return found


def state_of(policy: Policy, found: Iterable[RolloutItem]) -> tuple[int, int, list[str]]:
    """u, s, who may move."""
    rollout = Rollout(policy, {item.key: item for item in found})
    counters = rollout.collection().counters
    return counters.updated, counters.settled, list(rollout.ask().grants)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (linear(1), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]),
        (linear(3), ["012", "345", "678", "9"]),
        (linear(4), ["0123", "4567", "89"]),
        (Exponential(2), ["0", "1", "23", "4567", "89"]),
        (Exponential(3), ["0", "12", "345678", "9"]),
        (Exponential(5), ["0", "1234", "56789"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", list(Mode))
def test_all_goes_well(shape: Shape, mode: Mode, expected: list[str]) -> None:
    """S1-9, S1-17: who moves in which round when everything before has settled; batch and sliding agree at the ends of batches."""
    rollout = Rollout(Policy(name="p", shape=shape, mode=mode), items(TEN))
    assert rollout.run() == expected


def test_b1_one_unready_item_holds_the_whole_second_half() -> None:
    assert state_of(DOUBLING, moved("0123", unready="3").values()) == (4, 3, [])


def test_b2_when_it_becomes_ready_the_number_doubles() -> None:
    assert state_of(DOUBLING, moved("0123").values()) == (4, 4, ["4", "5", "6", "7"])


def test_b3_an_incomplete_batch_holds_the_next() -> None:
    assert state_of(by_threes(), moved("012345", unready="4").values()) == (6, 5, [])


def test_b4_an_item_that_bakes_has_not_settled() -> None:
    policy = Policy(name="p", shape=linear(3), bake=5 * MINUTE)
    rollout = Rollout(policy, moved("02"))
    rollout.change("1", granted=True)
    rollout.apply("1")
    rollout.now += 5 * MINUTE - MINUTE / 60
    assert rollout.collection().counters[:3] == (10, 3, 2)
    assert rollout.step() == []
    rollout.now += MINUTE / 60
    assert rollout.step() == ["3", "4", "5"]


def test_b5_a_regression_stops_growth_and_nothing_is_undone() -> None:
    assert state_of(DOUBLING, moved("01234567", unready="2").values()) == (8, 7, [])


def test_b6_many_regressions_are_no_negative_work() -> None:
    assert state_of(DOUBLING, moved("01234567", unready="234567").values()) == (8, 2, [])


def test_b7_a_held_item_uses_up_no_place() -> None:
    """S1-12, S1-24."""
    found = items(TEN)
    found["1"] = RolloutItem("1", held=Cause(Reason.HELD, "pod swap"))
    assert state_of(by_threes(), found.values()) == (0, 0, ["0", "2", "3"])


def test_b8_items_that_were_moved_out_of_turn_count() -> None:
    """By index 0 to 5 would open: twice the batch."""
    assert state_of(by_threes(), moved("789").values()) == (3, 3, ["0", "1", "2"])


def test_b9_a_new_item_in_front_ranks_first() -> None:
    """S1-20."""
    found = moved("0123") | {"!": RolloutItem("!", is_new=True, healthy=False)}
    assert state_of(DOUBLING, found.values()) == (4, 4, ["!", "4", "5", "6"])


def test_b10_broken_items_do_not_block_their_own_repair() -> None:
    """S1-15, S1-32: 4 to 9 never moved, so they are at the old content by its hash; 0 to 3 carry the bad one."""
    found = {name: RolloutItem(name, updated=True) for name in "456789"} | items("0123", healthy=False)
    assert state_of(DOUBLING, found.values()) == (6, 6, ["0", "1"])


def test_b11_a_rollback_of_all_goes_by_the_same_gate() -> None:
    assert state_of(Policy(name="p"), items(TEN, healthy=False).values()) == (0, 0, ["0"])
    assert state_of(Policy(name="p", shape=linear(1)), items(TEN, healthy=False).values()) == (0, 0, ["0"])


def test_b12_a_closed_window_is_named_and_not_the_pace() -> None:
    """S1-4: gates are AND-ed."""
    window = Cause(Reason.GATE_CLOSED, "window year-end-freeze")
    rollout = Rollout(by_threes(), items(TEN, blocked=window))
    assert rollout.step() == []
    assert set(rollout.waits().values()) == {window}


def test_b13_nothing_is_vacuously_complete() -> None:
    rollout = Rollout(DOUBLING, {})
    assert (rollout.step(), rollout.waits(), rollout.wake_at()) == ([], {}, None)
    assert rollout.state.completed == TargetRevision(1), "a revision that nobody ran has proven nothing"


def test_b14_any_shape_opens_a_singleton() -> None:
    for shape in (Linear(), linear("1%"), Exponential(9)):
        assert state_of(Policy(name="p", shape=shape), items("0").values()) == (0, 0, ["0"])


def test_b10_as_a_story_the_revert_repairs_in_order() -> None:
    """S1-32: A, B, C carry the new content, D does not; with the old content D is done, the others go back in order."""
    rollout = Rollout(Policy(name="p", shape=linear(1)), moved("ABC", unready="ABC", of="ABCD"))
    rollout.state = assign_targets(rollout.policy, rollout.state, TargetRevision(3, reverts=1), now=rollout.now)
    rollout.items = items("ABC", healthy=False) | {"D": RolloutItem("D", updated=True)}
    assert rollout.run() == ["A", "B", "C"]
