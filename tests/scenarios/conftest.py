"""Fixtures of the scenarios: on the real API server, seen through kubectl and the audit log; those marked `both_servers` on the sandbox too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import pytest

from applier.sandbox.endpoints.http import write_kubeconfig
from applier.sandbox.server import Sandbox
from gitops.records.installation import INSTALLATION
from tests.conformance.conftest import evaluate
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.http_api import ServedApi
from tests.support.cluster.kubectl import Kubectl
from tests.support.command_platform import Platform, Repository

Ask: TypeAlias = Callable[[str, str, object], int]
"""Method, path and body of a request to its status: for what is prepared and put away, where a process of kubectl would show nothing."""


@dataclass(frozen=True)
class Server:
    """Where a scenario plays: a namespace of its own on one API server. The sandbox has no audit log."""

    namespace: str
    kubeconfig: Path
    kubectl: Kubectl
    audit: AuditLog | None
    ask: Ask


def of_real(server: ControlPlane) -> Ask:
    return lambda method, path, body: server.request(method, path, body).code


def of_sandbox(api: ServedApi) -> Ask:
    def ask(method: str, path: str, body: object) -> int:
        with closing(api.connect()) as connection:  # A kept one would be closed after a while.
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            return connection.getresponse().status

    return ask


def new_namespace(ask: Ask) -> str:
    name = f"t-{uuid4().hex[:8]}"
    assert ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}) == 201
    return name


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
    yield Server("", kubeconfig, Kubectl(kubeconfig, directory / "kubectl"), None, of_sandbox(api))
    api.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The API server of a scenario, with a namespace of its own."""
    if request.param == "real":
        value = request.getfixturevalue
        plane: ControlPlane = value("control_plane")
        return Server(value("namespace"), value("kubeconfig"), value("kubectl"), value("audit"), of_real(plane))
    found: Server = request.getfixturevalue("sandbox")
    return replace(found, namespace=new_namespace(found.ask))


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
        kubeconfig, audit, ask = tmp_path / "kubeconfig", None, of_sandbox(api)
        write_kubeconfig(kubeconfig, api.url)
    else:
        api, plane = None, request.getfixturevalue("lone_control_plane")
        kubeconfig, audit, ask = plane.kubeconfig("levelgate"), AuditLog(plane.audit_log), of_real(plane)
    kubectl = Kubectl(kubeconfig, tmp_path / "kubectl")
    yield _platform(Server(new_namespace(ask), kubeconfig, kubectl, audit, ask), repository, tmp_path)
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
    """A platform; its record, and that of whom a daemon follows, are taken away: other tests ask the same server what is settled."""
    found = _platform(server, repository, tmp_path)
    yield found
    for record in (f"source-{found.name}", INSTALLATION.name):
        path = f"/api/v1/namespaces/{INSTALLATION.namespace}/configmaps/{record}"
        assert server.ask("DELETE", path, None) in {200, 404}
