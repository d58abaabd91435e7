"""Killed at a write, the program goes on at the next start as if nothing had been; a part of what `make faults` enumerates.

Here: every scenario at its first writes, and two of them at every write. A real process is killed by SIGKILL in `test_processes`.
"""

from __future__ import annotations

import pytest

from tests.faults.kills import Bench
from tests.faults.lane import Lane
from tests.faults.proxy import Moment
from tests.faults.scenarios import SCENARIOS, Scenario

WHOLE = ("update", "prune A-D")
SPOTS = ((2, Moment.RECEIVED), (3, Moment.FORWARDED), (4, Moment.ANSWERED))


@pytest.mark.parametrize("name", WHOLE)
async def test_killed_at_every_write_it_ends_as_if_it_had_not_been(lane: Lane, name: str) -> None:
    """I1, I2, I3, I4, I7."""
    bench = Bench(next(scenario for scenario in SCENARIOS if scenario.name == name), lane)
    await bench.prepare()
    points = [point async for point in bench.points(moments=(Moment.FORWARDED,))]
    assert len(points) >= 8
    assert [str(point) for point in points if point.violations] == [], [point.violations for point in points]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))
async def test_killed_at_some_writes_it_ends_as_if_it_had_not_been(lane: Lane, scenario: Scenario) -> None:
    """I1, I2, I3, I4, I7."""
    bench = Bench(scenario, lane)
    await bench.prepare()
    for write, moment in SPOTS:
        point, killed = await bench.point(write, moment)
        assert killed, "the scenario makes fewer writes than that"
        assert point.violations == (), point
