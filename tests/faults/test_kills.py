"""Killed at a write, the program goes on at the next start as if nothing had been; a part of what `make faults` enumerates.

Here: every scenario at one write, and one of them at every write. A real process is killed by SIGKILL in `test_processes`.
"""

from __future__ import annotations

import pytest

from tests.support.faults.extent import WHOLE
from tests.support.faults.kills import KillBench
from tests.support.faults.lane import Lane
from tests.support.faults.proxy import Moment
from tests.support.faults.scenarios import SCENARIOS, Scenario
from tests.support.faults.subjects import SUBJECTS, noticed


async def test_killed_at_every_write_it_ends_as_if_it_had_not_been(lane: Lane) -> None:
    """I1, I2, I3, I4, I7."""
    bench = KillBench(next(scenario for scenario in SCENARIOS if scenario.name == "prune A-D"), lane)
    await bench.prepare()
    points = [point async for point in bench.points(moments=(Moment.FORWARDED,))]
    assert len(points) >= 8
    assert [str(point) for point in points if point.violations] == [], [point.violations for point in points]


each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))


@each_scenario
async def test_killed_at_one_write_it_ends_as_if_it_had_not_been(lane: Lane, scenario: Scenario) -> None:
    """I1, I2, I3, I4, I7."""
    bench = KillBench(scenario, lane)
    await bench.prepare()
    point, killed = await bench.point(3, Moment.FORWARDED)
    assert killed, "the scenario makes fewer writes than that"
    assert point.violations == ()


def test_every_scenario_is_about_something() -> None:
    assert SUBJECTS.keys() == {scenario.name for scenario in SCENARIOS}


@each_scenario
@pytest.mark.skipif(not WHOLE, reason="of the bench, not of the program: make faults")
async def test_a_scenario_without_its_subject_is_noticed(lane: Lane, scenario: Scenario) -> None:
    """The bench itself: what a scenario is about is taken out of the code, and some point of it is a breach."""
    assert await noticed(scenario, lane) != ""
