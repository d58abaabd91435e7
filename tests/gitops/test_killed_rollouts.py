"""A rollout whose process is killed at every one of its writes, before and after it is carried out: nothing is lost, nothing moves out of turn."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.gitops.fleet import Died, Fleet

NAMES = ("a", "b", "c", "d", "e")
POLICY = {"shape": {"linear": {"n": 2}}, "bake": "1m"}


def roll_out(fleet: Fleet) -> list[list[str]]:
    """To the end, a new process after each death; what moved together. After each pass what moved is ready and bakes on."""
    moved: list[list[str]] = []
    for _ in range(20):
        before = fleet.at("two")
        try:
            fleet.step()
        except Died:
            fleet.dies_at = None
            fleet.restart()
        if new := [name for name in fleet.at("two") if name not in before]:
            moved.append(new)
        in_flight = [name for name in fleet.at("two") if fleet.propagated(name)[0] != "Settled"]
        assert len(in_flight) <= 2, in_flight
        fleet.ready(*fleet.at("two"))
        fleet.clock.moment += timedelta(seconds=30)
    return moved


def started() -> Fleet:
    fleet = Fleet(names=NAMES).__enter__()
    fleet.start(webapps=POLICY)
    fleet.push("two")
    fleet.writes = 0
    return fleet


@pytest.fixture(scope="module")
def writes() -> int:
    """How many requests of the whole rollout write something, if nobody interferes."""
    fleet = started()
    assert roll_out(fleet) == [["a", "b"], ["c", "d"], ["e"]]
    return fleet.writes


@pytest.mark.parametrize("is_done", [False, True])
def test_killed_at_every_write_it_keeps_its_pace_and_comes_to_its_end(writes: int, is_done: bool) -> None:
    """S1-28, P1, P8: a grant is on the instance before its first child is written, so it is counted whatever happens after."""
    assert writes > 30
    for number in range(writes):
        fleet = started()
        fleet.dies_at = (number, is_done)
        roll_out(fleet)
        assert fleet.at("two") == list(NAMES), (number, fleet.waits())
        assert set(fleet.waits().values()) == {"Settled"}, number
        assert fleet.rollout().completed.revision == 2
