"""A hub that is killed at a write goes on at the next start as if nothing had been; a part of what `make faults ONLY=fleet-kills` enumerates.

Here: each scenario at one write, one of them at three.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest import mock

import pytest
import pytest_asyncio

from gitops.daemon import cluster_engagement, cluster_removal
from gitops.daemon.fleet import Fleet
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.faults.extent import WHOLE
from tests.support.faults.fleet_kills import FLEET_SCENARIOS, FleetBench
from tests.support.faults.fleet_lane import FleetLane
from tests.support.faults.proxy import Moment, Upstream
from tests.support.faults.scenarios import Scenario
from tests.support.faults.table import names

NAMED = {scenario.name: scenario for scenario in FLEET_SCENARIOS}

CHAINS = {"one-a", "one-b", "three-a", "three-b"}
ENDS = {
    "engage": {"p", "q"},
    "place": {"p", "r", *CHAINS},
    "unplace, Delete": {"p", "three-a", "three-b"},
    "unplace, Orphan": {"p", *CHAINS},
    "remove, Delete": set[str](),
    "remove, Orphan": {"p", *CHAINS},
    "remove, then declare again": {"p", *CHAINS},
}
"""The ConfigMaps that are to live in the cluster at the end of each scenario."""
WRITES = {"engage": (1, 8, 12)}
"""Where a scenario is tried at other writes than the third: at these to the hub's cluster, of the mark, and of a member."""


@pytest_asyncio.fixture
async def fleet_lane(control_plane: ControlPlane, audit: AuditLog) -> AsyncIterator[FleetLane]:
    async with Upstream(control_plane) as upstream:
        found = FleetLane(upstream, audit, plurals=("chains",))
        await found.open()
        yield found
        await found.close()


@pytest.mark.parametrize("scenario", FLEET_SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))
async def test_a_hub_that_is_killed_at_a_write_ends_as_if_it_had_not_been(
    fleet_lane: FleetLane, scenario: Scenario
) -> None:
    """S3-22, M7, I1, I2, I3, I4, I7."""
    bench = FleetBench(scenario, fleet_lane)
    await bench.prepare()
    for write in WRITES.get(scenario.name, (3,)):
        point, killed = await bench.point(write, Moment.FORWARDED)
        assert killed, "the scenario makes fewer writes than that"
        assert point.violations == (), str(point)
    assert await names(fleet_lane) - {"kube-root-ca.crt", *(key.name for key in bench.foreign)} == ENDS[scenario.name]


async def _nothing(*_: Any) -> None:
    """What is left out."""


def _without_restoring() -> Any:
    """A new process knows only what Git declares."""
    return mock.patch.object(Fleet, "restore", _nothing)


def _without_mark() -> Any:
    return mock.patch.object(cluster_engagement, "claim_cluster", _nothing)


def _without_release() -> Any:
    return mock.patch.object(cluster_removal, "release_cluster", _nothing)


@pytest.mark.parametrize(
    ("name", "changed", "breach"),
    [
        ("remove, Delete", _without_restoring, "should not be there"),
        ("engage", _without_mark, "S3-22: patch"),
        ("remove, Orphan", _without_release, "while the cluster is marked"),
    ],
)
@pytest.mark.skipif(not WHOLE, reason="of the bench, not of the program: make faults")
async def test_a_hub_that_leaves_out_a_step_is_noticed(
    fleet_lane: FleetLane, name: str, changed: Callable[[], Any], breach: str
) -> None:
    """The bench itself: what a scenario is about is taken out of the code, and some point of it is a breach."""
    bench = FleetBench(NAMED[name], fleet_lane, changed=changed)
    await bench.prepare()
    found: list[str] = []
    async for point in bench.points(moments=(Moment.FORWARDED,)):
        found += point.violations
        if any(breach in text for text in point.violations):
            return
    pytest.fail(f"not noticed: {found}")
