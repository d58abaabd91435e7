"""That the control plane the other tests stand on is a real one, tells who did what, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.audit import AuditLog
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.server import Answer, ControlPlane
from tests.controlplane.waiting import eventually

ROOT = Path(__file__).parents[2]


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def apply(server: ControlPlane, namespace: str, name: str, *, query: str, **data: str) -> Answer:
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


PARENT = """
import os, signal, sys
from pathlib import Path
from tests.controlplane.server import ControlPlane

server = ControlPlane.start(Path(sys.argv[1]))
server.pause_etcd()
child = os.fork()
if not child:
    signal.pause()
print(child, *server.pids.values(), flush=True)
signal.pause()
"""


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="tells by /proc whether a process runs")
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
