"""A rollout whose process is killed at every one of its writes, before and after it is carried out: nothing is lost, nothing moves out of turn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta

import pytest

from gitops.rollouts.state import TargetRevision
from tests.support.link_platform import LinkPlatform
from tests.support.platform import Died

NAMES = ("a", "b", "c")
FUZZ = bool(os.environ.get("LEVELGATE_FUZZ"))
POLICY = {"shape": {"linear": {"n": 2}}, "bake": "1m"}


def roll_out(fleet: LinkPlatform) -> list[list[str]]:
    """To the end, a new process after each death; what moved together. After each pass what moved is ready and bakes on."""
    moved: list[list[str]] = []
    for _ in range(20):
        before = fleet.at("two")
        try:
            fleet.step()
        except Died:
            fleet.dies_at = None
            fleet.restart()
        else:
            in_flight = [name for name in fleet.at("two") if fleet.propagated(name)[0] != "Settled"]
            assert len(in_flight) <= 2, in_flight
        if new := [name for name in fleet.at("two") if name not in before]:
            moved.append(new)
        if not fleet.dies_at and set(fleet.waits().values()) == {"Settled"} and fleet.at("two") == list(NAMES):
            return moved
        fleet.ready(*fleet.at("two"))
        fleet.clock.moment += timedelta(minutes=1)
    raise AssertionError(fleet.waits())


@pytest.fixture(scope="module")
def begun() -> Iterator[LinkPlatform]:
    """All run the first revision, and the second has been pushed."""
    with LinkPlatform(names=NAMES) as fleet:
        fleet.start(webapps=POLICY)
        fleet.push("two")
        fleet.writes = 0
        yield fleet


@pytest.fixture(scope="module")
def writes(begun: LinkPlatform) -> int:
    """How many requests of the whole rollout write something, if nobody interferes."""
    with begun.copied() as fleet:
        assert roll_out(fleet) == [["a", "b"], ["c"]]
        return fleet.writes


def test_killed_at_every_write_it_keeps_its_pace_and_comes_to_its_end(begun: LinkPlatform, writes: int) -> None:
    """S1-28, P1, P8: a grant is on the instance before its first child is written, so it is counted whatever happens after.

    By turns before and after the write is carried out; both at each with LEVELGATE_FUZZ.
    """
    assert writes > 20
    for number in range(writes):
        for is_done in (False, True) if FUZZ else (bool(number % 2),):
            with begun.copied() as fleet:
                fleet.dies_at = (number, is_done)
                roll_out(fleet)
                assert fleet.rollout().completed == TargetRevision(2), (number, is_done)
