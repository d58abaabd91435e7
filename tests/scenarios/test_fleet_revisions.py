"""A revision of a definition has one number in all clusters of a fleet: real repository, real command, real clusters."""

from __future__ import annotations

import json

from renderer import well_known
from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.definitions import chain
from tests.support.fleet_platform import FleetPlatform, cluster, document, everything, fleet
from tests.support.platform import OWN

__all__ = ["fleet"]

REVISIONS = f"/apis/apps/v1/namespaces/{OWN_NAMESPACE}/controllerrevisions"


def numbers(fleet: FleetPlatform, server: ControlPlane) -> dict[int, str]:
    """The digest of each revision that a cluster has of the definition, by its number."""
    found: dict[int, str] = {}
    for item in server.request("GET", f"{REVISIONS}?labelSelector={well_known.RECORD}=definition").body["items"]:
        annotations = item["metadata"]["annotations"]
        if annotations[well_known.RECORD_OF] == f"{fleet.group}/Chain":
            found[int(annotations[well_known.REVISION])] = annotations[well_known.HASH]
    return found


def numbers_everywhere(fleet: FleetPlatform) -> dict[str, list[int]]:
    return {name: sorted(numbers(fleet, server)) for name, server in fleet.clusters.items()}


def recorded(fleet: FleetPlatform, hub: ControlPlane) -> dict[str, int]:
    """The numbers on record of the hub, by digest."""
    answer = hub.request("GET", f"{OWN}/fleet-{fleet.name}")
    found = json.loads((answer.body.get("data") or {}).get("revisions") or "{}") if answer.code == 200 else {}
    return dict(found.get(f"{fleet.group}/Chain", {}))


def revision_of(fleet: FleetPlatform, name: str) -> str:
    """The number that a member carries which revision 2 has brought; that of one which is as before says nothing."""
    path = f"/api/v1/namespaces/{fleet.namespace}/configmaps/one-c"
    answer = fleet.clusters[name].request("GET", path)
    annotations = answer.body["metadata"].get("annotations") or {} if answer.code == 200 else {}
    return str(annotations.get(well_known.REVISION, ""))


def test_a_revision_has_one_number_in_all_clusters(fleet: FleetPlatform, control_plane: ControlPlane) -> None:
    """S3-8: also in one that joins late, with gaps; a hub that has lost its records goes on above, and writes nothing for it."""
    group = fleet.group
    fleet.repository.commit({**everything(fleet), "c2.json": cluster("c2", paused=True)})
    with fleet.start():
        eventually(lambda: (fleet.text_in("c0", "one-b"), fleet.text_in("c1", "one-b")) == ("one", "us"), within=90)
        fleet.repository.commit({"chain.json": chain(group, "abc")})
        eventually(lambda: (fleet.text_in("c0", "one-c"), fleet.text_in("c1", "one-c")) == ("one", "us"), within=90)
        fleet.repository.commit({"c2.json": cluster("c2")})
        eventually(lambda: fleet.text_in("c2", "one-c") == "us", within=90)
        assert numbers_everywhere(fleet) == {"c0": [1, 2], "c1": [1, 2], "c2": [2]}
        assert numbers(fleet, fleet.clusters["c0"]) == numbers(fleet, fleet.clusters["c1"])
        assert numbers(fleet, fleet.clusters["c2"]).items() <= numbers(fleet, fleet.clusters["c0"]).items()
        assert recorded(fleet, control_plane) == {
            digest: number for number, digest in numbers(fleet, fleet.clusters["c0"]).items()
        }
        eventually(lambda: {revision_of(fleet, name) for name in fleet.clusters} == {"2"})
        eventually(lambda: all(map(fleet.is_settled, fleet.clusters)), within=60)
    for found in control_plane.request("GET", OWN).body["items"]:
        if (name := found["metadata"]["name"]).startswith(("cluster-", "fleet-")):
            assert control_plane.request("DELETE", f"{OWN}/{name}").code == 200
    since = {name: fleet.mark(name) for name in fleet.clusters}
    with fleet.start():
        eventually(
            lambda: {fleet.recorded_state(control_plane, name) for name in fleet.clusters} == {"Engaged Settled"},
            within=90,
        )
        eventually(lambda: sorted(recorded(fleet, control_plane).values()) == [1, 2])
        assert {name: fleet.writes_to(name, since[name]) for name in fleet.clusters} == {
            name: [] for name in fleet.clusters
        }
        fleet.repository.commit({"chain.json": chain(group, "abcd")})
        eventually(lambda: fleet.texts("one-d") == {"c0": "one", "c1": "us", "c2": "us"}, within=90)
        assert numbers_everywhere(fleet) == {"c0": [1, 2, 3], "c1": [1, 2, 3], "c2": [2, 3]}
        fleet.repository.commit(
            {"local.json": document("Cluster", "local", {}, region="eu")}
        )  # The hub's own cluster joins.
        path = f"/api/v1/namespaces/{fleet.namespace}/configmaps/one-d"
        eventually(lambda: control_plane.request("GET", path).code == 200, within=90)
        assert numbers(fleet, control_plane) == {3: numbers(fleet, fleet.clusters["c0"])[3]}
