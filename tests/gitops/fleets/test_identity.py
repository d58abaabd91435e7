"""Who a cluster is and whose, on a real API server: two hubs are two ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from applier.cluster import PARENT_MANAGER, Cluster, ClusterName, Discovery, Object
from applier.errors import StaleWrite, UnknownOutcome
from applier.fenced_cluster import FencedCluster
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from applier.recorded_cluster import RecordedCluster
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from gitops.fleet.cluster_record import (
    NEW_RECORD,
    ClusterRecord,
    StoredClusterRecord,
    cluster_record_key,
    read_cluster_record,
    read_cluster_records,
    write_cluster_record,
)
from gitops.fleet.identity import (
    AcceptedIdentity,
    ClusterClaimed,
    HubItself,
    SameCluster,
    UnknownIdentity,
    WrongCluster,
    accept_cluster,
    claim_cluster,
    judge_identity,
    judge_recorded,
    read_cluster_uid,
    release_cluster,
)
from gitops.records.installation import (
    INSTALLATION,
    claiming_hub,
    cluster_name,
    configured_sources,
    installation_body,
    is_recorded,
)
from renderer.identity import ObjectKey
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane

EU, US = ClusterName("eu-1"), ClusterName("us-1")
ONE, TWO = "11111111-uid-of-hub-one", "22222222-uid-of-hub-two"
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[KubeCluster]:
    """Without an installation, and so left behind."""
    cluster = await connect(kubeconfig=str(kubeconfig))
    await remove(cluster, INSTALLATION)
    yield cluster
    await remove(cluster, INSTALLATION)
    await cluster.close()


@pytest.fixture
async def name(cluster: KubeCluster) -> AsyncIterator[ClusterName]:
    name = ClusterName(f"aws#eu-{uuid4().hex[:8]}")
    yield name
    await remove(cluster, cluster_record_key(name))


async def remove(cluster: Cluster, key: ObjectKey) -> None:
    if live := await cluster.get(key):
        await cluster.delete(key, uid=live["metadata"]["uid"], resource_version=None)


async def test_a_cluster_is_known_by_the_uid_of_kube_system(cluster: KubeCluster, control_plane: ControlPlane) -> None:
    namespace = control_plane.request("GET", "/api/v1/namespaces/kube-system").body
    assert await read_cluster_uid(cluster) == namespace["metadata"]["uid"]
    with pytest.raises(UnknownIdentity):
        await read_cluster_uid(RecordedCluster(EU, {}, Discovery({})))


@pytest.mark.parametrize(
    ("recorded", "seen", "others", "kind", "said"),
    [
        ("", "a", {}, AcceptedIdentity, ""),
        ("a", "a", {US: "b"}, AcceptedIdentity, ""),
        ("a", "a", {US: "a"}, AcceptedIdentity, ""),  # somebody has accepted it
        ("", "a", {EU: "a"}, AcceptedIdentity, ""),
        ("a", "b", {US: "c"}, WrongCluster, "if the cluster was rebuilt, run: levelgate cluster accept eu-1"),
        ("", "a", {US: "a"}, SameCluster, "clusters eu-1 and us-1 are one cluster (UID a"),
        ("a", "b", {US: "b"}, SameCluster, "to keep both names, run: levelgate cluster accept eu-1"),
    ],
)
def test_the_identity_of_a_cluster_is_judged(
    recorded: str, seen: str, others: dict[ClusterName, str], kind: type, said: str
) -> None:
    judgement = judge_identity(EU, recorded_uid=recorded, seen_uid=seen, other_uids=others)
    assert isinstance(judgement, kind)
    if not isinstance(judgement, AcceptedIdentity):
        assert said in judgement.message
        assert "nothing is written" in judgement.message
        assert seen in judgement.message


def test_the_hub_s_own_cluster_has_no_second_name() -> None:
    record = StoredClusterRecord(replace(NEW_RECORD, uid="hub-uid"), {})
    for records in ({}, {EU: record}):  # also where somebody has accepted it
        judgement = judge_recorded(EU, "hub-uid", records, "hub-uid")
        assert isinstance(judgement, HubItself)
        assert "nothing is written there as eu-1" in judgement.message
        assert "declare it as local" in judgement.message


async def test_the_hub_keeps_a_record_of_each_cluster_and_writes_it_over_the_version_that_it_has_read(
    cluster: KubeCluster, name: ClusterName
) -> None:
    assert await read_cluster_record(cluster, name) is None
    first = await write_cluster_record(cluster, name, ClusterRecord("a", "Engaged", NOON, ""), None)
    with pytest.raises(StaleWrite):
        await write_cluster_record(cluster, name, ClusterRecord("b", "Engaged", NOON, ""), None)
    await cluster.merge(cluster_record_key(name), {"data": {"progress": "3"}}, manager="other")
    with pytest.raises(StaleWrite):
        await write_cluster_record(cluster, name, ClusterRecord("b", "Engaged", NOON, ""), first)
    found = await read_cluster_records(cluster)
    assert found[name].record == ClusterRecord("a", "Engaged", NOON, "")
    assert await accept_cluster(cluster, name, "b") == "a"
    stored = await read_cluster_record(cluster, name)
    assert stored is not None
    assert stored.record == ClusterRecord("b", "Engaged", NOON, "")
    assert stored.live["data"]["progress"] == "3"
    assert await accept_cluster(cluster, name, "b") == "b"


async def test_a_cluster_that_was_never_met_can_be_accepted(cluster: KubeCluster, name: ClusterName) -> None:
    assert await accept_cluster(cluster, name, "a") == ""
    stored = await read_cluster_record(cluster, name)
    assert stored is not None
    assert stored.record == ClusterRecord("a", "", None, "")


@pytest.mark.parametrize(("first", "second"), [(ONE, TWO), (TWO, ONE)])
async def test_two_hubs_on_one_spoke_are_refused_whichever_comes_first(
    cluster: KubeCluster, audit: AuditLog, first: str, second: str
) -> None:
    """M8: the second one writes nothing, and says whose the cluster is and what to do."""
    await claim_cluster(cluster, EU, first)
    since = audit.mark()
    for _ in range(2):
        with pytest.raises(ClusterClaimed, match="levelgate cluster release eu-1") as raised:
            await claim_cluster(cluster, EU, second)
        assert raised.value.hub_id == first
        assert f"belongs to hub {first}" in str(raised.value)
    await claim_cluster(cluster, EU, first)
    assert [event for event in audit.events(since=since, user="levelgate") if event.is_write] == []
    assert await release_cluster(cluster) == first
    assert await release_cluster(cluster) == ""
    await claim_cluster(cluster, EU, second)
    with pytest.raises(ClusterClaimed):
        await claim_cluster(cluster, EU, first)


async def test_a_cluster_without_a_record_of_levelgate_is_told_as_new() -> None:
    """Its revisions are not listed: there are none."""
    cluster = cluster_of(Sandbox().answer)
    assert await claim_cluster(cluster, EU, ONE)
    assert not await claim_cluster(cluster, EU, ONE)
    await release_cluster(cluster)
    assert not await claim_cluster(cluster, EU, ONE), "its namespace and its records stay"


@pytest.mark.parametrize("is_installed", [True, False])
async def test_of_hubs_that_come_at_once_one_has_it(cluster: KubeCluster, is_installed: bool) -> None:
    """M8."""
    if is_installed:
        await cluster.apply(installation_body("1", "eu-1", {"a"}, None), manager=PARENT_MANAGER)
    hubs = [f"hub-{number}" for number in range(8)]
    outcomes = await asyncio.gather(*(claim_cluster(cluster, EU, hub) for hub in hubs), return_exceptions=True)
    winners = [hub for hub, outcome in zip(hubs, outcomes, strict=True) if isinstance(outcome, bool)]
    assert len(winners) == 1
    others = [outcome for outcome in outcomes if isinstance(outcome, ClusterClaimed)]
    assert {outcome.hub_id for outcome in others} == set(winners)
    assert len(others) == 7


class Raced(FencedCluster):
    """Something happens between the look at the installation and the first write."""

    def __init__(self, cluster: Cluster, *events: Object, loses_answer: bool = False) -> None:
        super().__init__(cluster, lambda: None)
        self.events, self.loses_answer = list(events), loses_answer

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        if self.events:
            await super().merge(key, self.events.pop(0), manager="other")
        written = await super().merge(key, patch, manager=manager)
        if self.loses_answer:
            self.loses_answer = False
            raise UnknownOutcome("no complete answer")
        return written


async def test_a_lost_race_is_read_again(cluster: KubeCluster) -> None:
    annotated: Object = {"metadata": {"annotations": {"example.org/n": "1"}}}
    await claim_cluster(Raced(cluster, annotated), EU, ONE)
    assert claiming_hub(await cluster.get(INSTALLATION)) == ONE
    assert await release_cluster(Raced(cluster, {"metadata": {"annotations": {"example.org/n": "2"}}})) == ONE
    with pytest.raises(ClusterClaimed):
        await claim_cluster(Raced(cluster, {"data": {"hub": TWO}}), EU, ONE)
    assert await release_cluster(cluster) == TWO
    await claim_cluster(Raced(cluster, loses_answer=True), EU, ONE)
    assert claiming_hub(await cluster.get(INSTALLATION)) == ONE
    endless = ({"metadata": {"annotations": {"example.org/n": f"e{number}"}}} for number in range(10))
    with pytest.raises(StaleWrite):
        await release_cluster(Raced(cluster, *endless))


async def test_the_mark_and_the_rest_of_the_installation_leave_each_other_alone(cluster: KubeCluster) -> None:
    """Or each pass would write one of them anew."""
    body = installation_body("1", "eu-1", {"a"}, None)
    await claim_cluster(cluster, EU, ONE)
    assert not is_recorded(body, await cluster.get(INSTALLATION))
    await cluster.apply(body, manager=PARENT_MANAGER)
    live = await cluster.get(INSTALLATION)
    assert (claiming_hub(live), cluster_name(live), configured_sources(live)) == (ONE, "eu-1", frozenset("a"))
    assert is_recorded(body, live)
    assert not is_recorded(installation_body("2", "eu-1", {"a"}, None), live)
    await release_cluster(cluster)
    live = await cluster.get(INSTALLATION)
    assert (claiming_hub(live), cluster_name(live)) == ("", "eu-1")
    assert is_recorded(body, live)
