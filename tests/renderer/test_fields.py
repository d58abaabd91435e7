"""Templates against the schemas that a commit holds (kro documentation, "Static type checking")."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog import load
from renderer.fields import known_schemas, misfits
from renderer.identity import GroupKind
from tests.properties.repositories import GROUP, config_map, definition

INNER = {
    "name": "string | required=true",
    "size": "integer | default=1 minimum=1",
    "ratio": "float",
    "tags": "[]string",
    "labels": "map[string]string",
    "free": "object",
    "deep": {"port": "integer | required=true"},
}
OUTER = {"text": "string", "count": "integer", "names": "[]string", "any": "object"}
WIDGET = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.w.test"},
    "spec": {
        "group": "w.test",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"port": {"x-kubernetes-int-or-string": True}, "on": {"type": "boolean"}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


def found(spec: Any, *, kind: str = "Inner", version: str = "v1", group: str = GROUP) -> list[tuple[str, str]]:
    node = config_map("node", name="n")
    node["template"] = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "n"}, "spec": spec}
    files = {
        "inner.json": definition(
            "Inner", [config_map("i", name="i-${schema.spec.name}")], spec={**INNER, "text": "string"}
        ),
        "outer.json": definition("Outer", [node, config_map("web", name="w")], spec=OUTER),
        "widget.json": json.dumps(WIDGET),
    }
    catalog = load({name: text.encode() for name, text in files.items()})
    assert catalog.problems == ()
    outer = catalog.definitions[GroupKind(GROUP, "Outer")]
    return [(place, message) for _, place, message in misfits(outer, known_schemas(catalog))]


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "n"},
        {"name": "${schema.spec.text}", "size": "${schema.spec.count}", "tags": "${schema.spec.names}"},
        {"name": "x-${schema.spec.text}", "ratio": "${schema.spec.count}", "tags": ["a", "${schema.spec.text}"]},
        {"name": "${web.status.name}", "size": "${web.status.size}", "deep": "${web.status.deep}"},
        {"name": None, "free": {"any": ["thing", 1]}, "labels": {"a": "${schema.spec.text}"}},
        {"name": "n", "deep": {"port": 1}, "size": 2, "ratio": 1},
        {"name": "${schema.spec.any.name}", "size": "${omit()}"},
        "${schema.spec.any}",
    ],
)
def test_what_fits_or_cannot_be_told_is_no_mistake(spec: Any) -> None:
    assert found(spec) == []


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        ({"name": "n", "siez": 1}, "spec.siez", "no field 'siez'; did you mean 'size'?"),
        ({"name": "n", "deep": {"port": 1, "x": 1}}, "spec.deep.x", "no field 'x'; the fields are port"),
        ({}, "spec.name", "is required and not given"),
        ({"name": "n", "deep": {}}, "spec.deep.port", "is required and not given"),
        ({"name": 1}, "spec.name", "1 is not text; put it in quotes"),
        ({"name": "n", "size": "2"}, "spec.size", "'2' is not a whole number; write it without quotes"),
        ({"name": "n", "size": 0}, "spec.size", "0 is below the minimum 1"),
        ({"name": "${schema.spec.count}"}, "spec.name", "${schema.spec.count} is an integer, where a string is needed"),
        ({"name": "n", "size": "a${schema.spec.text}"}, "spec.size", "is a string, where an integer is needed"),
        ({"name": "n", "size": "${1.5}"}, "spec.size", "${1.5} is a float, where an integer is needed"),
        ({"name": "n", "tags": "${schema.spec.text}"}, "spec.tags", "is a string, where a list is needed"),
        ({"name": "n", "tags": ["a", 1]}, "spec.tags[1]", "1 is not text"),
        ({"name": "n", "labels": {"a/b": 1}}, 'spec.labels["a/b"]', "1 is not text"),
        ({"name": "n", "labels": []}, "spec.labels", "[] is not an object"),
    ],
)
def test_what_does_not_fit_is_told_with_its_path(spec: Any, path: str, told: str) -> None:
    ((place, message),) = found(spec)
    assert (place, told in message) == (path, True), message


def test_crds_of_the_commit_count_too() -> None:
    assert found({"port": "http", "on": True}, kind="Widget", group="w.test") == []
    assert found({"on": "${schema.spec.text}"}, kind="Widget", group="w.test") == [
        ("spec.on", "${schema.spec.text} is a string, where a boolean is needed")
    ]
    assert found({}, kind="Widget", group="w.test", version="v2") == [
        ("apiVersion", "Widget.w.test has no version v2; there are v1")
    ]


def test_a_kind_without_a_schema_is_not_checked() -> None:
    assert found({"what": "ever"}, kind="Gadget", group="w.test") == []
