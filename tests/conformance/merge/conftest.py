"""The two servers, both with the custom kind that has every way of merging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest

from applier.sandbox.server import Sandbox
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.conformance import merge_schema as things
from tests.support.conformance.merge_servers import Connection, InProcess, OneObject

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = count()


@pytest.fixture(scope="module")
def connection(control_plane: ControlPlane) -> Iterator[Connection]:
    opened = Connection(control_plane)
    _define(opened)
    yield opened
    for plural in ("things", "gadgets"):
        opened.request("DELETE", f"{_DEFINITIONS}/{plural}.{things.GROUP}")
    eventually(lambda: opened.request("GET", things.PATH)[0] == opened.request("GET", things.GADGETS)[0] == 404)
    opened.close()


@pytest.fixture(scope="module")
def embedded() -> InProcess:
    server = InProcess(Sandbox())
    _define(server)
    return server


def _is_served(server: Connection | InProcess, path: str) -> bool:
    return server.request("GET", path)[0] == 200


def _define(server: Connection | InProcess) -> None:
    for definition, path in ((things.CRD, things.PATH), (things.gadgets(), things.GADGETS)):
        code, body = server.request("POST", _DEFINITIONS, definition)
        assert code == 201, body
        eventually(partial(_is_served, server, path))


@pytest.fixture
def redefine(server: Connection | InProcess) -> Iterator[Callable[[str], None]]:
    """Changes how the map of gadgets merges, and waits until the server does so."""

    def change(map_type: str) -> None:
        path = f"{_DEFINITIONS}/gadgets.{things.GROUP}"
        patch = {"spec": things.gadgets(map_type)["spec"]}
        assert server.request("PATCH", path, patch, "application/merge-patch+json")[0] == 200
        eventually(lambda: _conflicts(server) == (map_type == "atomic"))

    yield change
    change("granular")


def _conflicts(server: Connection | InProcess) -> bool:
    """Whether two managers of different members disagree."""
    path, codes = f"{things.GADGETS}/p{next(_numbers)}", []
    for manager in ("m1", "m2"):
        body = {"apiVersion": f"{things.GROUP}/v1", "kind": "Gadget", "spec": {"map": {manager: "x"}}}
        body["metadata"] = {"name": path.rpartition("/")[2]}
        code, _ = server.request("PATCH", f"{path}?fieldManager={manager}", body, "application/apply-patch+yaml")
        codes.append(code)
    return codes == [201, 409]


@pytest.fixture(params=["real", "embedded"])
def server(request: pytest.FixtureRequest) -> Connection | InProcess:
    """Both servers, one after the other."""
    found: Connection | InProcess = request.getfixturevalue("connection" if request.param == "real" else "embedded")
    return found


@pytest.fixture
def one(server: Connection | InProcess) -> Callable[[str], OneObject]:
    """A new object at a path on this server; it does not exist yet."""
    return lambda path: OneObject(server, path, f"r{next(_numbers)}")
