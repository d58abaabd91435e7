"""The two servers, both with the custom kind that has every way of merging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from applier.sandbox.api import Sandbox
from tests.conformance.merge import things
from tests.conformance.merge.servers import Connection, InProcess, OneObject
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import eventually

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = count()


@pytest.fixture(scope="module")
def connection(control_plane: ControlPlane) -> Iterator[Connection]:
    opened = Connection(control_plane)
    _define(opened)
    yield opened
    opened.request("DELETE", f"{_DEFINITIONS}/things.{things.GROUP}")
    eventually(lambda: opened.request("GET", things.PATH)[0] == 404)
    opened.close()


@pytest.fixture(scope="module")
def embedded() -> InProcess:
    server = InProcess(Sandbox())
    _define(server)
    return server


def _define(server: Connection | InProcess) -> None:
    code, body = server.request("POST", _DEFINITIONS, things.CRD)
    assert code == 201, body
    eventually(lambda: server.request("GET", things.PATH)[0] == 200)


@pytest.fixture(params=["real", "embedded"])
def server(request: pytest.FixtureRequest) -> Connection | InProcess:
    """Both servers, one after the other."""
    found: Connection | InProcess = request.getfixturevalue("connection" if request.param == "real" else "embedded")
    return found


@pytest.fixture
def one(server: Connection | InProcess) -> Callable[[str], OneObject]:
    """A new object at a path on this server; it does not exist yet."""
    return lambda path: OneObject(server, path, f"r{next(_numbers)}")
