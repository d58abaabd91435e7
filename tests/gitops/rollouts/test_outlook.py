"""What each item that has not settled is said to wait for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from applier.causes import Cause, CauseRef, Reason
from gitops.durations import MAX_DURATION
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.outlook import with_blocker_references
from gitops.rollouts.policy import Policy
from gitops.rollouts.queue_position import MAX_FORECAST_STARTS, BlockingItem, QueuePosition
from gitops.rollouts.requests import halt
from gitops.rollouts.shapes import Exponential, Linear
from tests.support.rollouts.rollouts import MINUTE, START, Rollout, items, linear, settled
from tests.support.rollouts.waves import WAVES, two_waves

MONDAY = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
CLOSED = Cause(Reason.GATE_CLOSED, "node database waits for window dba-hours (CHG-2210)", until=MONDAY)
NAMES = "api auth billing cart catalog mail search shop".split()


def webapps() -> Rollout:
    """Ten instances on a Friday: the canaries and three of prod have settled, cart waits for its window with one node."""
    canaries = {
        f"staging/{name}": settled(RolloutItem(f"staging/{name}", {"tier": "canary"})) for name in ("blog", "docs")
    }
    prod = {f"prod/{name}": RolloutItem(f"prod/{name}", {"tier": "prod"}) for name in NAMES}
    for name in NAMES[:3]:
        prod[f"prod/{name}"] = settled(prod[f"prod/{name}"])
    prod["prod/cart"] = replace(prod["prod/cart"], granted=True, blocked=CLOSED)
    return Rollout(replace(WAVES, bake=timedelta()), canaries | prod)


def test_a_wave_that_waits_behind_one_instance_says_so() -> None:
    """Four wait because of cart, whose window opens on Monday; then the limit rises from 4 to 8 and all four may start."""
    waits = webapps().waits()
    assert list(waits) == [f"prod/{name}" for name in NAMES[3:]]
    assert waits["prod/cart"] == CLOSED
    assert waits["prod/shop"] == Cause(
        Reason.PACE_REACHED,
        "8th of 8 in wave prod, exponential 2",
        until=MONDAY,
        blockers=("prod/cart",),
        details={"position": {"place": 8, "total": 8, "wave": "prod", "shape": "exponential 2"}},
        is_shared=True,
    )
    assert {wait.until for wait in waits.values()} == {MONDAY}


def test_the_earliest_start_counts_every_bake_on_the_way() -> None:
    """One, two, four at a time, five minutes each."""
    rollout = Rollout(Policy(name="p", shape=Exponential(2), bake=5 * MINUTE), items("0123456"))
    rollout.step()
    rollout.apply("0")
    rollout.now += 2 * MINUTE
    waits = rollout.waits()
    starts = [int((wait.until - START) / MINUTE) for wait in waits.values() if wait.until]
    assert (waits["0"].reason, starts) == (Reason.BAKING, [5, 5, 10, 10, 15, 15, 15])
    ahead = rollout.outlook().forecasts["all"]
    assert ahead.others == (BlockingItem("0", "Baking", START + 5 * MINUTE),)
    assert [(one.place, one.at) for one in ahead.starts] == [
        (2, START + 5 * MINUTE),
        (3, START + 10 * MINUTE),
        (5, START + 15 * MINUTE),
    ]
    places = [wait.details["position"]["place"] for wait in waits.values() if wait.details]
    assert [ahead.start_of(place) for place in places] == [waits[str(number)].until for number in range(1, 7)]


def test_of_many_batches_the_first_fifty_starts_are_told() -> None:
    """The record is bounded; who comes later does not start before the last of them."""
    many = {f"{number:03}": RolloutItem(f"{number:03}") for number in range(100)}
    rollout = Rollout(Policy(name="p", shape=linear(1), bake=5 * MINUTE), many)
    rollout.step()
    ahead = rollout.outlook().forecasts["all"]
    assert len(ahead.starts) == MAX_FORECAST_STARTS
    assert ahead.start_of(1) is None
    assert ahead.start_of(99) == ahead.starts[-1].at


def test_a_later_wave_starts_after_the_earliest_end_of_the_one_before() -> None:
    rollout = two_waves()
    rollout.step()
    rollout.apply("a", "b")
    waits = rollout.waits()
    assert waits["c"].reason is Reason.WAVE_NOT_REACHED
    assert waits["c"].message == "wave prod waits for wave canary"
    assert waits["c"].until == START + 30 * MINUTE
    assert waits["c"].blockers == ("a", "b")


def test_an_item_that_is_held_does_not_hold_up_the_next_wave() -> None:
    rollout = two_waves()
    rollout.change("b", held=Cause(Reason.HELD, "ada: pod swap"))
    rollout.step()
    rollout.apply("a")
    assert rollout.waits()["c"].blockers == ("a",)


def test_the_cause_that_a_person_must_see_comes_first() -> None:
    """Held, then halted, then another gate, then wave and pace."""
    held = Cause(Reason.HELD, "ada: pod swap, until Monday")
    rollout = two_waves()
    rollout.change("f", held=held, blocked=CLOSED)
    rollout.change("e", blocked=CLOSED)
    assert {key: wait.reason for key, wait in rollout.waits().items() if key in "def"} == {
        "d": Reason.WAVE_NOT_REACHED,
        "e": Reason.GATE_CLOSED,
        "f": Reason.HELD,
    }
    rollout.state = halt(rollout.state, by="ada", why="INC-7", now=rollout.now)
    assert {key: wait.reason for key, wait in rollout.waits().items() if key in "def"} == {
        "d": Reason.HALTED,
        "e": Reason.HALTED,
        "f": Reason.HELD,
    }


def test_an_item_on_its_way_says_how_it_gets_on() -> None:
    rollout = Rollout(Policy(name="p", shape=linear(5), bake=5 * MINUTE), items("01234"))
    rollout.step()
    rollout.apply("1", "4")
    rollout.change("2", error="Deployment/x: denied by a webhook")
    rollout.change("3", progress=ItemProgress(flaps=4))
    rollout.now += MINUTE
    rollout.change("0", progress=replace(rollout.items["0"].progress, running_since=START - 60 * MINUTE))
    rollout.change("4", healthy=False, progress=ItemProgress.start(rollout.now))
    waits = rollout.waits()
    assert {key: (wait.reason, wait.message) for key, wait in waits.items()} == {
        "0": (Reason.UNHEALTHY, "not healthy at r2 within the progress deadline"),
        "1": (Reason.BAKING, "healthy at r2; waiting for the bake time to pass"),
        "2": (Reason.APPLY_FAILED, "Deployment/x: denied by a webhook"),
        "3": (Reason.UNHEALTHY, "lost its health 4 times while baking at r2"),
        "4": (Reason.PROGRESSING, "moving to r2"),
    }
    assert waits["1"].until == START + 5 * MINUTE


def test_what_has_settled_waits_for_nothing() -> None:
    rollout = Rollout(Policy(name="p", shape=Linear()), {"0": settled(RolloutItem("0"))})
    assert rollout.waits() == {}


def test_blockers_become_references_with_why_they_wait_themselves() -> None:
    """The first ten, before what else stands behind the cause; an instance that waits for nothing in particular makes progress."""
    gate = CauseRef("Gate", "each.settled()", Reason.GATE_CLOSED)
    names = tuple(f"prod/{number:02}" for number in range(12))
    cause = Cause(Reason.GATE_CLOSED, "each.settled() is false", blockers=names, references=(gate,))
    referenced = with_blocker_references(cause, {names[1]: CLOSED})
    assert referenced == replace(cause, blockers=(), references=referenced.references)
    assert [reference.name for reference in referenced.references] == [*names[:10], gate.name]
    assert referenced.references[:2] == (
        CauseRef("Instance", names[0], Reason.PROGRESSING),
        CauseRef("Instance", names[1], Reason.GATE_CLOSED, until=MONDAY),
    )


def test_positions_are_ordinals() -> None:
    assert [
        str(QueuePosition(place, 130, 0, 0)).split()[0] for place in (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111)
    ] == ("1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th".split())


def test_no_forecast_leaves_the_calendar() -> None:
    """Each of a hundred, one after the other, has to stay healthy for a hundred years."""
    rollout = Rollout(Policy(name="p", shape=linear(1), bake=MAX_DURATION), items("".join(map(chr, range(256, 356)))))
    assert len(rollout.step()) == 1
    assert max(filter(None, (wait.until for wait in rollout.waits().values()))) <= rollout.now + 2 * MAX_DURATION
