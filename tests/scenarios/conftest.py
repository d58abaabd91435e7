"""Fixtures of the scenarios: on the real API server, seen through kubectl and the audit log; those marked `both_servers` on the sandbox too."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from applier.sandbox.api import Sandbox
from applier.sandbox.http import write_kubeconfig
from tests.conformance.conftest import evaluate
from tests.conformance.servers import ServedApi
from tests.controlplane.audit import AuditLog
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.server import ControlPlane
from tests.scenarios.platform import Platform, Repository


@dataclass(frozen=True)
class Server:
    """Where a scenario plays: a namespace of its own on one API server. The sandbox has no audit log."""

    namespace: str
    kubeconfig: Path
    kubectl: Kubectl
    audit: AuditLog | None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario plays on the real server, and with the mark `both_servers` on the sandbox as well."""
    if "server" in metafunc.fixturenames:
        everywhere = metafunc.definition.get_closest_marker("both_servers") is not None
        real = pytest.param("real", marks=pytest.mark.cluster)
        metafunc.parametrize("server", [real, "sandbox"] if everywhere else [real], indirect=True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    path = tmp_path / "platform"
    path.mkdir()
    subprocess.run(("git", "init", "--quiet", "--initial-branch=main"), cwd=path, check=True)
    return Repository(path)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One sandbox for all scenarios, over HTTP. Its workloads do not get on by themselves: tests write their status, as on the real server."""
    directory = tmp_path_factory.mktemp("sandbox")
    api = ServedApi(Sandbox(evaluate=evaluate))
    kubeconfig = directory / "kubeconfig"
    write_kubeconfig(kubeconfig, api.url)
    yield Server("", kubeconfig, Kubectl(kubeconfig, directory / "kubectl"), None)
    api.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The API server of a scenario, with a namespace of its own."""
    if request.param == "real":
        names = ("namespace", "kubeconfig", "kubectl", "audit")
        return Server(*(request.getfixturevalue(name) for name in names))
    found: Server = request.getfixturevalue("sandbox")
    namespace = f"t-{uuid4().hex[:8]}"
    found.kubectl("create", "-f", "-", stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}")
    return Server(namespace, found.kubeconfig, found.kubectl, None)


@pytest.fixture(scope="module")
def lone_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that a module has for itself: what its tests do concerns the whole cluster."""
    with ControlPlane.start(tmp_path_factory.mktemp("controlplane")) as server:
        yield server


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.cluster), "sandbox"])
def alone(request: pytest.FixtureRequest, repository: Repository, tmp_path: Path) -> Iterator[Platform]:
    """A platform that has its API server for itself: the real one, and a sandbox over HTTP."""
    if request.param == "sandbox":
        api = ServedApi(Sandbox(evaluate=evaluate))
        kubeconfig, audit = tmp_path / "kubeconfig", None
        write_kubeconfig(kubeconfig, api.url)
    else:
        api, plane = None, request.getfixturevalue("lone_control_plane")
        kubeconfig, audit = plane.kubeconfig("levelgate"), AuditLog(plane.audit_log)
    kubectl = Kubectl(kubeconfig, tmp_path / "kubectl")
    namespace = f"t-{uuid4().hex[:8]}"
    kubectl("create", "-f", "-", stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}")
    yield _platform(Server(namespace, kubeconfig, kubectl, audit), repository, tmp_path)
    if api:
        api.close()


def _platform(server: Server, repository: Repository, tmp_path: Path) -> Platform:
    """A platform with names of its own."""
    return Platform(
        name=f"src-{server.namespace}",
        namespace=server.namespace,
        group=f"{server.namespace}.test",
        repository=repository,
        kubectl=server.kubectl,
        audit_log=server.audit,
        kubeconfig=server.kubeconfig,
        cache=tmp_path / "cache",
    )


@pytest.fixture
def platform(server: Server, repository: Repository, tmp_path: Path) -> Iterator[Platform]:
    """A platform; what it leaves in the cluster is taken away without waiting."""
    found = _platform(server, repository, tmp_path)
    yield found
    source = f"source-{found.name}"
    server.kubectl("-n", "levelgate-system", "delete", "configmap", source, "--ignore-not-found", check=False)
