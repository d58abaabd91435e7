"""Clusters that may not be written to, or that misbehave: named, left alone, and no burden for the others."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.audit import AuditEvent, AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.command import RunningCommand
from tests.support.definitions import config_map
from tests.support.fleet_platform import EVERYWHERE, FleetPlatform, cluster, document, fleet
from tests.support.platform import MERGE

__all__ = ["fleet"]

RECORDS = f"/api/v1/namespaces/{OWN_NAMESPACE}"
SECRET = "fleet-refusal"


def plain_everywhere(fleet: FleetPlatform, *clusters: str) -> dict[str, str | None]:
    """One plain object on every cluster."""
    return {
        "placement.json": document("Placement", "all", {"objects": {}, "clusters": EVERYWHERE}),
        "plain.json": config_map(fleet.namespace, "plain", text="here"),
        **{f"cluster-{index}.json": text for index, text in enumerate(clusters)},
    }


def all_writes(server: ControlPlane, since: int) -> list[AuditEvent]:
    """What Levelgate wrote anywhere in a cluster, but for the Lease that only who engages it takes."""
    events = AuditLog(server.audit_log).events(since=since, user="levelgate")
    return [event for event in events if event.is_write]


def recorded_message(hub: ControlPlane, name: str) -> str:
    """What the hub's record says of why a cluster is not engaged."""
    answer = hub.request("GET", f"{RECORDS}/configmaps/cluster-{name}")
    return str((answer.body.get("data") or {}).get("message", "")) if answer.code == 200 else ""


@contextmanager
def secret(hub: ControlPlane, kubeconfig: str, labels: Mapping[str, str]) -> Iterator[None]:
    """A kubeconfig in a Secret of the hub."""
    hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN_NAMESPACE}})
    body = {
        "metadata": {"name": SECRET, "labels": dict(labels)},
        "data": {"value": base64.b64encode(kubeconfig.encode()).decode()},
    }
    assert hub.request("POST", f"{RECORDS}/secrets", body).code == 201
    try:
        yield
    finally:
        hub.request("DELETE", f"{RECORDS}/secrets/{SECRET}")


def with_exec(kubeconfig: str) -> str:
    """The same kubeconfig, with a program in place of its credentials."""
    config = yaml.safe_load(kubeconfig)
    for user in config["users"]:
        user["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": ["/x"]}}
    return json.dumps(config)


@pytest.mark.parametrize(
    ("labels", "change", "message"),
    [
        ({"levelgate.dev/cluster": "true"}, with_exec, "exec"),
        ({}, str, 'has no label levelgate.dev/cluster: "true"'),
    ],
    ids=["exec", "label missing"],
)
def test_credentials_that_are_refused_are_named_and_the_others_go_on(
    fleet: FleetPlatform,
    control_plane: ControlPlane,
    labels: Mapping[str, str],
    change: Callable[[str], str],
    message: str,
) -> None:
    """A kubeconfig that runs a program, and a Secret that is not meant for this (Flux CVE-2022-24817)."""
    kubeconfig = change((fleet.config.parent / "clusters" / "c1").read_text())
    refused = cluster("c1", {"secretRef": {"name": SECRET, "key": "value"}})
    fleet.repository.commit(plain_everywhere(fleet, cluster("c0"), refused))
    since = fleet.mark("c1")
    with secret(control_plane, kubeconfig, labels), fleet.start():
        eventually(lambda: fleet.text_in("c0", "plain") == "here", within=90)
        eventually(lambda: message in recorded_message(control_plane, "c1"))
        assert all_writes(fleet.clusters["c1"], since) == []


def test_a_cluster_that_is_another_than_recorded_is_left_alone_until_a_person_accepts_it(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """The UID of `kube-system` is another one: the credentials lead somewhere else now."""
    key = f"{RECORDS}/configmaps"
    labels = {"internal.levelgate.dev/record": "cluster"}
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN_NAMESPACE}})
    control_plane.request("DELETE", f"{key}/cluster-c1")
    body = {"metadata": {"name": "cluster-c1", "labels": labels}, "data": {"uid": "another"}}
    assert control_plane.request("POST", key, body).code == 201
    fleet.repository.commit(plain_everywhere(fleet, cluster("c0"), cluster("c1")))
    since = fleet.mark("c1")
    with fleet.start():
        eventually(lambda: fleet.text_in("c0", "plain") == "here", within=90)
        eventually(lambda: "levelgate cluster accept c1" in recorded_message(control_plane, "c1"))
        assert all_writes(fleet.clusters["c1"], since) == []
        uid = fleet.clusters["c1"].request("GET", "/api/v1/namespaces/kube-system").body["metadata"]["uid"]
        assert (
            control_plane.request("PATCH", f"{key}/cluster-c1", {"data": {"uid": uid}}, content_type=MERGE).code == 200
        )
        eventually(lambda: fleet.text_in("c1", "plain") == "here", within=90)


