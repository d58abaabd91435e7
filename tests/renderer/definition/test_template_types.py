"""Templates against the schemas that a commit holds (kro documentation, "Static type checking")."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog.catalog import Catalog, load
from renderer.export.lint import Severity, lint
from renderer.identity import GroupKind
from renderer.render.render import render
from tests.support.properties.repositories import GROUP, config_map, definition, widget, widgets

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
SPEC = {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": True}, "on": {"type": "boolean"}}}
WIDGET = widgets("w.test", {"properties": {"spec": SPEC}})


def catalog(spec: Any, *, kind: str = "Inner", version: str = "v1", group: str = GROUP) -> Catalog:
    node = config_map("node", name="n")
    node["template"] = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "n"}, "spec": spec}
    files = {
        "inner.json": definition(
            "Inner", [config_map("i", name="i-${schema.spec.name}")], spec={**INNER, "text": "string"}
        ),
        "outer.json": definition("Outer", [node, widget("web", name="w")], spec=OUTER),
        "widget.json": json.dumps(WIDGET),
    }
    return load({name: text.encode() for name, text in files.items()})


def found(spec: Any, **more: str) -> list[tuple[str, str]]:
    """What of a template does not fit the kind that it makes."""
    read = catalog(spec, **more)
    assert (GroupKind(GROUP, "Outer") in read.broken) is bool(read.problems)
    below = "spec.resources[0].template."
    return [(problem.path.removeprefix(below), problem.message) for problem in read.problems]


def unservable(spec: Any) -> list[tuple[str, str]]:
    """What lint says of a template whose types fit."""
    read = catalog(spec)
    errors = [one.problem for one in lint({}, read, render([read])) if one.severity is Severity.ERROR]
    return [(problem.path.removeprefix("spec.resources[0].template."), problem.message) for problem in errors]


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "n"},
        {"name": "${schema.spec.text}", "size": "${schema.spec.count}", "tags": "${schema.spec.names}"},
        {
            "name": "x-${schema.spec.text}",
            "ratio": "${double(schema.spec.count)}",
            "tags": ["a", "${schema.spec.text}"],
        },
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
        ({"name": 1}, "spec.name", "1 is an integer, where a string is needed; put it in quotes"),
        ({"name": True}, "spec.name", "True is a boolean, where a string is needed; put it in quotes"),
        ({"size": "2"}, "spec.size", "'2' is a string, where an integer is needed; write it without quotes"),
        ({"size": 1.5}, "spec.size", "1.5 is a float, where an integer is needed"),
        ({"free": 5}, "spec.free", "5 is an integer, where an object is needed"),
        ({"name": "${schema.spec.count}"}, "spec.name",
         "${schema.spec.count}: is an integer, where a string is needed; write string(schema.spec.count)"),
        ({"ratio": "${schema.spec.count}"}, "spec.ratio",
         "${schema.spec.count}: is an integer, where a float is needed; write double(schema.spec.count)"),
        ({"size": "a${schema.spec.text}"}, "spec.size", "a${schema.spec.text} is a string, where an integer is needed"),
        ({"size": "${1.5}"}, "spec.size", "${1.5}: is a float, where an integer is needed; write int(1.5)"),
        ({"tags": "${schema.spec.text}"}, "spec.tags", "${schema.spec.text}: is a string, where a list is needed"),
        ({"tags": "${[schema.spec.count]}"}, "spec.tags",
         "${[schema.spec.count]}: [] is an integer, where a string is needed"),
        ({"tags": ["a", 1]}, "spec.tags[1]", "1 is an integer, where a string is needed; put it in quotes"),
        ({"labels": {"a/b": 1}}, 'spec.labels["a/b"]', "1 is an integer, where a string is needed; put it in quotes"),
        ({"labels": []}, "spec.labels", "[] is a list, where an object is needed"),
        ({"labels": "${{'a': 1}}"}, "spec.labels", "${{'a': 1}}: .a is an integer, where a string is needed"),
        ({"deep": "${{'prot': 1}}"}, "spec.deep", "${{'prot': 1}}: no field 'prot'; did you mean 'port'?"),
        ({"deep": "${{'port': '1'}}"}, "spec.deep", "${{'port': '1'}}: .port is a string, where an integer is needed"),
        ({"deep": "${{schema.spec.text: true}}"}, "spec.deep",
         "${{schema.spec.text: true}}: its values are a boolean, which no field accepts"),
        ({"name": "${quantity('1')}"}, "spec.name",
         "${quantity('1')}: is a quantity, which cannot be a field; use string(...) or one of its methods"),
        ({"name": "${schema.spec.?count}"}, "spec.name",
         "${schema.spec.?count}: is an integer, where a string is needed; write string(schema.spec.?count)"),
        ({"name": "a-${schema.spec.?text}"}, "spec.name",
         "${schema.spec.?text}: is an optional, where a string is needed; write schema.spec.?text.orValue('')"),
        ({"name": "a-${schema.spec.count}"}, "spec.name",
         "${schema.spec.count}: is an integer, where a string is needed; write string(schema.spec.count)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_its_path(spec: Any, path: str, told: str) -> None:
    """Rgd 1.3 rule 6, 1.11; the definition is broken, nothing else of the commit."""
    assert found(spec) == [(path, told)]


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        ({}, "spec.name", "is required and not given"),
        ({"name": "n", "deep": {}}, "spec.deep.port", "is required and not given"),
        ({"name": "n", "size": 0}, "spec.size", "0 is below the minimum 1"),
    ],
)
def test_what_the_server_would_refuse_is_told_by_lint(spec: Any, path: str, told: str) -> None:
    """Kro accepts such a definition, and so do we: something else may complete the object on its way."""
    assert found(spec) == []
    assert unservable(spec) == [(path, told)]


def test_crds_of_the_commit_count_too() -> None:
    assert found({"port": "http", "on": True}, kind="Widget", group="w.test") == []
    assert found({"on": "${schema.spec.text}"}, kind="Widget", group="w.test") == [
        ("spec.on", "${schema.spec.text}: is a string, where a boolean is needed")
    ]
    assert found({"port": True}, kind="Widget", group="w.test") == [
        ("spec.port", "True is a boolean, where a string or an integer is needed")
    ]
    assert found({}, kind="Widget", group="w.test", version="v2") == [
        ("apiVersion", "Widget.w.test has no version v2; choose from v1")
    ]


def test_a_kind_without_a_schema_is_not_checked() -> None:
    assert found({"what": "ever"}, kind="Gadget", group="w.test") == []
