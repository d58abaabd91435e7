"""Served kinds of CustomResourceDefinitions after a change of the definition."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from applier.sandbox import server
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import StoredObject
from applier.sandbox.wire import Request

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(**names: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "apps.g.test"},
        "spec": {
            "group": "g.test",
            "scope": "Namespaced",
            "names": {"kind": "App", "plural": "apps", **names},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


def served(sandbox: Sandbox) -> dict[str, Any]:
    [resource] = orjson.loads(sandbox.handle(Request("GET", "/apis/g.test/v1")).body)["resources"]
    return dict(resource)


def test_changed_names_are_served_although_the_versions_are_equal() -> None:
    sandbox = Sandbox()
    sandbox.handle(Request("POST", DEFINITIONS, body=orjson.dumps(definition(shortNames=["a"]))))
    sandbox.tick_until_stable()
    assert served(sandbox)["shortNames"] == ["a"]
    patch = orjson.dumps({"spec": {"names": {"shortNames": ["b"], "categories": ["all"]}}})
    headers = {"content-type": "application/merge-patch+json"}
    response = sandbox.handle(Request("PATCH", f"{DEFINITIONS}/apps.g.test", headers=headers, body=patch))
    assert response.status == 200, response.body
    sandbox.tick_until_stable()
    assert served(sandbox)["shortNames"] == ["b"]
    assert served(sandbox)["categories"] == ["all"]


def test_a_step_reads_no_definition_where_none_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints take a step many times a second, and a sandbox may have hundreds of definitions."""
    sandbox = Sandbox(serve_immediately=False)
    sandbox.handle(Request("POST", DEFINITIONS, body=orjson.dumps(definition())))
    assert sandbox.tick()
    assert not sandbox.tick()
    read: list[StoredObject] = []
    monkeypatch.setattr(server, "_has_conditions", read.append)
    sandbox.handle(Request("POST", "/api/v1/namespaces", body=orjson.dumps({"metadata": {"name": "one"}})))
    sandbox.tick()
    assert read == []
    monkeypatch.undo()
    sandbox.handle(Request("DELETE", f"{DEFINITIONS}/apps.g.test"))
    sandbox.tick_until_stable()
    assert sandbox.handle(Request("GET", f"{DEFINITIONS}/apps.g.test")).status == 404
    sandbox.handle(Request("POST", DEFINITIONS, body=orjson.dumps(definition())))
    sandbox.tick_until_stable()
    assert served(sandbox)["kind"] == "App"
