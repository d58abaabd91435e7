"""Properties of every rollout, on random histories against a naive reference: `LEVELGATE_FUZZ=N` multiplies how many."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gitops.rollouts.advance import counters_after, reserve
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.policy import Policy
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear
from gitops.rollouts.state import TargetRevision
from tests.support.properties.examples import examples
from tests.support.rollouts.histories import CLOSED, KIND_EVENTS, RolloutHistory, histories, played
from tests.support.rollouts.reference import in_order, is_updated
from tests.support.rollouts.rollouts import Rollout, items

Case = tuple[RolloutHistory, list[tuple[int, str]]]


@examples(900)
@given(histories())
def test_every_decision_is_that_of_the_definitions(case: Case) -> None:
    """Counters kept by the difference, heaps and moments against counting from scratch."""
    for history in played(case):
        naive = history.naive()
        halted, over = history.halted(), history.state.completed == TargetRevision(2)
        decision = history.ask()
        assert list(decision.grants) == naive.may_move(halted=halted, over=over)
        assert bool(decision.state.halts) == (halted or (naive.exceeds() and not over))
        for wave in history.policy.all_waves:
            counters = history.collection.waves[wave.name].counters
            assert (counters.settled, counters.failed) == (naive.settled(wave.name), naive.failed(wave.name))
        assert history.collection.recount()


@examples(150)
@given(histories())
def test_the_counters_after_a_step_are_those_of_a_collection_that_has_counted_it(case: Case) -> None:
    history, script = case
    new_items = (RolloutItem(f"fresh{number}", is_new=True) for number in range(3))
    for item in new_items:
        history.put(item)
    for one in played((history, script)):
        decision, counted = one.ask(), one.anew({item.key: item for item in one.collection})
        reserve(counted, decision, now=one.now)
        assert counters_after(one.collection, decision) == counted.wave_counters


@examples(150)
@given(histories())
def test_p1_bounded_exposure(case: Case) -> None:
    """Right after a release, in flight <= max(in flight before, F(s) - s), in each wave; a tolerated failure is not in flight any more."""
    for history in played(case):
        naive = history.naive()
        before = {name: wave.counters for name, wave in history.collection.waves.items()}
        granted = history.ask().grants
        for name, counters in before.items():
            done = counters.settled + counters.failed
            released = sum(item.key in granted for item in naive.wave(name))
            in_flight = counters.updated - done
            assert in_flight + released <= max(in_flight, naive.frontier(name) - done)


@examples(150)
@given(histories())
def test_p2_order(case: Case) -> None:
    """Who may move has no eligible item before it in its wave that may not."""
    for history in played(case):
        granted = history.ask().grants
        naive = history.naive()
        total = history.collection.counters
        lacking = total.healthy < history.policy.min_available.round_up(total.total)
        for wave in history.policy.all_waves:
            may = [item.key in granted for item in naive.eligible(wave.name) if not (lacking and item.healthy)]
            assert may == sorted(may, reverse=True)


@examples(150)
@given(histories(events=KIND_EVENTS))
def test_p3_growth(case: Case) -> None:
    """Nothing gets unready: what has settled, and what has moved or may, only grow."""
    settled, reached = 0, set[str]()
    case[0].policy = replace(case[0].policy, min_available=CountOrPercent(0))
    for history in played(case):
        counters = history.collection.counters
        now_reached = {key for key, item in history.items.items() if is_updated(item)} | set(history.ask().grants)
        if history.ask().state.halts:
            return
        assert counters.settled >= settled
        assert now_reached >= reached
        settled, reached = counters.settled, now_reached


@examples(150)
@given(histories())
def test_p4_no_retraction(case: Case) -> None:
    """A decision speaks only of items that have not moved, and what it granted stays granted."""
    for history in played(case):
        decision = history.ask()
        assert not any(is_updated(history.items[key]) for key in decision.grants)
        history.carry_out(decision)
        assert all(history.items[key].granted for key in decision.grants)


@examples(60)
@given(total=st.integers(1, 80), number=st.integers(1, 9))
def test_p5_liveness(total: int, number: int) -> None:
    """If all goes well: ceil(N/n) rounds, or ceil(log N to base k) + 1 of them."""
    everyone = "".join(chr(0x100 + index) for index in range(total))
    linear = Rollout(Policy(name="p", shape=Linear(CountOrPercent(number))), items(everyone)).run()
    assert (len(linear), sum(map(len, linear))) == (-(-total // number), total)
    factor = number + 1
    powers = next(power for power in range(total + 1) if factor**power >= total)
    exponential = Rollout(Policy(name="p", shape=Exponential(factor)), items(everyone)).run()
    assert (len(exponential), sum(map(len, exponential))) == (powers + 1, total)


@examples(150)
@given(histories())
def test_p6_repair(case: Case) -> None:
    """Items that are not at the target never reduce the frontier, however broken they are."""
    case[0].policy = replace(case[0].policy, min_available=CountOrPercent(0))
    for history in played(case):
        usual = history.ask()
        broken = {
            key: item if is_updated(item) else replace(item, healthy=False) for key, item in history.items.items()
        }
        assert history.ask(history.anew(broken)).grants == usual.grants


@examples(150)
@given(histories())
def test_p6_repair_passes_a_lack_of_availability(case: Case) -> None:
    """`minAvailable` holds back only what is healthy: moving the others takes nothing away."""
    for history in played(case):
        broken = {
            key: item if is_updated(item) else replace(item, healthy=False) for key, item in history.items.items()
        }
        collection = history.anew(broken)
        demanding = replace(history.policy, min_available=CountOrPercent(100, is_percent=True))
        history.policy = replace(history.policy, min_available=CountOrPercent(0))
        relaxed = history.ask(collection).grants
        history.policy = demanding
        assert history.ask(collection).grants == relaxed


@examples(150)
@given(histories())
def test_p7_determinism(case: Case) -> None:
    """Whatever the order in which the items were seen, and however often they were counted."""
    for history in played(case):
        usual = history.ask()
        assert history.ask(history.anew(backwards=True)) == usual
        assert history.ask(history.anew()) == usual


@examples(150)
@given(histories())
def test_p8_idempotence(case: Case) -> None:
    """Asked twice the answer is the same; once the grants are counted, nothing is granted again, and nothing more is recorded."""
    for history in played(case):
        decision = history.ask()
        assert history.ask() == decision
        history.carry_out(decision)
        again = history.ask()
        assert (dict(again.grants), again.state) == ({}, decision.state)


@examples(150)
@given(histories(), st.integers(0, 2**12 - 1))
def test_p9_and_composition(case: Case, closed: int) -> None:
    """With a second gate that is closed for some items no more may move than with either gate alone."""
    for history in played(case):
        for item in list(history.items.values()):
            history.put(replace(item, blocked=None))
        alone = set(history.ask().grants)
        order = in_order(history.items.values())
        shut = {item.key for index, item in enumerate(order) if closed >> (index % 12) & 1}
        both = history.anew(
            {key: replace(item, blocked=CLOSED if key in shut else None) for key, item in history.items.items()}
        )
        together = set(history.ask(both).grants)
        assert not together & shut
        assert len(together) <= len(alone)
        nobody = history.anew({key: replace(item, blocked=CLOSED) for key, item in history.items.items()})
        assert not history.ask(nobody).grants
