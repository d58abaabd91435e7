"""`levelgate sandbox`, the real command with the real kubectl."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import command as process
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.ports import free_ports
from tests.support.git.repository import Repository

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
        },
    },
}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "config", "namespace": "default"},
    "data": {"a": "1"},
}


@dataclass(frozen=True, slots=True)
class Running:
    process: process.RunningCommand
    greeting: str
    kubectl: Kubectl

    @property
    def kubeconfig(self) -> Path:
        found = re.search(r"KUBECONFIG=(.*)", self.greeting)
        assert found
        return Path(found.group(1))

    @property
    def port(self) -> int:
        found = re.search(r"http://127\.0\.0\.1:([0-9]+)", self.greeting)
        assert found
        return int(found.group(1))


def environment(tmp_path: Path) -> dict[str, str]:
    """With a place of its own where the sandbox that runs is found."""
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}


@contextmanager
def running(tmp_path: Path, *arguments: str) -> Iterator[Running]:
    with process.RunningCommand(("sandbox", *arguments), environment(tmp_path)) as command:
        lines = []
        for line in command.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        greeting = "".join(lines)
        found = re.search(r"KUBECONFIG=(.*)", greeting)
        assert found, greeting
        yield Running(command, greeting, Kubectl(Path(found.group(1)), tmp_path / "cache"))


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as found:
        yield found


def failed(*arguments: str) -> str:
    done = process.run(("sandbox", *arguments), os.environ)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_it_says_what_it_is(sandbox: Running) -> None:
    assert "A sandbox answers like a cluster, but runs no containers." in sandbox.greeting
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", sandbox.port))


def test_a_page_in_a_browser_cannot_use_it_by_another_name(sandbox: Running) -> None:
    for host, code in (("rebound.example.com", 403), (f"localhost:{sandbox.port}", 200)):
        connection = http.client.HTTPConnection("127.0.0.1", sandbox.port)
        connection.request("GET", "/api", headers={"Host": host})
        assert connection.getresponse().status == code
        connection.close()


def test_kubectl_at_work(sandbox: Running, tmp_path: Path) -> None:
    kubectl = sandbox.kubectl
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [DEPLOYMENT, CONFIG]}))
    assert "configmap/config serverside-applied" in kubectl("apply", "--server-side", "-f", str(file))
    assert kubectl("diff", "--server-side", "-f", str(file)) == ""
    assert "deploy" in kubectl("api-resources")
    assert "replicas" in kubectl("explain", "deployment.spec")
    assert kubectl("get", "configmap", "config", "-o", "jsonpath={.data.a}") == "1"
    kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=2m")
    assert re.search(r"web +2/2 +2 +2", kubectl("get", "deployments"))
    file.write_text(json.dumps(CONFIG | {"data": {"a": "2"}}))
    assert '+  a: "2"' in kubectl("diff", "--server-side", "-f", str(file), check=False)
    kubectl("label", "configmap", "config", "x=y")
    assert kubectl("get", "configmaps", "-l", "x=y", "-o", "name") == "configmap/config\n"
    kubectl("delete", "configmap", "config")
    assert "NotFound" in kubectl("get", "configmap", "config", check=False)
    kubectl(
        "apply", "--server-side", "-f", "-", stdin='{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}'
    )
    kubectl("delete", "namespace", "other", "--timeout=2m")
    kubectl("set", "image", "deployment/web", "web=example.com/web:2")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={..image}") == "example.com/web:2"
    conflict = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", check=False, stdin=changed())
    assert 'conflicts with "kubectl":\n- .spec.replicas' in conflict


def test_kubectl_without_files(sandbox: Running) -> None:
    """Verbs for which kubectl makes the object itself, and sends it in protobuf."""
    kubectl = sandbox.kubectl
    kubectl("create", "namespace", "team")
    kubectl("config", "set-context", "--current", "--namespace=team")
    kubectl("create", "configmap", "x", "--from-literal=a=b")
    assert kubectl("get", "configmap", "x", "-o", "jsonpath={.data.a}") == "b"
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.a} {.type}") == "Yg== Opaque"
    kubectl("create", "deployment", "web", "--image=example.com/web:1", "--port=80")
    kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080")
    assert kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].targetPort}") == "8080"
    kubectl("scale", "deployment", "web", "--replicas=3")
    kubectl("rollout", "status", "deployment/web", "--timeout=2m")
    assert re.search(r"web +3/3 +3 +3", kubectl("get", "deployments"))
    kubectl("autoscale", "deployment", "web", "--max=5")
    kubectl("create", "job", "once", "--image=example.com/job:1")
    kubectl("wait", "job/once", "--for=condition=Complete", "--timeout=2m")
    kubectl("create", "role", "reader", "--verb=get", "--resource=pods")
    kubectl("run", "shell", "--image=example.com/shell:1")
    kubectl("label", "pod", "shell", "tier=debug")
    kubectl("annotate", "pod", "shell", "why=because")
    kubectl("patch", "pod", "shell", "-p", '{"metadata": {"labels": {"run": null}}}')
    found = json.loads(kubectl("get", "pod", "shell", "-o", "json"))["metadata"]
    assert (found["labels"], found["annotations"]) == ({"tier": "debug"}, {"why": "because"})
    kubectl("delete", "pods", "-l", "tier=debug", "--timeout=2m")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_kubectl_edits_and_replaces(sandbox: Running) -> None:
    kubectl = sandbox.kubectl
    kubectl("create", "configmap", "x", "--from-literal=a=b")
    found = json.loads(kubectl("get", "configmap", "x", "-o", "json"))
    stale = json.dumps(found)
    kubectl("replace", "-f", "-", stdin=json.dumps(found | {"data": {"a": "c"}}))
    assert kubectl("get", "configmap", "x", "-o", "jsonpath={.data.a}") == "c"
    assert "the object has been modified" in kubectl("replace", "-f", "-", stdin=stale, check=False)
    kubectl("apply", "-f", "-", stdin=named("client-side"))
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=named("client-side"))


def named(name: str) -> str:
    return json.dumps({**CONFIG, "metadata": {"name": name}})


def changed() -> str:
    return json.dumps({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 3}})  # type: ignore[dict-item]


def test_a_watch_shows_what_happens(sandbox: Running) -> None:
    command = ["get", "configmaps", "-w", "--output-watch-events", "--no-headers"]
    kubectl = sandbox.kubectl
    environment, binary = kubectl._environment, kubectl._binary
    with subprocess.Popen([binary, *command], env=environment, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        kubectl("create", "-f", "-", stdin=named("seen"))
        assert watch.stdout.readline().split()[:2] == ["ADDED", "seen"]
        kubectl("delete", "configmap", "seen")
        assert watch.stdout.readline().split()[:2] == ["DELETED", "seen"]
        watch.kill()


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with running(tmp_path) as sandbox:
        directory = sandbox.kubeconfig.parent
        assert directory.is_dir()
        sandbox.process.send_signal(signal.SIGINT)
        assert sandbox.process.communicate(timeout=60) == "stopped\n"
        assert sandbox.process.returncode == 0
    assert not directory.exists()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_everything_is_there_after_a_restart(tmp_path: Path, end: signal.Signals) -> None:
    data = tmp_path / "data"
    with running(tmp_path, "--data", str(data)) as first:
        first.kubectl("create", "-f", "-", stdin=named("kept"))
        first.process.send_signal(end)
        first.process.wait(timeout=60)
        port = first.port
    with running(tmp_path, "--data", str(data), "--port", str(port)) as second:
        assert second.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "1"
        assert second.kubeconfig == data / "kubeconfig"
        assert "another sandbox uses this directory" in failed("--data", str(data))
        assert f"port {second.port} of 127.0.0.1 cannot be used" in failed("--port", str(second.port))


def test_damaged_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "snapshot-1").write_bytes(b"something else")
    assert "remove it to begin with an empty sandbox" in failed("--data", str(tmp_path))


def test_an_open_watch_does_not_keep_it_from_stopping(sandbox: Running) -> None:
    with socket.create_connection(("127.0.0.1", sandbox.port)) as watch:
        watch.sendall(b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert watch.recv(1000).startswith(b"HTTP/1.1 200")
        sandbox.process.send_signal(signal.SIGTERM)
        assert sandbox.process.wait(timeout=60) == 0


def told(tmp_path: Path, *arguments: str, code: int = 0) -> str:
    """What `levelgate sandbox` says, beside one that runs, to stdout, or to stderr where it fails."""
    done = process.run(("sandbox", *arguments), environment(tmp_path))
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout


def in_context(sandbox: Running, tmp_path: Path, context: str) -> Kubectl:
    file = tmp_path / f"kubeconfig-{context}"
    file.write_text(json.dumps(json.loads(sandbox.kubeconfig.read_text()) | {"current-context": context}))
    return Kubectl(file, tmp_path / "cache")


def uid(kubectl: Kubectl) -> str:
    return kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")


def test_several_clusters_are_the_contexts_of_one_kubeconfig(tmp_path: Path) -> None:
    with running(tmp_path, "--clusters", "2") as sandbox:
        config = json.loads(sandbox.kubeconfig.read_text())
        assert [one["name"] for one in config["contexts"]] == ["hub", "c0", "c1"]
        assert config["current-context"] == "hub"
        assert config == json.loads((tmp_path / "state/levelgate/sandbox/kubeconfig").read_text())
        clusters = [in_context(sandbox, tmp_path, name) for name in ("hub", "c0", "c1")]
        assert len(set(map(uid, clusters))) == 3
        assert uid(sandbox.kubectl) == uid(clusters[0])
        clusters[1]("create", "-f", "-", stdin=named("only-here"))
        found = [one("get", "configmaps", "-o", "name", "-n", "default") for one in clusters]
        assert found == ["", "configmap/only-here\n", ""]
        clusters[2]("create", "deployment", "web", "--image=example.com/web:1")
        clusters[2]("wait", "deployment/web", "--for=condition=Available", "--timeout=2m")


def test_one_without_clusters_has_the_context_that_it_always_had(sandbox: Running) -> None:
    config = json.loads(sandbox.kubeconfig.read_text())
    assert [one["name"] for one in config["contexts"]] == ["levelgate-sandbox"]
    assert "--cut" not in sandbox.greeting


def test_a_cut_cluster_takes_connections_and_answers_once_it_is_healed(tmp_path: Path) -> None:
    with running(tmp_path, "--clusters", "2") as sandbox:
        servers = json.loads(sandbox.kubeconfig.read_text())["clusters"]
        ports = {one["name"]: int(one["cluster"]["server"].rpartition(":")[2]) for one in servers}
        assert told(tmp_path, "--cut", "c1") == (
            "c1 does not answer. To end the cut, run levelgate sandbox --heal c1.\n"
        )
        with socket.create_connection(("127.0.0.1", ports["c1"])) as asked:
            asked.sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert uid(in_context(sandbox, tmp_path, "c0"))
            assert uid(sandbox.kubectl)
            asked.settimeout(0.1)
            with pytest.raises(TimeoutError):
                asked.recv(1)
            assert told(tmp_path, "--heal", "c1") == "c1 answers.\n"
            asked.settimeout(60)
            assert asked.recv(1000).startswith(b"HTTP/1.1 200")
        told(tmp_path, "--cut", "hub", "--cut", "c0")
        told(tmp_path, "--heal", "hub", "--heal", "c0", "--cut", "c1")
        assert uid(in_context(sandbox, tmp_path, "c0"))
        sandbox.process.send_signal(signal.SIGTERM)
        assert sandbox.process.wait(timeout=60) == 0


def test_a_request_to_a_cut_cluster_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    with running(tmp_path, "--clusters", "1") as sandbox:
        told(tmp_path, "--cut", "hub")
        with socket.create_connection(("127.0.0.1", sandbox.port)) as asked:
            asked.sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sandbox.process.send_signal(signal.SIGTERM)
            assert sandbox.process.wait(timeout=60) == 0
    assert not (tmp_path / "state/levelgate/sandbox/kubeconfig").exists()


def test_who_cuts_is_told_what_is_wrong(tmp_path: Path) -> None:
    assert "no sandbox is running: start one" in told(tmp_path, "--cut", "c1", code=1)
    with running(tmp_path, "--clusters", "2") as sandbox:
        assert "the sandbox has no cluster 'c2'; choose from c0, c1, hub" in told(
            tmp_path, "--cut", "c0", "--cut", "c2", code=1
        )
        assert uid(in_context(sandbox, tmp_path, "c0")), "nothing was done"
        assert "has no cluster 'hbu'; did you mean 'hub'?" in told(tmp_path, "--heal", "hbu", code=1)
    assert "start none; leave out --data, --clusters" in told(
        tmp_path, "--cut", "c1", "--clusters", "2", "--data", str(tmp_path), code=64
    )
    assert "both --cut and --heal name c1" in told(tmp_path, "--cut", "c1", "--heal", "c1", code=64)
    assert "leaves no ports for 3 clusters" in told(tmp_path, "--port", "65533", "--clusters", "3", code=64)


def test_each_cluster_is_there_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(tmp_path, "--data", str(data), "--clusters", "2") as first:
        before = [uid(in_context(first, tmp_path, name)) for name in ("hub", "c0", "c1")]
    with running(tmp_path, "--data", str(data), "--clusters", "2") as second:
        assert [uid(in_context(second, tmp_path, name)) for name in ("hub", "c0", "c1")] == before
        assert "another sandbox uses this directory" in told(tmp_path, "--data", str(data / "c1"), code=1)
    with running(tmp_path, "--data", str(data)) as alone:
        assert uid(alone.kubectl) == before[0]


def test_clusters_listen_on_the_ports_that_follow(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with running(tmp_path, "--port", str(port), "--clusters", "1") as sandbox:
        servers = [one["cluster"]["server"] for one in json.loads(sandbox.kubeconfig.read_text())["clusters"]]
    assert servers == [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"]


def test_a_run_starts_clusters_beside_its_sandbox(tmp_path: Path) -> None:
    repository = tmp_path / "platform"
    repository.mkdir()
    subprocess.run(("git", "init", "--quiet"), cwd=repository, check=True)
    Repository(repository).commit({"one.json": json.dumps(CONFIG)}, "first")
    own = {**environment(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "LEVELGATE_LISTEN": "off", "LEVELGATE_CONFIG": ""}
    run = ("run", "--source", str(repository), "--sandbox")
    with process.RunningCommand((*run, "--clusters", "2"), own) as command:
        said = []
        for line in command.stdout:
            said.append(line)
            if "ConfigMap/default/config created" in line:
                break
        assert "The kubeconfig has a context for each cluster: hub, c0, c1.\n" in said
        assert told(tmp_path, "--cut", "c0")
        assert told(tmp_path, "--heal", "c0")
        other = process.run((*run, "--once", "--clusters", "3"), own)
        assert other.returncode == 1
        assert "a sandbox is already running, with 2 further clusters: stop it" in other.stderr
    needless = process.run((*run[:-1], "--once", "--clusters", "3"), own)
    assert (needless.returncode, "--clusters requires --sandbox" in needless.stderr) == (64, True)
