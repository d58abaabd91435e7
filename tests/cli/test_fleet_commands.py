"""What people see of a fleet by commands, from the records that the hub has written (S3-1, S3-19)."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from applier.cluster import Cluster, ClusterName
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from gitops.cli import invoke
from gitops.cli.options import ClusterChoice
from gitops.clock import SystemClock
from gitops.explain.fleet_overview import FleetOverview
from gitops.explain.fleet_presence import CLUSTER_RECORDS
from gitops.fleet.cluster_record import (
    ClusterRecord,
    SourceSummary,
    cluster_record_key,
    declared_document,
    read_cluster_record,
    write_cluster_record,
)
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.fleet_objects import read_fleet_objects
from gitops.fleet.fleet_recorder import FleetRecorder
from gitops.fleet.identity import claim_cluster, read_cluster_uid, release_cluster
from gitops.records.installation import CLUSTER_RECORD, INSTALLATION
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, ObjectKey
from tests.support.cli import Typed
from tests.support.cluster.control_plane import ControlPlane
from tests.support.fleet_documents import cluster as cluster_text
from tests.support.fleet_documents import objects_in, placement, read
from tests.support.link_platform import LinkPlatform

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
EU, US, ASIA = ClusterName("eu-1"), ClusterName("us-1"), ClusterName("asia-1")
SETTLED = SourceSummary("9c1d2e7" + "0" * 33, "Settled", 12, 0, "", None)
WAITING = SourceSummary(
    "9c1d2e7" + "0" * 33, "Waiting", 12, 1, "WindowClosed: window us-night is closed", NOON + timedelta(hours=10)
)
FILES = {
    "eu": cluster_text("eu-1", {"region": "eu"}),
    "us": cluster_text("us-1", {"region": "us"}, access={"file": "us-1"}),
    "webapps": placement(
        "webapps",
        clusters={"matchExpressions": [{"key": "region", "operator": "Exists"}]},
        overrides=[{"clusters": {"matchLabels": {"region": "us"}}, "patch": {"spec": {"replicas": 3}}}],
    ),
}
OBJECTS = objects_in(read(FILES))


def record(name: ClusterName, uid: str, state: str, message: str = "", **sources: SourceSummary) -> ClusterRecord:
    return ClusterRecord(uid, state, NOON, message, declared_document(OBJECTS.clusters[name]), sources)


RECORDS = {
    EU: record(EU, "uid-eu", "Engaged", platform=SETTLED),
    US: record(US, "uid-us", "Engaged", platform=WAITING),
    ASIA: replace(
        record(
            EU, "uid-asia", "Removed", "no longer declared in Git; the objects deployed there stay", platform=SETTLED
        ),
        declared={},
    ),
}


async def write_fleet(hub: Cluster) -> None:
    for name, found in RECORDS.items():
        await write_cluster_record(hub, name, found, None)
    recorder = FleetRecorder(hub, SystemClock(), lambda *_: None)
    recorder.sources.keep({"platform": OBJECTS.accepted}, {})
    await recorder.flush()


@pytest.fixture
def hub(shops: LinkPlatform) -> LinkPlatform:
    shops.call(write_fleet(shops.cluster))
    return shops


def cells(text: str) -> list[str]:
    """Lines, with columns apart by two blanks."""
    return [re.sub(r" {2,}", "  ", line) for line in text.splitlines()]


def test_records_are_selected_as_they_are_written() -> None:
    assert f"{well_known.RECORD}={CLUSTER_RECORD}" == CLUSTER_RECORDS


def test_the_status_of_a_hub_shows_clusters_and_placements_first(hub: LinkPlatform, typed: Typed) -> None:
    """S3-19: and then what the hub's own cluster has."""
    lines = cells(typed(hub, "status", "--utc"))
    assert lines[0].startswith("Cluster prod-eu, ")
    assert lines[2:12] == [
        "CLUSTER  STATE  COMMIT  INSTANCES  FAILED  WAITS-FOR  UNTIL",
        "asia-1  Removed  9c1d2e7  12  0",
        "eu-1  Engaged  9c1d2e7  12  0",
        "us-1  Engaged  9c1d2e7  12  1  WindowClosed  Fri 2026-11-20 22:00",
        "",
        "Removed: cluster/asia-1: no longer declared in Git; the objects deployed there stay",
        "",
        "PLACEMENT  SETTLED  NOT SETTLED",
        "webapps  1/2  us-1",
        "",
    ]
    assert lines[12].startswith("SOURCE ")
    told = json.loads(typed(hub, "status", "-o", "json"))
    assert [(found["name"], found["state"], found["declared"]) for found in told["clusters"]] == [
        ("asia-1", "Removed", False),
        ("eu-1", "Engaged", True),
        ("us-1", "Engaged", True),
    ]
    assert told["placements"][0]["unsettled"] == {"us-1": "WindowClosed: window us-night is closed"}
    assert typed(hub, "status", "-o", "name").splitlines()[:4] == [
        "cluster/asia-1",
        "cluster/eu-1",
        "cluster/us-1",
        "placement/webapps",
    ]
    assert "WindowClosed: window us-night is closed" in typed(hub, "status", "-o", "wide")


