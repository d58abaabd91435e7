"""The life of a cluster of a fleet: paused, removed in reach and out of it, removed while it is written to; and the end of its hub."""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import Any

import pytest

from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.definitions import config_map
from tests.support.fleet_platform import FleetPlatform, cluster, everything, fleet
from tests.support.platform import MERGE, OWN

__all__ = ["fleet"]

STOP_SECONDS = 60.0
"""Far more than the five seconds of passes and the one of a Lease that a stop waits for, at most, on a busy machine too."""

MANY = 400
"""Objects, so many that an apply takes a second."""


def record_path(name: str) -> str:
    return f"{OWN}/cluster-{name}"


def record_of(hub: ControlPlane, name: str) -> dict[str, Any]:
    """What the hub's record says of a cluster; empty where there is none."""
    answer = hub.request("GET", record_path(name))
    return answer.body["data"] if answer.code == 200 else {}


def lease_holder(server: ControlPlane) -> str:
    """Who has the Lease of a cluster; empty: nobody."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases/levelgate"
    return str(server.request("GET", path).body["spec"].get("holderIdentity") or "")


def everything_removed_as(fleet: FleetPlatform, fate: str) -> dict[str, str | None]:
    return {**everything(fleet), "c2.json": cluster("c2", onRemove=fate)}


def until_placed(fleet: FleetPlatform) -> None:
    eventually(lambda: fleet.texts("one-b") == {"c0": "one", "c1": "us", "c2": "us"}, within=90)
    eventually(lambda: fleet.texts("plain") == dict.fromkeys(fleet.clusters, "here"))


def test_a_removed_cluster_is_drained_first_where_it_says_so(fleet: FleetPlatform, control_plane: ControlPlane) -> None:
    """S3-22, `onRemove: Delete`, in reach: members go in reverse order, then the mark and the record."""
    fleet.repository.commit(everything_removed_as(fleet, "Delete"))
    with fleet.start():
        until_placed(fleet)
        since = fleet.mark("c2")
        fleet.repository.commit({"c2.json": None})
        eventually(lambda: record_of(control_plane, "c2") == {}, within=60)
        assert not fleet.is_marked("c2")
        assert {name: fleet.text_in("c2", name) for name in ("plain", "one-a", "one-b")} == {
            "plain": "",
            "one-a": "",
            "one-b": "",
        }
        deleted = [event.name for event in fleet.writes_to("c2", since) if event.verb == "delete"]
        assert deleted.index("one-b") < deleted.index("one-a")
        assert (fleet.text_in("c0", "plain"), fleet.text_in("c1", "one-b")) == ("here", "us")


@pytest.mark.parametrize("fate", ["Orphan", "Delete"])
def test_the_removal_of_a_cluster_out_of_reach_waits_and_survives_a_restart(
    fleet: FleetPlatform, control_plane: ControlPlane, fate: str
) -> None:
    """S3-22, not in reach: it says that it waits, and is finished when the cluster answers, by another process."""
    fleet.repository.commit(everything_removed_as(fleet, fate))
    with fleet.start():
        until_placed(fleet)
        fleet.clusters["c2"].freeze()
        try:
            fleet.repository.commit({"c2.json": None})
            eventually(
                lambda: "waits until the cluster answers" in record_of(control_plane, "c2").get("message", ""),
                within=60,
            )
        except BaseException:
            fleet.clusters["c2"].thaw()
            raise
    try:
        with fleet.start():
            eventually(lambda: fleet.text_in("c0", "plain") == "here")
            fleet.clusters["c2"].thaw()
            eventually(lambda: record_of(control_plane, "c2") == {}, within=90)
    finally:
        fleet.clusters["c2"].thaw()
    assert not fleet.is_marked("c2")
    assert fleet.text_in("c2", "one-b") == ("us" if fate == "Orphan" else "")


def test_a_person_gives_up_the_removal_of_a_cluster(fleet: FleetPlatform, control_plane: ControlPlane) -> None:
    """S3-22: its record says who and why, which ends it."""
    fleet.repository.commit(everything_removed_as(fleet, "Delete"))
    with fleet.start() as running:
        until_placed(fleet)
        fleet.clusters["c2"].freeze()
        try:
            fleet.repository.commit({"c2.json": None})
            eventually(
                lambda: "waits until the cluster answers" in record_of(control_plane, "c2").get("message", ""),
                within=60,
            )
            forgotten = {"data": {"forgotten": "ann: it burned down"}}
            assert control_plane.request("PATCH", record_path("c2"), forgotten, content_type=MERGE).code == 200
            eventually(lambda: record_of(control_plane, "c2") == {}, within=90)
        finally:
            fleet.clusters["c2"].thaw()
        assert any("ann: it burned down" in line for line in iter(running.stdout.readline, ""))


def test_a_cluster_that_is_removed_during_its_apply_is_written_to_no_more(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """M4: the write under way ends, none comes after it, and all that was written is recorded."""
    many = {f"many-{number}.json": config_map(fleet.namespace, f"many-{number}", text="1") for number in range(MANY)}
    fleet.repository.commit(everything(fleet))
    with fleet.start() as running:
        # Nobody else reads what it prints, and it prints more than a pipe holds.
        threading.Thread(target=running.stdout.read, daemon=True).start()
        until_placed(fleet)
        eventually(lambda: fleet.is_settled("c2"))
        since = fleet.mark("c2")
        fleet.repository.commit(many)
        eventually(lambda: len(fleet.writes_to("c2", since)) > 10, within=60)
        fleet.repository.commit({"c2.json": None})
        eventually(lambda: not fleet.is_marked("c2"), within=60)
        written = len(fleet.writes_to("c2", since))
        eventually(lambda: fleet.text_in("c0", f"many-{MANY - 1}") == "1", within=90)
        time.sleep(3)
        assert len(fleet.writes_to("c2", since)) == written
    path = f"/api/v1/namespaces/{fleet.namespace}/configmaps"
    live = [item["metadata"]["name"] for item in fleet.clusters["c2"].request("GET", path).body["items"]]
    members = {name for name in live if fleet.label("c2", name)}
    assert members >= {name for name in live if name.startswith("many-")}
    record = f"{OWN}/source-{fleet.name}"
    inventory = json.dumps(fleet.clusters["c2"].request("GET", record).body["metadata"])
    assert fleet.namespace in inventory
    assert "ConfigMap" in inventory


def test_a_paused_cluster_is_left_alone_until_it_is_no_longer(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """S3-4: it finishes what is under way, writes nothing after that, and catches up."""
    fleet.repository.commit(everything(fleet))
    with fleet.start():
        until_placed(fleet)
        fleet.repository.commit({"c2.json": cluster("c2", paused=True)})
        eventually(lambda: record_of(control_plane, "c2").get("state") == "Paused")
        since = fleet.mark("c2")
        fleet.repository.commit({"plain.json": config_map(fleet.namespace, "plain", text="there")})
        eventually(lambda: {fleet.text_in("c0", "plain"), fleet.text_in("c1", "plain")} == {"there"})
        assert fleet.writes_to("c2", since) == []
        fleet.repository.commit({"c2.json": cluster("c2")})
        eventually(lambda: fleet.text_in("c2", "plain") == "there", within=60)
        eventually(lambda: record_of(control_plane, "c2").get("state") == "Engaged")


def test_a_hub_that_is_stopped_waits_for_no_cluster_that_does_not_answer(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """M7: it ends on its own, with the exit code of one that was interrupted, and gives back the Leases of all that answer."""
    fleet.repository.commit(everything(fleet))
    answering = (control_plane, fleet.clusters["c0"], fleet.clusters["c1"])
    with fleet.start() as running:
        until_placed(fleet)
        assert all(map(lease_holder, answering))
        fleet.clusters["c2"].freeze()
        try:
            running.send_signal(signal.SIGTERM)
            assert running.wait(STOP_SECONDS) == 130
        finally:
            fleet.clusters["c2"].thaw()
    assert [lease_holder(server) for server in answering] == ["", "", ""]
