"""A source that writes with the rights of a service account, in several clusters: each has its own account of that name."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.support import command as process
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.definitions import config_map
from tests.support.fleet_platform import EVERYWHERE, FleetPlatform, cluster, document, fleet

__all__ = ["fleet"]

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def grant(fleet: FleetPlatform, name: str, resources: Sequence[str]) -> None:
    """Let the account `robot` do everything with these resources of a cluster."""
    server, role = fleet.clusters[name], f"robot-{fleet.namespace}"
    rules = [{"apiGroups": [""], "resources": list(resources), "verbs": ["*"]}]
    subjects = [{"kind": "ServiceAccount", "name": "robot", "namespace": fleet.namespace}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    bound = {"metadata": {"name": role}, "roleRef": reference, "subjects": subjects}
    assert server.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules}).code == 201
    assert server.request("POST", f"{RBAC}/clusterrolebindings", bound).code == 201


def impersonated(server: ControlPlane, namespace: str, since: int) -> set[tuple[str, str]]:
    """The names of objects that Levelgate wrote, each with in whose name."""
    events = AuditLog(server.audit_log).events(since=since, user="levelgate", namespace=namespace)
    return {(event.name, event.impersonated) for event in events if event.is_write and event.resource != "events"}


def test_an_account_has_in_each_cluster_the_rights_that_it_has_there(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """Threat 12: what it may not do in one cluster is refused in that cluster alone, and named there."""
    settings = json.loads(fleet.config.read_text())
    settings["sources"][0]["serviceAccount"] = f"{fleet.namespace}/robot"
    fleet.config.write_text(json.dumps(settings))
    grant(fleet, "c0", ["configmaps", "secrets"])
    grant(fleet, "c1", ["configmaps"])
    since = {name: fleet.mark(name) for name in ("c0", "c1")}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": fleet.namespace}}
    fleet.repository.commit(
        {
            "placement.json": document("Placement", "all", {"objects": {}, "clusters": EVERYWHERE}),
            "plain.json": config_map(fleet.namespace, "plain", text="here"),
            "secret.json": json.dumps(secret),
            "c0.json": cluster("c0"),
            "c1.json": cluster("c1"),
        }
    )
    user = f"system:serviceaccount:{fleet.namespace}:robot"
    with fleet.start():
        eventually(lambda: fleet.recorded_state(control_plane, "c0") == "Engaged Settled", within=90)
        eventually(lambda: fleet.recorded_state(control_plane, "c1") == "Engaged Failed")
        assert (fleet.text_in("c0", "plain"), fleet.text_in("c1", "plain")) == ("here", "here")
        path = f"/api/v1/namespaces/{fleet.namespace}/secrets/s"
        assert [fleet.clusters[name].request("GET", path).code for name in ("c0", "c1")] == [200, 404]
        for name in ("c0", "c1"):
            assert impersonated(fleet.clusters[name], fleet.namespace, since[name]) == {("plain", user), ("s", user)}
        environment = {**fleet.environment, "LEVELGATE_CONFIG": str(fleet.config)}
        asked = ("explain", "secret/s", "-n", fleet.namespace, "--cluster")
        assert f'User "{user}" cannot' in process.run((*asked, "c1"), environment).stdout
        assert "cannot" not in process.run((*asked, "c0"), environment).stdout
