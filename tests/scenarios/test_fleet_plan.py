"""A dry run over several real clusters: what each would get, and that nothing is written."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cluster.waiting import eventually
from tests.support.command import run
from tests.support.definitions import config_map
from tests.support.fleet_platform import FleetPlatform, everything, fleet

__all__ = ["fleet"]


def plan(fleet: FleetPlatform, *arguments: str, code: int) -> str:
    place = ("plan", str(fleet.repository.path), "--config", str(fleet.config), "--cluster", "all")
    done = run((*place, *arguments), fleet.environment)
    assert done.returncode == code, done.stderr
    return done.stdout


def rows(fleet: FleetPlatform, *, code: int) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(plan(fleet, "-o", "json", code=code))["clusters"]}


def test_a_plan_asks_each_cluster_and_writes_to_none(fleet: FleetPlatform) -> None:
    """Clusters with equal differences are one block, one that hangs is unknown, and after the run nothing is left to do."""
    fleet.repository.commit(everything(fleet))
    since = {name: fleet.mark(name) for name in fleet.clusters}
    lines = plan(fleet, "--exit-code", code=2).splitlines()
    assert "c0: added by this commit" in lines
    assert "c1, c2: the same, all added by this commit" in lines
    assert {name: fleet.writes_to(name, since[name]) for name in fleet.clusters} == {
        name: [] for name in fleet.clusters
    }
    with fleet.start():
        eventually(lambda: fleet.texts("one-b") == {"c0": "one", "c1": "us", "c2": "us"}, within=90)
        eventually(lambda: all(fleet.is_settled(name) for name in fleet.clusters), within=60)
    assert "c0, c1, c2: the same" in " ".join(plan(fleet, "--exit-code", code=0).split())
    fleet.repository.commit({"plain.json": config_map(fleet.namespace, "plain", text="there")})
    fleet.clusters["c1"].freeze()
    found = rows(fleet, code=1)
    fleet.clusters["c1"].thaw()
    assert {name: row["state"] for name, row in found.items() if name != "local"} == {
        "c0": "Planned",
        "c1": "Unknown",
        "c2": "Planned",
    }
    assert found["c1"]["message"]
    assert found["c2"]["sameAs"] == "c0"
    assert found["c0"]["plan"]["summary"]["update"] == 1
