"""That the control plane the other tests stand on is a real one, tells who did what, and leaves nothing behind."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane, ServerResponse
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.waiting import eventually

ROOT = Path(__file__).parents[3]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="tells by /proc whether a process runs")


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def apply(server: ControlPlane, namespace: str, name: str, *, query: str, **data: str) -> ServerResponse:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}?{query}"
    media_type = "application/apply-patch+yaml"
    return server.request("PATCH", path, config_map(name, **data), user="levelgate", content_type=media_type)


def test_kubectl_understands_the_server(kubectl: Kubectl, namespace: str) -> None:
    assert json.loads(kubectl("version", "-o", "json"))["serverVersion"]["major"] == "1"
    assert f"namespace/{namespace}" in kubectl("get", "namespaces", "-o", "name").splitlines()


def test_kubectl_shows_why_it_failed(kubectl: Kubectl) -> None:
    with pytest.raises(AssertionError, match="NotFound"):
        kubectl("get", "namespace", "nowhere")
    assert "NotFound" in kubectl("get", "namespace", "nowhere", check=False)


def test_the_audit_log_tells_who_wrote_what(kubectl: Kubectl, audit: AuditLog, namespace: str) -> None:
    start = audit.mark()
    kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(config_map("one", a="1")))
    kubectl("delete", "--dry-run=server", "-n", namespace, "configmap", "one")

    events = audit.events(since=start, user="person", namespace=namespace)

    (write,) = [event for event in events if event.is_write]
    assert (write.verb, write.resource, write.name, write.code) == ("patch", "configmaps", "one", 201)
    assert write.request["data"] == {"a": "1"}
    assert write.time < write.answered
    assert [event.verb for event in events if event.is_dry_run] == ["delete"]
    assert not audit.events(since=start, user="levelgate", namespace=namespace)


def test_a_request_that_ran_out_of_time_is_in_the_settled_audit_log(
    control_plane: ControlPlane, audit: AuditLog, namespace: str
) -> None:
    start = audit.mark()
    control_plane.pause_etcd()
    try:
        answer = apply(control_plane, namespace, "late", query="fieldManager=a&timeout=1s", a="1")
        events = audit.events(since=start, user="levelgate")
    finally:
        control_plane.resume_etcd()

    assert answer.code == 504
    assert [(event.name, event.code) for event in events] == [("late", 504)]


def test_a_watch_is_in_the_audit_log_once(control_plane: ControlPlane, audit: AuditLog, namespace: str) -> None:
    start = audit.mark()
    path = f"/api/v1/namespaces/{namespace}/configmaps?watch=true&timeoutSeconds=1"

    assert control_plane.request("GET", path).code == 200

    assert [event.verb for event in audit.events(since=start, namespace=namespace)] == ["watch"]


def test_field_managers_conflict(control_plane: ControlPlane, namespace: str) -> None:
    assert apply(control_plane, namespace, "shared", query="fieldManager=a", key="1").code == 201

    refused = apply(control_plane, namespace, "shared", query="fieldManager=b", key="2")

    assert refused.code == 409
    assert [cause["reason"] for cause in refused.body["details"]["causes"]] == ["FieldManagerConflict"]


def test_a_tenant_may_do_what_it_is_granted(control_plane: ControlPlane, kubectl: Kubectl, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert control_plane.request("GET", path, user="tenant").code == 403

    kubectl("create", "role", "reader", "-n", namespace, "--verb=list", "--resource=configmaps")
    kubectl("create", "rolebinding", "reader", "-n", namespace, "--role=reader", "--user=tenant")

    eventually(lambda: control_plane.request("GET", path, user="tenant").code == 200)


def test_a_deleted_namespace_goes_away_with_its_content(control_plane: ControlPlane, namespace: str) -> None:
    if not control_plane.controllers:
        pytest.skip("KUBEBUILDER_ASSETS has no kube-controller-manager")
    path = f"/api/v1/namespaces/{namespace}"
    assert apply(control_plane, namespace, "content", query="fieldManager=a").code == 201

    control_plane.request("DELETE", path)

    eventually(lambda: control_plane.request("GET", path).code == 404, within=180)


def uid(server: ControlPlane) -> str:
    """Of the namespace kube-system, by which clusters are told from each other."""
    return str(server.request("GET", "/api/v1/namespaces/kube-system").body["metadata"]["uid"])


def test_each_cluster_is_one_of_its_own(
    control_plane: ControlPlane, clusters: Mapping[str, ControlPlane], namespace: str
) -> None:
    """S3-1."""
    everyone = (control_plane, *clusters.values())
    assert list(clusters) == ["c0", "c1", "c2"]
    assert len({uid(server) for server in everyone}) == 4
    assert len({server.url for server in everyone}) == 4
    assert len({server.ca_file.read_bytes() for server in everyone}) == 4
    assert len({server.token() for server in everyone}) == 4
    assert clusters["c0"].request("GET", f"/api/v1/namespaces/{namespace}").code == 404


def test_each_cluster_has_an_audit_log_of_its_own(clusters: Mapping[str, ControlPlane], tmp_path: Path) -> None:
    logs = {name: AuditLog(server.audit_log) for name, server in clusters.items()}
    starts = {name: log.mark() for name, log in logs.items()}
    here = Kubectl(clusters["c1"].kubeconfig("person"), tmp_path)
    here("create", "configmap", "only-here", "-n", "default")
    found = {name: log.events(since=starts[name], user="person") for name, log in logs.items()}
    here("delete", "configmap", "only-here", "-n", "default")

    assert [event.name for event in found.pop("c1") if event.is_write] == ["only-here"]
    assert set(map(len, found.values())) == {0}


def test_each_cluster_has_its_controllers(clusters: Mapping[str, ControlPlane]) -> None:
    server = clusters["c2"]
    if not server.controllers:
        pytest.skip("KUBEBUILDER_ASSETS has no kube-controller-manager")
    assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "short-lived"}}).code == 201

    server.request("DELETE", "/api/v1/namespaces/short-lived")

    eventually(lambda: server.request("GET", "/api/v1/namespaces/short-lived").code == 404, within=180)


def test_a_frozen_cluster_takes_connections_and_answers_when_it_is_thawed(clusters: Mapping[str, ControlPlane]) -> None:
    """S3-7: the others answer meanwhile."""
    frozen, other = clusters["c0"], clusters["c1"]
    port = int(frozen.url.rpartition(":")[2])
    tls = ssl.create_default_context(cafile=frozen.ca_file)
    with tls.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1") as open_before:
        frozen.freeze()
        frozen.freeze()
        open_before.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port)):
            assert other.request("GET", "/readyz").code == 200
        open_before.settimeout(0.1)
        with pytest.raises(TimeoutError):
            open_before.recv(1)
        frozen.thaw()
        open_before.settimeout(60)
        assert open_before.recv(8) == b"HTTP/1.1"
    assert frozen.request("GET", "/readyz").code == 200


def test_a_cluster_that_is_stopped_refuses_until_it_is_started(clusters: Mapping[str, ControlPlane]) -> None:
    server = clusters["c0"]
    before = uid(server)
    server.stop_apiserver()
    with pytest.raises(ConnectionRefusedError):
        server.request("GET", "/readyz")
    server.start_apiserver()
    assert uid(server) == before


@on_linux
def test_a_peer_ends_alone_and_finds_its_objects_again(control_plane: ControlPlane, only_peers: None) -> None:
    first, second = control_plane.start_peers("first", "second").values()
    with pytest.raises(ValueError, match="there is already a peer 'first'"):
        control_plane.start_peers("first")
    before, gone, others = uid(first), dict(first.pids), [*second.pids.values(), *control_plane.pids.values()]
    first.stop()
    del gone["etcd"]
    assert not any(map(runs, gone.values()))
    assert all(map(runs, others))
    assert list(control_plane.peers) == ["second"]
    assert uid(control_plane.start_peers("first")["first"]) == before
    control_plane.stop_peers()
    assert control_plane.peers == {}
    assert control_plane.request("GET", "/readyz").code == 200


@on_linux
def test_several_clusters_to_try_things_on(tmp_path: Path, only_peers: None) -> None:
    """`make cluster CLUSTERS=2`."""
    asked = subprocess.run(
        ["make", "-n", "--no-print-directory", "cluster", "CLUSTERS=2"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    words = asked.stdout.splitlines()[-1].split()
    assert words[1:] == ["-m", "tests.support.cluster.serve", "--clusters", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *words[1:]], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout
            said = ""
            for line in running.stdout:
                said += line
                if "Ctrl-C" in line:
                    break
            files = [tmp_path / ".cluster" / name for name in ("kubeconfig", "c0.kubeconfig", "c1.kubeconfig")]
            of_uid = ("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
            uids = {Kubectl(file, tmp_path / "cache")(*of_uid) for file in files}
            assert len(uids) == 3, said
            assert all((tmp_path / ".cluster" / f"{name}audit.log").stat().st_size for name in ("", "c0.", "c1."))
            assert str(files[2]) in said
            assert servers_of(tmp_path)
        finally:
            running.terminate()
            running.wait(60)
    assert running.returncode == 0
    assert servers_of(tmp_path) == []


def servers_of(directory: Path) -> list[str]:
    """Command lines of processes that say this directory."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [line for line in lines if str(directory) in line]


