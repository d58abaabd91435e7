"""Served kinds of CustomResourceDefinitions after a change of the definition."""

from __future__ import annotations

from typing import Any

import orjson

from applier.sandbox.server import Sandbox
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
