"""One suite, two servers: every test here runs on the real API server and on the sandbox, and expects the same."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from applier.sandbox.server import Sandbox
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.http_api import Api, HttpApi, RealApi, SandboxApi, ServedApi, evaluate


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.cluster), "sandbox", "served"])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """A server; a test that uses it runs once on each: the real one, the sandbox itself, the sandbox over HTTP."""
    match request.param:
        case "sandbox":
            yield SandboxApi(Sandbox(evaluate=evaluate))
            return
        case "real":
            server: HttpApi = RealApi(request.getfixturevalue("control_plane"))
        case _:
            server = ServedApi(Sandbox(evaluate=evaluate))
    yield server
    server.close()


@pytest.fixture
def both(control_plane: ControlPlane) -> Iterator[tuple[Api, Api]]:
    """The real server and the sandbox, for tests that compare their answers."""
    real = RealApi(control_plane)
    yield real, SandboxApi(Sandbox(evaluate=evaluate))
    real.close()


@pytest.fixture
def home(api: Api) -> str:
    """A new namespace, which stays."""
    name = f"c-{uuid4().hex[:8]}"
    assert api.post("/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return name


@pytest.fixture
def configs(home: str) -> str:
    """The path of the ConfigMaps of a new namespace."""
    return f"/api/v1/namespaces/{home}/configmaps"