def test_one_cluster_under_two_names_is_written_to_under_one(fleet: FleetPlatform, control_plane: ControlPlane) -> None:
    """Whichever of the two names is engaged first keeps the cluster; the other one is named."""
    fleet.repository.commit(plain_everywhere(fleet, cluster("c0"), cluster("c1", {"file": "c0"})))
    with fleet.start():
        eventually(lambda: fleet.text_in("c0", "plain") == "here", within=90)
        eventually(
            lambda: any("are one cluster" in recorded_message(control_plane, name) for name in ("c0", "c1")), within=30
        )
        messages = [recorded_message(control_plane, name) for name in ("c0", "c1")]
        assert sum("are one cluster" in message for message in messages) == 1


@pytest.mark.parametrize("first", ["hub", "other"])
def test_a_second_hub_writes_nothing(fleet: FleetPlatform, control_plane: ControlPlane, first: str) -> None:
    """M8, in both orders: `ClusterClaimed` within five seconds of its start, and no write of content."""
    other_hub = fleet.clusters["c2"]
    fleet.repository.commit(plain_everywhere(fleet, cluster("c0")))
    environments = {
        "hub": fleet.environment,
        "other": {**fleet.environment, "KUBECONFIG": str(other_hub.kubeconfig("levelgate"))},
    }
    hubs = {"hub": control_plane, "other": other_hub}
    second = "other" if first == "hub" else "hub"
    arguments = ("run", "--config", str(fleet.config), "--listen", "off")
    try:
        with RunningCommand(arguments, environments[first]):
            eventually(lambda: fleet.text_in("c0", "plain") == "here", within=90)
            eventually(lambda: fleet.is_settled("c0"))
            since = fleet.mark("c0")
            with RunningCommand(arguments, environments[second]) as running:
                for line in iter(running.stdout.readline, ""):
                    if line.strip():
                        started = time.monotonic()
                        break
                eventually(lambda: "ClusterClaimed" in recorded_message(hubs[second], "c0"), within=30)
                assert time.monotonic() - started < 5 + 2  # The record follows within its interval.
                assert fleet.writes_to("c0", since) == []
    finally:
        for path in ("cluster-c0", "levelgate", f"fleet-{fleet.name}", f"source-{fleet.name}"):
            other_hub.request("DELETE", f"{RECORDS}/configmaps/{path}")


class Endless(BaseHTTPRequestHandler):
    """A server that answers without end."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        deadline = time.monotonic() + 120
        try:
            while time.monotonic() < deadline:
                self.wfile.write(chunk)
                time.sleep(0.01)  # The test itself has to get its turn.
        except OSError:
            self.close_connection = True

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


class Slow(Endless):
    """A server that answers after 30 seconds."""

    def do_GET(self) -> None:
        time.sleep(30)
        self.send_error(500)


class Malformed(Endless):
    """A server whose discovery is no discovery, and whose objects are none."""

    def do_GET(self) -> None:
        body = b'{"kind": ["?"], "resources": 7, "groups": {"a": null}, "metadata": {"uid": "x"}, "items": "none"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("handler", [Endless, Slow, Malformed])
def test_a_hostile_cluster_harms_no_other(
    fleet: FleetPlatform, control_plane: ControlPlane, handler: type[BaseHTTPRequestHandler]
) -> None:
    """An endless body, answers after 30 seconds, discovery that is none: that one is told, the others follow Git."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (fleet.config.parent / "clusters" / "bad").write_text(json.dumps(config))
    fleet.repository.commit(plain_everywhere(fleet, cluster("c0"), cluster("c1", {"file": "bad"})))
    try:
        with fleet.start():
            eventually(lambda: fleet.text_in("c0", "plain") == "here", within=90)
            eventually(lambda: fleet.recorded_state(control_plane, "c1").split()[0] in {"Unreachable", "Degraded"})
            fleet.repository.commit({"plain.json": config_map(fleet.namespace, "plain", text="there")})
            eventually(lambda: fleet.text_in("c0", "plain") == "there", within=20)
            eventually(lambda: fleet.recorded_state(control_plane, "c0") == "Engaged Settled")
    finally:
        server.shutdown()
        server.server_close()
