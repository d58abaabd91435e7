"""S3-8: numbers of revisions on a hub that is a real API server. They are on record before any cluster has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from applier.cluster import ClusterName
from applier.errors import Invalid, StaleWrite, Unavailable
from applier.fenced_cluster import FencedCluster
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from gitops.clock import SystemClock
from gitops.fleet.fleet_record import fleet_record_key, read_fleet_records
from gitops.fleet.fleet_records import FleetRecords
from gitops.fleet.revision_numbers import MAX_NUMBER, NO_NUMBERS, RevisionNumbers
from renderer.identity import GroupKind
from renderer.render.model import NewRevision

WEB, SHOP = GroupKind("kro.run", "WebApp"), GroupKind("kro.run", "Shop")
C0, C1 = ClusterName("c0"), ClusterName("c1")


@dataclass
class CountingCluster:
    """Counts what is written, and takes nothing while it `is_down`."""

    writes: int = 0
    is_down: bool = False

    def check(self) -> None:
        if self.is_down:
            raise Unavailable("the hub does not answer")
        self.writes += 1


@dataclass
class SleeplessClock(SystemClock):
    """Sleeps at once, and remembers for how long it should have."""

    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.001)


@dataclass
class PatientClock(SystemClock):
    """Sleeps for ever."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


@dataclass
class Hub:
    cluster: KubeCluster
    source: str
    door: CountingCluster = field(default_factory=CountingCluster)

    def records(self, clock: SystemClock) -> FleetRecords:
        """Those of a process that begins."""
        return FleetRecords(FencedCluster(self.cluster, self.door.check), clock, lambda *_: None, lambda: None)

    def revision(self, digest: str, at_least: int = 1, kind: GroupKind = WEB) -> NewRevision:
        return NewRevision(kind, at_least, digest, {}, self.source, "commit", "author", "message")

    async def stored(self) -> RevisionNumbers | None:
        records = await read_fleet_records(self.cluster)
        return records[self.source].record.numbers if self.source in records else None

    async def forget(self) -> None:
        key = fleet_record_key(self.source)
        if live := await self.cluster.get(key):
            await self.cluster.delete(key, uid=live["metadata"]["uid"], resource_version=None)


@pytest.fixture
async def hub(kubeconfig: Path) -> AsyncIterator[Hub]:
    cluster = await connect(kubeconfig=str(kubeconfig))
    found = Hub(cluster, f"r{uuid4().hex[:8]}")
    yield found
    await found.forget()
    await cluster.close()


async def test_numbers_are_on_record_before_they_are_given(hub: Hub) -> None:
    """Equal contents have equal numbers, also after a restart; what a hub does not take has no number."""
    records = hub.records(SleeplessClock())
    await records.load()
    hub.door.is_down = True
    with pytest.raises(Unavailable):
        await records.number([hub.revision("a")])
    assert await hub.stored() is None
    hub.door.is_down = False
    assert await records.number([hub.revision("a")]) == {WEB: 1}
    assert await hub.stored() == NO_NUMBERS.with_number(WEB, "a", 1)
    again = hub.records(SleeplessClock())
    await again.load()
    writes = hub.door.writes
    assert await again.number([hub.revision("a")]) == {WEB: 1}
    assert hub.door.writes == writes
    assert await again.number([hub.revision("b", 2)]) == {WEB: 2}


async def test_a_number_near_the_end_of_all_numbers_stops_its_own_cluster_alone(hub: Hub) -> None:
    records = hub.records(SleeplessClock())
    await records.load()
    with pytest.raises(Invalid, match="delete the ControllerRevision"):
        await records.number([hub.revision("a", MAX_NUMBER + 1)])
    assert await records.number([hub.revision("a")]) == {WEB: 1}


async def test_what_many_clusters_ask_for_is_few_writes(hub: Hub) -> None:
    """The first is written at once, what comes meanwhile is one write two seconds later."""
    clock = SleeplessClock()
    records = hub.records(clock)
    await records.load()
    await records.number([hub.revision("a")])
    before = hub.door.writes
    kinds = [GroupKind("kro.run", f"K{number}") for number in range(20)]
    asked = [[hub.revision("x", 1, kind) for kind in kinds] for _ in range(5)]
    found = await asyncio.gather(*map(records.number, asked))
    assert found == [dict.fromkeys(kinds, 1)] * 5
    assert hub.door.writes == before + 1
    assert len(clock.slept) == 1
    assert 0 < clock.slept[0] <= 2


async def test_a_record_that_was_deleted_is_written_again_with_all_numbers(hub: Hub) -> None:
    records = hub.records(SleeplessClock())
    await records.load()
    await records.number([hub.revision("a", 7)])
    await hub.forget()
    assert await records.number([hub.revision("b", 2)]) == {WEB: 8}
    assert await hub.stored() == NO_NUMBERS.with_number(WEB, "a", 7).with_number(WEB, "b", 8)


async def test_a_hub_without_records_hears_the_clusters_first(hub: Hub) -> None:
    """A cluster without any revision gets the number that another one has; what few have said is not recorded as that of all."""
    records = hub.records(PatientClock())
    await records.load()
    records.expect(C0)
    records.expect(C1)
    asked = asyncio.create_task(records.number([hub.revision("a")]))
    records.hear(C0, {hub.source: NO_NUMBERS.with_number(WEB, "z", 4)})
    await records.flush()
    assert await hub.stored() is None
    assert not asked.done()
    records.hear(C1, {hub.source: NO_NUMBERS.with_number(WEB, "a", 13)})
    assert await asked == {WEB: 13}
    await records.flush()
    assert await hub.stored() == NO_NUMBERS.with_number(WEB, "z", 4).with_number(WEB, "a", 13)


async def test_a_cluster_that_says_nothing_is_not_waited_for_without_end(hub: Hub) -> None:
    clock = SleeplessClock()
    records = hub.records(clock)
    await records.load()
    records.expect(C0)
    assert await records.number([hub.revision("a")]) == {WEB: 1}
    assert clock.slept == [10.0]
    records.hear(C0, {hub.source: NO_NUMBERS.with_number(WEB, "z", 40)})
    assert await records.number([hub.revision("b", 2)]) == {WEB: 41}


async def test_what_git_no_longer_says_gets_no_number(hub: Hub) -> None:
    """A pass that began with an earlier commit would take a number from the newer content."""
    records = hub.records(SleeplessClock())
    await records.load()
    records.keep({}, {hub.source: {WEB: "b"}})
    with pytest.raises(StaleWrite, match="Git has changed"):
        await records.number([hub.revision("a")])
    assert await records.number([hub.revision("b")]) == {WEB: 1}


async def test_of_a_definition_that_is_gone_the_highest_number_stays(hub: Hub) -> None:
    records = hub.records(SleeplessClock())
    await records.load()
    records.keep({}, {hub.source: {WEB: "a", SHOP: "s"}})
    await records.number([hub.revision("a", 3), hub.revision("s", 8, SHOP)])
    records.keep({}, {hub.source: {WEB: "b"}})
    await records.number([hub.revision("b", 4)])
    records.keep({}, {hub.source: {}})
    await records.flush()
    expected = NO_NUMBERS.with_number(WEB, "b", 4).with_number(SHOP, "s", 8)
    assert await hub.stored() == expected
