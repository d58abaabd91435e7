"""The fleet as its hub records it: names, waits, and the search for a cluster."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.explain.fleet_overview import FleetOverview, UnknownCluster, describe_wait
from gitops.fleet.cluster_record import ClusterRecord, SourceSummary

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EU = ClusterName("eu-1")
FLEET = FleetOverview.from_records({EU: ClusterRecord("uid", "Engaged", NOW, "")}, {})


def test_a_source_waits_for_its_cause_or_for_its_state() -> None:
    assert describe_wait(SourceSummary("c", "Held", 1, 0, "WindowClosed: dba-hours", None)) == "WindowClosed: dba-hours"
    assert describe_wait(SourceSummary("c", "Progressing", 1, 0, "", None)) == "Progressing"
    assert describe_wait(SourceSummary("c", "Settled", 1, 0, "", None)) == ""


def test_the_hub_and_recorded_clusters_are_found() -> None:
    assert FLEET.names == (EU,)
    assert FLEET.find("eu-1") == EU
    assert FLEET.find(LOCAL_CLUSTER) == LOCAL_CLUSTER


@pytest.mark.parametrize(("typed", "message"), [("eu-2", "did you mean 'eu-1'"), ("../x", "cannot name a cluster")])
def test_any_other_name_is_refused(typed: str, message: str) -> None:
    with pytest.raises(UnknownCluster, match=message):
        FLEET.find(typed)
