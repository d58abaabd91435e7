"""The hub is lost: the clusters keep their inventory, and whichever hub comes next takes over from them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.definitions import config_map
from tests.support.fleet_platform import FleetPlatform, everything, fleet
from tests.support.platform import MERGE, OWN

__all__ = ["fleet"]


def hub_records(hub: ControlPlane) -> Iterator[str]:
    """The names of the records that a hub keeps of its fleet."""
    for found in hub.request("GET", OWN).body["items"]:
        name = found["metadata"]["name"]
        if name.startswith(("cluster-", "fleet-", "source-src-")):
            yield name


def is_deployed(fleet: FleetPlatform) -> bool:
    return fleet.texts("one-b") == {"c0": "one", "c1": "us", "c2": "us"} and all(map(fleet.is_settled, fleet.clusters))


def test_a_hub_without_records_takes_over_from_the_clusters(fleet: FleetPlatform, control_plane: ControlPlane) -> None:
    """All records of the hub are deleted: the next start writes them again, and nothing in any cluster."""
    fleet.repository.commit(everything(fleet))
    with fleet.start():
        eventually(lambda: is_deployed(fleet), within=90)
    for name in list(hub_records(control_plane)):
        assert control_plane.request("DELETE", f"{OWN}/{name}").code == 200
    since = {name: fleet.mark(name) for name in fleet.clusters}
    with fleet.start():
        eventually(
            lambda: {fleet.recorded_state(control_plane, name) for name in fleet.clusters} == {"Engaged Settled"},
            within=90,
        )
        assert {name: fleet.writes_to(name, since[name]) for name in fleet.clusters} == {
            name: [] for name in fleet.clusters
        }


def test_another_hub_takes_over_once_the_clusters_are_released(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """The mark of a hub that is gone keeps others out until a person releases the cluster; then nothing is written anew."""
    fleet.repository.commit(everything(fleet))
    with fleet.start():
        eventually(lambda: is_deployed(fleet), within=90)
    for name, server in fleet.clusters.items():  # As another hub would have left them.
        mark = {"data": {"hub": "the-hub-that-is-gone"}}
        assert server.request("PATCH", f"{OWN}/levelgate", mark, content_type=MERGE).code == 200, name
    since = {name: fleet.mark(name) for name in fleet.clusters}
    with fleet.start():
        eventually(
            lambda: all(fleet.recorded_state(control_plane, name).startswith("Unreachable") for name in fleet.clusters),
            within=60,
        )
        for server in fleet.clusters.values():  # What `levelgate cluster release` does.
            released = {"data": {"hub": None}}
            assert server.request("PATCH", f"{OWN}/levelgate", released, content_type=MERGE).code == 200
        eventually(
            lambda: {fleet.recorded_state(control_plane, name) for name in fleet.clusters} == {"Engaged Settled"},
            within=90,
        )
        assert {name: fleet.writes_to(name, since[name]) for name in fleet.clusters} == {
            name: [] for name in fleet.clusters
        }


def test_a_record_that_is_deleted_while_the_hub_runs_is_written_again(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """With who the cluster is: the next start would take any other one for it."""
    fleet.repository.commit(everything(fleet))
    with fleet.start():
        eventually(lambda: is_deployed(fleet), within=90)
        eventually(lambda: fleet.recorded_state(control_plane, "c1") == "Engaged Settled")
        path = f"{OWN}/cluster-c1"
        before = control_plane.request("GET", path).body["data"]
        assert control_plane.request("DELETE", path).code == 200
        fleet.repository.commit({"plain.json": config_map(fleet.namespace, "plain", text="there")})
        # It is made empty, then filled over the version that was made.
        after = eventually(lambda: control_plane.request("GET", path).body.get("data"), within=30)
        assert {name: after[name] for name in ("uid", "declared")} == {
            name: before[name] for name in ("uid", "declared")
        }
