"""The schema of what an expression yields, as a definition's status has it: never a guess (kro documentation, "Static type checking")."""

from __future__ import annotations

from typing import Any

import pytest

from renderer.cel import openapi
from renderer.cel.type_check import check
from renderer.cel.types import StaticList, Type
from renderer.definition.kind_schemas import KindSchemas, any_object, instance_type
from renderer.identity import GroupKind
from renderer.schema import to_openapi

SPEC = to_openapi(
    {
        "text": "string | default=a",
        "size": "integer | minimum=1",
        "ratio": "float",
        "on": "boolean",
        "names": "[]string",
        "labels": "map[string]string",
        "any": "object",
        "deep": {"port": "integer"},
    }
)
SCOPE: dict[str, Type] = {
    "schema": instance_type(SPEC, namespaced=True),
    "web": any_object(),
    "workers": StaticList(any_object()),
    "deployment": KindSchemas().type_of(GroupKind("apps", "Deployment"), "v1") or any_object(),
    "crd": KindSchemas().type_of(GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"), "v1") or any_object(),
}
ANY = {"x-kubernetes-preserve-unknown-fields": True}


def known(expression: str) -> Any:
    return openapi.to_openapi(check(expression, SCOPE).type)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("schema.spec.text", "string"),
        ("schema.spec.size", "integer"),
        ("schema.spec.ratio", "number"),
        ("schema.spec.on", "boolean"),
        ("schema.spec.deep.port + 1", "integer"),
        ("schema.spec.names[0]", "string"),
        ("schema.spec.labels.app", "string"),
        ("schema.spec.labels['app']", "string"),
        ("schema.spec.?text.orValue('x')", "string"),
        ("schema.metadata.name + '-db'", "string"),
        ("web.metadata.name", "string"),
        ("web.metadata.labels['a']", "string"),
        ("web.metadata.generation", "integer"),
        ("workers[0].metadata.name", "string"),
        ("size(workers)", "integer"),
        ("workers.size()", "integer"),
        ("string(web.status.port)", "string"),
        ("int(web.status.port)", "integer"),
        ("1.5", "number"),
        ("1 < 2", "boolean"),
        ("web.status.a && web.status.b", "boolean"),
        ("!web.status.a", "boolean"),
        ("-schema.spec.size", "integer"),
        ("has(web.status.a)", "boolean"),
        ("'a' in web.status.list", "boolean"),
        ("workers.all(w, w.status.ready)", "boolean"),
        ("web.status.a ? 'x' : 'y'", "string"),
        ("timestamp('2026-01-01T00:00:00Z')", "string"),
        ("deployment.status.availableReplicas", "integer"),
        ("deployment.spec.template.spec.containers[0].image", "string"),
    ],
)
def test_what_is_known(expression: str, kind: str) -> None:
    assert known(expression)["type"] == kind


@pytest.mark.parametrize(
    "expression",
    [
        "web.status.port",
        "web.spec.replicas + 1",
        "schema.spec.any.x",
        "json.unmarshal('1')",
        "web.status.a ? 'x' : 1",
        "web.status.?port",
        "dyn(1)",
        "null",
        "nosuch.x",
        "[1, 2].sum()",
        "schema.spec.on ? 1 : 1.5",
    ],
)
def test_what_is_not_known_is_open(expression: str) -> None:
    assert known(expression) == ANY


@pytest.mark.parametrize(
    ("expression", "schema"),
    [
        ("schema.spec.names", {"type": "array", "items": {"type": "string"}}),
        ("workers.map(w, w.metadata.name)", {"type": "array", "items": {"type": "string"}}),
        ("workers.map(w, w.status.ip)", {"type": "array", "items": ANY}),
        ("schema.spec.names.filter(n, n != '')", {"type": "array", "items": {"type": "string"}}),
        ("['a', 'b']", {"type": "array", "items": {"type": "string"}}),
        ("[]", {"type": "array", "items": ANY}),
        ("schema.spec.labels", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("schema.spec.any", {"type": "object", **ANY}),
        ("schema.spec.deep", {"type": "object", "properties": {"port": {"type": "integer"}}}),
        ("{'a': 1, 'b': web.status.x}", {"type": "object", "properties": {"a": {"type": "integer"}, "b": ANY}}),
        ("{schema.spec.text: 1}", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("{}", {"type": "object", **ANY}),
    ],
)
def test_shapes(expression: str, schema: dict[str, Any]) -> None:
    assert known(expression) == schema


def test_a_schema_that_refers_to_itself_ends() -> None:
    """JSONSchemaProps has fields of its own type; inside itself it is open."""
    described = known("crd.spec.versions[0].schema.openAPIV3Schema")
    assert described["properties"]["not"] == {"type": "object", **ANY}
    assert described["properties"]["title"] == {"type": "string"}


def test_restrictions_and_defaults_are_left_out_of_a_status() -> None:
    assert known("schema.spec.text") == {"type": "string"}
    assert known("schema.spec.size") == {"type": "integer"}
    assert "default" not in known("schema.spec")
