"""Deletions by owner, and the end of namespaces; `tests/conformance/test_deleting.py` has the real server beside it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request

MAPS = "/api/v1/namespaces/default/configmaps"


def post(sandbox: Sandbox, path: str, name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]} for owner in owners
    ]
    body = orjson.dumps({"metadata": {"name": name, "ownerReferences": references}})
    response = sandbox.handle(Request("POST", path, body=body))
    assert response.status == 201
    metadata: dict[str, Any] = orjson.loads(response.body)["metadata"]
    return metadata


def status(sandbox: Sandbox, path: str, method: str = "GET") -> int:
    return sandbox.handle(Request(method, path)).status


@pytest.mark.parametrize(("policy", "left"), [("Background", 404), ("Foreground", 404), ("Orphan", 200)])
def test_a_policy_says_what_becomes_of_a_dependent(policy: str, left: int) -> None:
    sandbox = Sandbox()
    owner = post(sandbox, MAPS, "owner")
    post(sandbox, MAPS, "dependent", owner)
    assert status(sandbox, f"{MAPS}/owner?propagationPolicy={policy}", "DELETE") == 200
    sandbox.tick_until_stable()
    assert status(sandbox, f"{MAPS}/owner") == 404
    assert status(sandbox, f"{MAPS}/dependent") == left


def test_a_dependent_stays_as_long_as_one_owner_lives() -> None:
    sandbox = Sandbox()
    owners = post(sandbox, MAPS, "a"), post(sandbox, MAPS, "b")
    post(sandbox, MAPS, "dependent", *owners)
    status(sandbox, f"{MAPS}/a", "DELETE")
    sandbox.tick_until_stable()
    body = orjson.loads(sandbox.handle(Request("GET", f"{MAPS}/dependent")).body)
    assert [reference["name"] for reference in body["metadata"]["ownerReferences"]] == ["b"]


def test_a_namespace_goes_after_what_is_in_it() -> None:
    sandbox = Sandbox()
    post(sandbox, "/api/v1/namespaces", "a")
    post(sandbox, "/api/v1/namespaces/a/configmaps", "x")
    assert status(sandbox, "/api/v1/namespaces/a", "DELETE") == 200
    assert status(sandbox, "/api/v1/namespaces/a") == 200
    sandbox.tick_until_stable()
    assert status(sandbox, "/api/v1/namespaces/a") == 404


def test_a_chain_that_blocks_its_owners_goes_from_its_end() -> None:
    sandbox = Sandbox()
    first = post(sandbox, MAPS, "first")
    second = post(sandbox, MAPS, "second", first)
    post(sandbox, MAPS, "third", second)
    for name in ("second", "third"):
        obj = orjson.loads(sandbox.handle(Request("GET", f"{MAPS}/{name}")).body)
        obj["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True
        assert sandbox.handle(Request("PUT", f"{MAPS}/{name}", body=orjson.dumps(obj))).status == 200
    assert status(sandbox, f"{MAPS}/first?propagationPolicy=Foreground", "DELETE") == 200
    sandbox.tick_until_stable()
    assert [status(sandbox, f"{MAPS}/{name}") for name in ("first", "second", "third")] == [404] * 3