def test_the_status_of_one_thing_or_of_local_is_as_without_a_fleet(shops: LinkPlatform, typed: Typed) -> None:
    """S3-3."""
    asked = (["status", "source/platform"], ["status", "-n", "default"])
    before = [typed(shops, *arguments) for arguments in (*asked, ["status"])]
    shops.call(write_fleet(shops.cluster))
    assert [typed(shops, *arguments) for arguments in (*asked, ["status", "--cluster", "local"])] == before


def test_several_sources_are_told_apart() -> None:
    from gitops.cli.fleet_status import fleet_lines
    from gitops.text import TimeFormat

    records = {EU: replace(RECORDS[EU], sources={"apps": WAITING, "platform": SETTLED}), US: RECORDS[US]}
    accepted = {"platform": OBJECTS.accepted, "apps": objects_in(read({"more": placement("more")})).accepted}
    overview = FleetOverview.from_records(records, accepted)
    assert cells("\n".join(fleet_lines(overview, TimeFormat(utc=True), wide=False))) == [
        "CLUSTER  SOURCE  STATE  COMMIT  INSTANCES  FAILED  WAITS-FOR  UNTIL",
        "eu-1  apps  Engaged  9c1d2e7  12  1  WindowClosed  Fri 2026-11-20 22:00",
        "eu-1  platform  Engaged  9c1d2e7  12  0",
        "us-1  platform  Engaged  9c1d2e7  12  1  WindowClosed  Fri 2026-11-20 22:00",
        "",
        "PLACEMENT  SOURCE  SETTLED  NOT SETTLED",
        "more  apps  0/2  eu-1, us-1",
        "webapps  platform  1/2  us-1",
    ]


def test_a_cluster_that_does_not_answer_is_not_counted_as_settled() -> None:
    silent = replace(RECORDS[EU], state="Unreachable", message="no answer")
    overview = FleetOverview.from_records({EU: silent}, {"platform": OBJECTS.accepted})
    (progress,) = overview.placements
    assert progress.unsettled == {EU: "Unreachable: no answer", US: "not connected yet"}
    assert progress.settled_count == 0


def test_what_is_said_of_the_hubs_own_cluster_is_not_said_of_others() -> None:
    from gitops.cli.fleet_status import settled_locally

    accepted = {"platform": OBJECTS.accepted}
    waiting = FleetOverview.from_records(RECORDS, accepted)
    assert settled_locally("Everything matches Git.", waiting) == (
        "In local: everything matches Git. Not settled: us-1; next: `levelgate explain cluster/us-1`"
    )
    assert settled_locally("", waiting) == ""
    settled = FleetOverview.from_records({EU: RECORDS[EU], US: RECORDS[EU]}, accepted)
    assert settled_locally("Everything matches Git.", settled) == "Everything matches Git."


