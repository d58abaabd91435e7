"""Fixtures of the scenarios: on the real API server, seen through kubectl and the audit log; those marked `both_servers` on the sandbox too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from applier.sandbox.endpoints.http import write_kubeconfig
from applier.sandbox.server import Sandbox
from gitops.records.installation import INSTALLATION
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.http_api import ServedApi, evaluate
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.scenario_server import ScenarioServer, new_namespace, of_real, of_sandbox
from tests.support.command_platform import CommandPlatform
from tests.support.git.repository import Repository


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario plays on the real server, and with the mark `both_servers` on the sandbox as well."""
    if "server" in metafunc.fixturenames:
        everywhere = metafunc.definition.get_closest_marker("both_servers") is not None
        real = pytest.param("real", marks=pytest.mark.cluster)
        metafunc.parametrize("server", [real, "sandbox"] if everywhere else [real], indirect=True)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScenarioServer]:
    """One sandbox for all scenarios, over HTTP. Its workloads do not get on by themselves: tests write their status, as on the real server."""
    directory = tmp_path_factory.mktemp("sandbox")
    api = ServedApi(Sandbox(evaluate=evaluate))
    kubeconfig = directory / "kubeconfig"
    write_kubeconfig(kubeconfig, api.url)
    yield ScenarioServer("", kubeconfig, Kubectl(kubeconfig, directory / "kubectl"), None, of_sandbox(api))
    api.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> ScenarioServer:
    """The API server of a scenario, with a namespace of its own."""
    if request.param == "real":
        value = request.getfixturevalue
        plane: ControlPlane = value("control_plane")
        return ScenarioServer(value("namespace"), value("kubeconfig"), value("kubectl"), value("audit"), of_real(plane))
    found: ScenarioServer = request.getfixturevalue("sandbox")
    return replace(found, namespace=new_namespace(found.ask))


@pytest.fixture(scope="module")
def lone_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that a module has for itself: what its tests do concerns the whole cluster."""
    with ControlPlane.start(tmp_path_factory.mktemp("controlplane")) as server:
        yield server


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.cluster), "sandbox"])
def alone(request: pytest.FixtureRequest, repository: Repository, tmp_path: Path) -> Iterator[CommandPlatform]:
    """A platform that has its API server for itself: the real one, and a sandbox over HTTP."""
    if request.param == "sandbox":
        api = ServedApi(Sandbox(evaluate=evaluate))
        kubeconfig, audit, ask = tmp_path / "kubeconfig", None, of_sandbox(api)
        write_kubeconfig(kubeconfig, api.url)
    else:
        api, plane = None, request.getfixturevalue("lone_control_plane")
        kubeconfig, audit, ask = plane.kubeconfig("levelgate"), AuditLog(plane.audit_log), of_real(plane)
    kubectl = Kubectl(kubeconfig, tmp_path / "kubectl")
    yield _platform(ScenarioServer(new_namespace(ask), kubeconfig, kubectl, audit, ask), repository, tmp_path)
    if api:
        api.close()


def _platform(server: ScenarioServer, repository: Repository, tmp_path: Path) -> CommandPlatform:
    """A platform with names of its own."""
    return CommandPlatform(
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
def platform(server: ScenarioServer, repository: Repository, tmp_path: Path) -> Iterator[CommandPlatform]:
    """A platform; its record, and that of whom a daemon follows, are taken away: other tests ask the same server what is settled."""
    found = _platform(server, repository, tmp_path)
    yield found
    for record in (f"source-{found.name}", INSTALLATION.name):
        path = f"/api/v1/namespaces/{INSTALLATION.namespace}/configmaps/{record}"
        assert server.ask("DELETE", path, None) in {200, 404}
