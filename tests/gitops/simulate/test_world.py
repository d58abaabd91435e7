"""The cluster of a simulation answers as a server does, also where it saves itself work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from applier.cluster import STATUS_MANAGER, Object
from applier.errors import ClusterError, NotFound
from gitops.simulate.world import SimulatedCluster, VirtualClock
from renderer.identity import ObjectKey
from tests.support.clock import START

KEY = ObjectKey("g.test", "Link", "default", "a")
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "links.g.test"},
    "spec": {
        "group": "g.test",
        "names": {"kind": "Link", "plural": "links"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"status": {"type": "object", "properties": {"number": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def world() -> SimulatedCluster:
    """With one instance."""
    found = SimulatedCluster(VirtualClock(START))
    asyncio.run(_applied(found, CRD))
    found.sandbox.tick_until_stable()
    asyncio.run(_applied(found, _link()))
    return found


async def _applied(world: SimulatedCluster, body: Object, subresource: str = "") -> Object:
    await world.cluster.discover(refresh=True)
    return await world.cluster.apply(body, manager=STATUS_MANAGER, force=True, subresource=subresource)


def _link(name: str = KEY.name, **more: Any) -> Object:
    return {"apiVersion": "g.test/v1", "kind": "Link", "metadata": {"namespace": KEY.namespace, "name": name}, **more}


def _told(world: SimulatedCluster, number: Any) -> Object:
    return asyncio.run(_applied(world, _link(status={"number": number}), "status"))


def _stored(world: SimulatedCluster) -> Object:
    found = world.get(KEY)
    assert found
    return found


def test_a_status_takes_the_place_of_the_one_before(world: SimulatedCluster) -> None:
    first, second = _told(world, 1), _told(world, 2)
    assert second == {"apiVersion": "g.test/v1", "kind": "Link", **_stored(world)}
    assert (first["status"], second["status"]) == ({"number": 1}, {"number": 2})
    assert first["metadata"]["resourceVersion"] != second["metadata"]["resourceVersion"]


def test_a_status_that_is_told_already_is_not_written(world: SimulatedCluster) -> None:
    assert _told(world, 1) == _told(world, 1)


def test_a_status_that_does_not_fit_is_refused(world: SimulatedCluster) -> None:
    _told(world, 1)
    with pytest.raises(ClusterError, match=r"status.number: expected numeric"):
        _told(world, "one")
    assert _stored(world)["status"] == {"number": 1}


def test_a_status_of_what_is_not_there_is_refused(world: SimulatedCluster) -> None:
    with pytest.raises(NotFound):
        asyncio.run(_applied(world, _link("b", status={"number": 1}), "status"))