def test_the_clusters_of_a_fleet_are_listed(hub: LinkPlatform, typed: Typed) -> None:
    assert cells(typed(hub, "cluster", "list", "--utc")) == [
        "CLUSTER  STATE  SINCE  UID  MESSAGE",
        "asia-1  Removed  Fri 2026-11-20 12:00  uid-asia  no longer declared in Git; the objects deployed there stay",
        "eu-1  Engaged  Fri 2026-11-20 12:00  uid-eu",
        "us-1  Engaged  Fri 2026-11-20 12:00  uid-us",
    ]
    assert typed(hub, "cluster", "list", "-o", "name") == "cluster/asia-1\ncluster/eu-1\ncluster/us-1\n"
    assert json.loads(typed(hub, "cluster", "list", "-o", "json"))["clusters"][1]["labels"] == {"region": "eu"}


def test_without_a_fleet_the_list_says_so(shops: LinkPlatform, typed: Typed) -> None:
    assert "is not a hub" in typed(shops, "cluster", "list")
    assert "no cluster 'eu-1'" in typed(shops, "status", "--cluster", "eu-1", code=1)


def test_a_cluster_is_explained(hub: LinkPlatform, typed: Typed) -> None:
    out = typed(hub, "explain", "cluster/us-1", "--utc")
    assert "Cluster us-1 is Engaged since " in out
    assert "source/platform at 9c1d2e7: Waiting, 12 instances, 1 failed; waits for WindowClosed: window us-night" in out
    assert "Placements: webapps." in out
    assert "levelgate explain source/platform --cluster us-1" in out
    assert "levelgate cluster forget asia-1 --reason TEXT" in typed(hub, "explain", "cluster", "asia-1")
    assert "did you mean 'us-1'?" in typed(hub, "explain", "cluster/us-2", code=1)
    assert json.loads(typed(hub, "explain", "cluster/us-1", "-o", "json"))["placements"] == ["webapps"]


def test_a_placement_is_explained(hub: LinkPlatform, typed: Typed) -> None:
    out = "\n".join(cells(typed(hub, "explain", "placement/webapps")))
    assert "Placement webapps of source platform (webapps.yaml:1): 1 of 2 clusters settled." in out
    assert "Differs in us-1: spec.replicas (webapps.yaml:1)." in out
    assert "us-1  9c1d2e7  Waiting  WindowClosed: window us-night is closed" in out
    assert json.loads(typed(hub, "explain", "placement/webapps", "-o", "json"))["placements"][0]["settled"] == 1
    assert "did you mean 'webapps'?" in typed(hub, "explain", "placement/webapp", code=1)


def test_commands_to_repeat_name_the_cluster() -> None:
    choice = ClusterChoice(context="hub", member="eu-1")
    assert choice.format_command("levelgate status") == "levelgate status --context hub --cluster eu-1"


def test_only_a_cluster_that_goes_is_forgotten(hub: LinkPlatform, typed: Typed) -> None:
    """S3-22: who gave it up and why is recorded."""
    refused = typed(hub, "cluster", "forget", "eu-1", "--reason", "x", code=1)
    assert (
        "Git declares cluster eu-1 (eu.yaml:1), so the hub cannot forget it; remove its Cluster from Git first"
        in refused
    )
    assert "is the hub itself" in typed(hub, "cluster", "forget", "local", "--reason", "x", code=1)
    assert "Missing option '--reason'" in typed(hub, "cluster", "forget", "asia-1", code=64)
    assert "has given up cluster asia-1: " in typed(
        hub, "cluster", "forget", "asia-1", "--reason", "the site was closed"
    )
    stored = hub.call(read_cluster_record(hub.cluster, ASIA))
    assert stored
    assert stored.record.forgotten.endswith(": the site was closed")
    assert replace(stored.record, forgotten="") == RECORDS[ASIA]


def test_a_file_needs_the_configuration_and_kubectl_knows_no_fleet(hub: LinkPlatform, typed: Typed) -> None:
    suspend = ("suspend", "--all", "--reason", "x", "--cluster")
    assert "kubectl has no --cluster" in typed(hub, *suspend, "eu-1", "--dry-run", code=64)
    refused = typed(hub, *suspend, "us-1", code=1)
    assert "cluster us-1: its kubeconfig is the file 'us-1' in the fleet.directory of levelgate.yaml" in refused
    assert "name the configuration with --config FILE, or else with LEVELGATE_CONFIG=FILE" in refused


