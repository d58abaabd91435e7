"""What is told of an event loop that stands still."""

from __future__ import annotations

from gitops.loop_watch import HUNG_SECONDS, TURN_SECONDS, LoopWatch


class Holds:
    """A watch over a loop that turns when a test says so."""

    def __init__(self) -> None:
        self.now, self.heard = 0.0, list[tuple[float, str]]()
        self.watch = LoopWatch(lambda seconds, stage: self.heard.append((round(seconds, 3), stage)), lambda: self.now)

    def turn(self) -> None:
        self.now += TURN_SECONDS
        self.watch.turn()


def test_the_longest_hold_is_kept_and_only_long_ones_are_told() -> None:
    holds = Holds()
    for seconds in (0.0, 0.4, 0.2):
        holds.now += seconds
        holds.turn()
    assert (round(holds.watch.longest_seconds, 3), holds.heard) == (0.4, [])
    holds.now += 1.5
    holds.turn()
    assert (round(holds.watch.longest_seconds, 3), holds.heard) == (1.5, [(1.5, "")])


def test_the_innermost_stage_that_lasted_for_most_of_it_is_named() -> None:
    holds = Holds()
    with holds.watch.stage("pass"):
        with holds.watch.stage("render"):
            holds.now += 0.2
        with holds.watch.stage("plan"):
            holds.now += 2.0
        with holds.watch.stage("conclude"):
            holds.turn()
    assert [stage for _, stage in holds.heard] == ["plan"]


def test_stages_that_wait_are_not_blamed() -> None:
    """One that lasted long before, while the loop turned, has nothing to do with it."""
    holds = Holds()
    with holds.watch.stage("fetch"):
        for _ in range(100):
            holds.turn()
    holds.now += 3.0
    holds.turn()
    assert holds.heard == [(3.0, "")]


def test_a_loop_that_has_not_turned_for_a_minute_hangs() -> None:
    holds, turning = Holds(), list[bool]()
    for seconds in (HUNG_SECONDS - 1, 2):
        holds.now += seconds
        turning.append(holds.watch.is_turning())
    holds.turn()
    assert [*turning, holds.watch.is_turning()] == [True, False, True]


async def test_it_watches_the_loop_in_which_it_is_entered() -> None:
    async with LoopWatch(lambda *_: None) as watch:
        assert watch.is_turning()