PARENT = """
import os, signal, sys
from pathlib import Path
from tests.support.cluster.control_plane import ControlPlane

server = ControlPlane.start(Path(sys.argv[1]))
server.pause_etcd()
child = os.fork()
if not child:
    signal.pause()
print(child, *server.pids.values(), flush=True)
signal.pause()
"""


@pytest.mark.cluster
@on_linux
def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    """Not even a stopped server, nor while a forked child of the parent lives on."""
    with subprocess.Popen([sys.executable, "-c", PARENT, tmp_path], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child, *servers = map(int, parent.stdout.readline().split())
        try:
            assert all(map(runs, servers))
            parent.kill()
            eventually(lambda: not any(map(runs, servers)))
        finally:
            os.kill(child, signal.SIGKILL)


def runs(pid: int) -> bool:
    """Whether it is there, and not only as an entry that nobody has waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not state.startswith("Z")


@pytest.mark.parametrize(
    ("ci", "code", "text"),
    [("true", 1, "1 tests cannot run"), ("", 0, "1 tests need the control plane: make controlplane")],
)
def test_a_missing_control_plane_is_said_aloud(tmp_path: Path, ci: str, code: int, text: str) -> None:
    test = f"{Path(__file__).relative_to(ROOT)}::{test_field_managers_conflict.__name__}"
    environment = os.environ | {"CI": ci, "XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", test], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert text in done.stdout + done.stderr
    assert done.returncode == code
