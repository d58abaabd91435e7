"""A fleet of which the one cluster is `local` does what is done without a fleet. `make golden` shows it for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.faults.lane import Lane
from tests.support.faults.proxy import Upstream
from tests.support.faults.scenarios import SCENARIOS
from tests.support.golden.compare import differences
from tests.support.golden.local_cluster import record_scenario
from tests.support.golden.record import SAME_COMMITS


@pytest.fixture(autouse=True)
def same_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SAME_COMMITS.items():
        monkeypatch.setenv(name, value)


async def test_a_scenario_is_the_same_with_a_fleet_of_the_local_cluster(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """S3-3 on a real API server: a chain is created and pruned without a fleet, then with one."""
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == "prune A-D")
    async with Upstream(control_plane) as upstream:
        lane = Lane(upstream, AuditLog(control_plane.audit_log), plurals=scenario.plurals)
        await lane.open()
        for directory in (tmp_path / "alone", tmp_path / "fleet"):
            directory.mkdir()
        alone = await record_scenario(tmp_path / "alone", lane, scenario, is_fleet=False)
        fleet = await record_scenario(tmp_path / "fleet", lane, scenario, is_fleet=True)
    assert any(write["verb"] == "DELETE" for write in alone["1"]["writes"])
    found = differences(alone, fleet)
    assert not found, "\n".join(found)
