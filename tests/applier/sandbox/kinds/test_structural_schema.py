"""Rules of CustomResourceDefinitions; `tests/conformance/test_definitions.py` compares them with the real server."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.kinds.structural_schema import validate_definition


def definition(schema: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
    }
    names = {"plural": "links", "singular": "link", "kind": "Link", "listKind": "LinkList"}
    base = {"group": "g.test", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "links.g.test"}, "spec": {**base, **spec}}


def fields(obj: dict[str, Any], live: dict[str, Any] | None = None) -> list[str]:
    return [cause.field.removeprefix("spec.") for cause in validate_definition(obj, live)]


SCHEMA = "versions[0].schema.openAPIV3Schema"


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (definition(), []),
        (definition(group="other.test"), ["metadata.name"]),
        (definition(versions=[]), ["versions"]),
        (definition(conversion={"strategy": "Webhook"}), ["conversion.webhook.clientConfig", "conversion.webhook.conversionReviewVersions"]),
        (definition({"type": "object", "properties": {"a": {}}}), [f"{SCHEMA}.properties[a].type"]),
        (definition({"type": "object", "properties": {"a": {"type": "array"}}}), [f"{SCHEMA}.properties[a].items"]),
        (definition({"type": "object", "properties": {"metadata": {"type": "object"}}}), []),
        (definition({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}), [f"{SCHEMA}.additionalProperties"]),
    ],
)  # fmt: skip
def test_mistakes(obj: dict[str, Any], expected: list[str]) -> None:
    assert fields(obj) == expected


def test_an_established_definition_keeps_its_scope() -> None:
    established = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
    assert fields(definition(scope="Cluster"), definition()) == []
    assert fields(definition(scope="Cluster"), definition() | established) == ["scope"]
