"""Credentials of a cluster in a Secret of the hub: they appear, and are rotated, while the hub runs."""

from __future__ import annotations

import base64
from collections import Counter

from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.definitions import config_map
from tests.support.fleet_platform import EVERYWHERE, FleetPlatform, cluster, document, fleet

__all__ = ["fleet"]

SECRETS = f"/api/v1/namespaces/{OWN_NAMESPACE}/secrets"
OTHER_USER = "other"
"""Whose credentials take the place of those of `levelgate`: the audit log tells who asked."""


def body_of(name: str, peer: ControlPlane, user: str) -> dict[str, object]:
    kubeconfig = base64.b64encode(peer.kubeconfig(user).read_bytes()).decode()
    labels = {"levelgate.dev/cluster": "true"}
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": kubeconfig}}


def test_a_secret_that_appears_engages_its_cluster_and_one_that_changes_is_used_at_once(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """M3: a rotation begins no watch and reads no kind anew, and the hub is asked for the Secret only when it has changed."""
    name = f"c1-{fleet.namespace}"
    access = {"secretRef": {"name": name, "key": "value"}}
    files = {
        "placement.json": document("Placement", "all", {"objects": {}, "clusters": EVERYWHERE}),
        "plain.json": config_map(fleet.namespace, "plain", text="here"),
        "c1.json": cluster("c1", access),
    }
    fleet.repository.commit(files)
    hub, spoke = AuditLog(control_plane.audit_log), AuditLog(fleet.clusters["c1"].audit_log)
    path = f"/api/v1/namespaces/{fleet.namespace}/configmaps/plain"
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN_NAMESPACE}})
    try:
        with fleet.start():
            eventually(lambda: fleet.recorded_state(control_plane, "c1").startswith("Unreachable"), within=90)
            assert control_plane.request("POST", SECRETS, body_of(name, fleet.clusters["c1"], "levelgate")).code == 201
            eventually(lambda: fleet.text_in("c1", "plain") == "here", within=90)
            eventually(lambda: fleet.recorded_state(control_plane, "c1") == "Engaged Settled")
            hub_mark, spoke_mark = hub.mark(), spoke.mark()
            changed = body_of(name, fleet.clusters["c1"], OTHER_USER)
            assert control_plane.request("PUT", f"{SECRETS}/{name}", changed).code == 200
            eventually(
                lambda: (
                    [event.verb for event in hub.events(since=hub_mark, user="levelgate") if event.name == name]
                    == ["get"]
                )
            )
            assert fleet.clusters["c1"].request("DELETE", path).code == 200
            eventually(lambda: fleet.text_in("c1", "plain") == "here")
            healed = [
                event.user
                for event in spoke.events(since=spoke_mark)
                if event.is_write and event.uri.partition("?")[0] == path
            ]
            assert healed[-1] == OTHER_USER
            asked = Counter(event.verb for event in spoke.events(since=spoke_mark, user=OTHER_USER))
            assert asked["watch"] == asked["list"] == 0
            read = [event.uri for event in hub.events(since=hub_mark, user="levelgate") if event.resource == "secrets"]
            assert len(read) == 1
    finally:
        control_plane.request("DELETE", f"{SECRETS}/{name}")
