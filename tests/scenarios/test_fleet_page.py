"""A running fleet as people, Prometheus and probes see it: the table, a page of each cluster, metrics by cluster."""

from __future__ import annotations

import re

from tests.support.cluster.waiting import eventually
from tests.support.fleet_platform import FleetPlatform, everything, fleet  # noqa: F401  # the fixture
from tests.support.scenarios.daemon import following


def test_the_page_and_metrics_of_a_running_fleet(fleet: FleetPlatform) -> None:  # noqa: F811
    """S3-19, M5: each cluster has its line, page and series; one that hangs says so and keeps what was seen, and no probe is bad."""
    fleet.repository.commit(everything(fleet))
    source, instance = fleet.name, f"{fleet.namespace}/one"
    with following(fleet, "--config", str(fleet.config), "--listen", "127.0.0.1:0") as daemon:
        settled = {
            f'levelgate_source_state{{cluster="{name}",source="{source}",state="Settled"}} 1.0'
            for name in fleet.clusters
        }
        eventually(lambda: settled <= set(daemon.get("/metrics")[1].splitlines()), within=120)
        text, table = daemon.get("/metrics")[1], daemon.get("/")[1]
        assert 'levelgate_clusters{state="Engaged"} 4.0' in text
        assert "\nlevelgate_leader 1.0\n" in text
        for name in fleet.clusters:
            for metric in ("api_requests_total", "actions_total", "queue_depth", "cache_entries"):
                assert re.search(rf'^levelgate_{metric}{{[^}}]*cluster="{name}"', text, re.MULTILINE), metric
            assert f'href="/clusters/{name}/"' in table
            assert instance in daemon.get(f"/clusters/{name}/")[1]
        assert re.search(rf"{source} <code>[0-9a-f]{{7}}</code>", table)
        (path,) = set(re.findall(rf"/clusters/c1/instances/[^\"/]+/\w+/{instance}", daemon.get("/clusters/c1/")[1]))
        assert "level 1" in daemon.get(path)[1]
        assert instance not in daemon.get("/clusters/local/")[1]
        fleet.clusters["c1"].freeze()
        try:
            eventually(lambda: 'levelgate_clusters{state="Unreachable"} 1.0' in daemon.get("/metrics")[1], within=120)
            page = daemon.get("/clusters/c1/")[1]
            assert "Unreachable" in page
            assert instance in page
            assert (daemon.get("/healthz")[0], daemon.get("/readyz")[0]) == (200, 200)
        finally:
            fleet.clusters["c1"].thaw()
        eventually(lambda: 'levelgate_clusters{state="Engaged"} 4.0' in daemon.get("/metrics")[1], within=120)
