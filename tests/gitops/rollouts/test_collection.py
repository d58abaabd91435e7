"""Counting by the difference: sets in order, moments, the self-check."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from gitops.rollouts.collection import RolloutCollection, RolloutItem, SortedKeys, build_collection
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import ALL_WAVE, ItemOrder, Policy
from tests.support.properties.examples import examples
from tests.support.rollouts.rollouts import MINUTE, START, items

NO_BAKE = {ALL_WAVE: timedelta()}


@examples(300)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from("abcdef"))))
def test_an_ordered_set_is_a_sorted_dictionary(changes: list[tuple[bool, int, str]]) -> None:
    ordered, naive = SortedKeys[tuple[int, str]](), dict[str, int]()
    for adds, number, key in changes:
        if adds:
            ordered.discard(key)
            ordered.add((number, key))
            naive[key] = number
        else:
            ordered.discard(key)
            naive.pop(key, None)
        assert list(ordered) == sorted((number, key) for key, number in naive.items())
        assert len(ordered) == len(naive)


def test_what_changes_by_time_alone_is_known_ahead() -> None:
    """A bake that ends, a deadline that passes; an item that was replaced counts no more."""
    policy = Policy(name="p", bake=5 * MINUTE)
    collection = RolloutCollection(policy, {ALL_WAVE: policy.bake})
    collection.advance_to(START)
    baking = RolloutItem("a", updated=True, granted=True, progress=ItemProgress(ready_since=START))
    late = RolloutItem("b", granted=True, healthy=False, progress=ItemProgress.start(START))
    collection.set_item(baking)
    collection.set_item(late)
    assert (collection.counters.settled, collection.next_change) == (0, START + 5 * MINUTE)
    collection.advance_to(START + 5 * MINUTE)
    assert (collection.counters.settled, collection.counters.failed) == (1, 0)
    collection.advance_to(START + 10 * MINUTE)
    just_after = START + 10 * MINUTE + timedelta(microseconds=1)
    assert (collection.counters.failed, collection.next_change) == (0, just_after), (
        "longer than the deadline, not as long as"
    )
    collection.advance_to(START + 11 * MINUTE)
    assert (collection.counters.failed, collection.next_change) == (1, None)
    collection.set_item(replace(late, healthy=True, updated=True, progress=ItemProgress(ready_since=START)))
    assert (collection.counters.failed, collection.counters.settled) == (0, 2)


def test_a_clock_that_steps_back_changes_nothing() -> None:
    collection = build_collection(Policy(name="p"), NO_BAKE, items("ab").values(), now=START)
    collection.advance_to(START - timedelta(days=1))
    assert collection.now == START


def test_a_shuffled_order_differs_by_target_and_is_always_the_same_for_one() -> None:
    """S1-19: deterministic, but not always the same unlucky one first."""
    policy = Policy(name="p", order=ItemOrder.SHUFFLE_PER_REVISION)
    found = list(items("abcdefgh").values())

    def order(salt: str) -> str:
        return "".join(item.key for item in build_collection(policy, NO_BAKE, found, now=START, salt=salt))

    assert order("r1") == order("r1")
    assert len({order(f"r{number}") for number in range(5)}) == 5


def test_the_self_check_finds_a_wrong_count_and_goes_on_with_the_right_one() -> None:
    collection = build_collection(Policy(name="p"), NO_BAKE, items("abc").values(), now=START)
    wave = collection.waves[ALL_WAVE]
    wave.counters = wave.counters._replace(settled=2)
    assert not collection.recount()
    assert collection.recount()
    assert collection.counters.settled == 0
