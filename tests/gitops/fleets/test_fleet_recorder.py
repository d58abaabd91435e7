"""The records of a hub, on a real API server: what changes often is written rarely, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from applier.cluster import ClusterName
from applier.errors import Unavailable
from applier.fenced_cluster import FencedCluster
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from gitops.clock import SystemClock
from gitops.fleet.cluster_record import SourceSummary
from gitops.fleet.fleet_recorder import FleetRecorder

MANY = 5_000
SUMMARY = SourceSummary("c", "Settled", 1, 0, "", None)


@dataclass
class Outage:
    """Lets nothing be written while it `lasts`."""

    lasts: bool = False

    def check(self) -> None:
        if self.lasts:
            raise Unavailable("the hub does not answer")


@dataclass
class Hub:
    recorder: FleetRecorder
    outage: Outage
    name: ClusterName
    notices: list[str] = field(default_factory=list)


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[KubeCluster]:
    cluster = await connect(kubeconfig=str(kubeconfig))
    yield cluster
    await cluster.close()


@pytest.fixture
async def hub(cluster: KubeCluster) -> AsyncIterator[Hub]:
    outage, notices = Outage(), list[str]()
    recorder = FleetRecorder(
        FencedCluster(cluster, outage.check), SystemClock(), lambda _source, text: notices.append(text)
    )
    name = ClusterName(f"r{uuid4().hex[:8]}")
    yield Hub(recorder, outage, name, notices)
    outage.lasts = False
    await recorder.delete(name)


async def test_any_number_of_changes_is_one_write(hub: Hub) -> None:
    """A busy cluster changes its record more often between two writes than functions can be nested."""
    for number in range(MANY):
        hub.recorder.update(hub.name, {"message": str(number)})
        hub.recorder.update_sources(hub.name, lambda: {"platform": SUMMARY})
    await hub.recorder.flush()
    record = await hub.recorder.refresh(hub.name)
    assert record is not None
    assert (record.message, record.sources) == (str(MANY - 1), {"platform": SUMMARY})


async def test_what_the_hub_does_not_take_is_written_later_with_what_came_meanwhile(hub: Hub) -> None:
    hub.recorder.update(hub.name, {"uid": "u", "state": "Engaged"})
    hub.recorder.update_sources(hub.name, lambda: {"platform": SUMMARY})
    hub.outage.lasts = True
    await hub.recorder.flush()
    assert len(hub.notices) == 1
    hub.recorder.update(hub.name, {"state": "Degraded"})
    hub.outage.lasts = False
    await hub.recorder.flush()
    record = await hub.recorder.refresh(hub.name)
    assert record is not None
    assert (record.uid, record.state, record.sources) == ("u", "Degraded", {"platform": SUMMARY})


async def test_summaries_are_made_when_they_are_written(hub: Hub) -> None:
    made = []

    def summarize() -> dict[str, SourceSummary]:
        made.append(1)
        return {"platform": SUMMARY}

    for _ in range(10):
        hub.recorder.update_sources(hub.name, summarize)
    assert made == []
    await hub.recorder.flush()
    await hub.recorder.flush()
    assert made == [1]