@pytest.fixture
async def real_hub(kubeconfig: Path) -> AsyncIterator[KubeCluster]:
    cluster = await connect(kubeconfig=str(kubeconfig))
    yield cluster
    await cluster.close()


@pytest.fixture
async def member(real_hub: KubeCluster, control_plane: ControlPlane, kubeconfig: Path) -> AsyncIterator[ClusterName]:
    """A cluster of the fleet that is the hub once more, by a kubeconfig in a Secret; `forget`, `accept` and `release` have nothing to do yet."""
    name = ClusterName(f"m-{uuid4().hex[:8]}")
    document = cluster_text(name).replace('"clusters"', f'"{name}"').replace(f'"key": "{name}"', '"key": "value"')
    spec = read_fleet_objects(read({"m": document}), {}, fleet_source="platform").clusters[name]
    assert isinstance(spec, ClusterSpec)
    stored = ClusterRecord("the-one-before", "Unreachable", NOON, "another one", declared_document(spec), {})
    await write_cluster_record(real_hub, name, stored, None)
    data = base64.b64encode(control_plane.kubeconfig("levelgate").read_bytes()).decode()
    metadata = {"name": name, "namespace": OWN_NAMESPACE, "labels": {"levelgate.dev/cluster": "true"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": data}}
    await real_hub.apply(secret, manager="test")
    yield name
    for key in (cluster_record_key(name), ObjectKey("", "Secret", OWN_NAMESPACE, name)):
        if live := await real_hub.get(key):
            await real_hub.delete(key, uid=live["metadata"]["uid"], resource_version=None)


async def command(kubeconfig: Path, *arguments: str) -> int:
    return await asyncio.to_thread(invoke, [*arguments, "--kubeconfig", str(kubeconfig)])


async def test_the_cluster_of_the_hub_is_not_accepted_under_a_second_name(
    real_hub: KubeCluster, member: ClusterName, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S3-4: the daemon refuses it as well, so nothing may be recorded."""
    before = await read_cluster_record(real_hub, member)
    assert await command(kubeconfig, "cluster", "accept", member) == 1
    assert f"cluster {member} is the hub's own cluster" in capsys.readouterr().err
    assert await read_cluster_record(real_hub, member) == before


async def test_a_person_accepts_and_releases_a_cluster(
    real_hub: KubeCluster,
    member: ClusterName,
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3-4: the UID is read from the cluster itself, and both UIDs are told."""
    uid = await read_cluster_uid(real_hub)
    uids = iter((uid, "that-of-the-hub") * 2)  # one server plays both clusters

    async def next_uid(_: KubeCluster) -> str:
        return next(uids)

    monkeypatch.setattr("gitops.cli.cluster.read_cluster_uid", next_uid)
    assert await command(kubeconfig, "cluster", "accept", member) == 0
    out = capsys.readouterr().out
    assert f"now has UID {uid}; the UID before was the-one-before." in out
    stored = await read_cluster_record(real_hub, member)
    assert stored
    assert stored.record.uid == uid
    assert await command(kubeconfig, "cluster", "accept", member) == 0
    assert f"already has UID {uid}; the command wrote nothing" in capsys.readouterr().out

    monkeypatch.undo()
    await release_cluster(real_hub)
    await claim_cluster(real_hub, member, "some-other-hub")
    assert await command(kubeconfig, "cluster", "release", member) == 0
    assert "belonged to hub some-other-hub (another hub)" in capsys.readouterr().out
    live = await real_hub.get(INSTALLATION)
    assert live
    assert "hub" not in (live.get("data") or {})
    assert await command(kubeconfig, "cluster", "release", member) == 0
    assert "belongs to no hub" in capsys.readouterr().out


async def test_a_command_works_in_a_cluster_of_the_fleet(
    member: ClusterName, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command(kubeconfig, "status", "--cluster", member) == 0
    assert f"Cluster {member}, " in capsys.readouterr().out
    assert await command(kubeconfig, "status", "--cluster", f"{member}x") == 1
    assert f"did you mean '{member}'?" in capsys.readouterr().err
