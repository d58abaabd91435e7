"""Which CustomResourceDefinitions are taken: names, versions, and schemas that are structural."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from tests.support.cluster.http_api import Api, Json
from tests.support.conformance.custom import DEFINITIONS, definition

TEXT = {"type": "string"}
KEYS = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
FIELDS: dict[str, Json] = {
    "unknown type": {"type": "foo"},
    "default of another type": {**TEXT, "default": 1},
    "default that is too long": {**TEXT, "default": "a", "maxLength": 0},
    "default with an unknown field": {"type": "object", "default": {"z": 1}, "properties": {"y": TEXT}},
    "default that fits": {"type": "object", "default": {}, "properties": {"y": {**TEXT, "default": "x"}}},
    "fields and additional ones": {"type": "object", "properties": {"y": TEXT}, "additionalProperties": TEXT},
    "unique items": {"type": "array", "items": TEXT, "uniqueItems": True},
    "items one by one": {"type": "array", "items": [TEXT]},
    "set of objects": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
    "set of atomic objects": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "object", "x-kubernetes-map-type": "atomic"},
    },
    "map of texts": {"type": "array", "items": TEXT, **KEYS},
    "map without its key": {"type": "array", "items": {"type": "object", "properties": {"b": TEXT}}, **KEYS},
    "map with a key that may be absent": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": TEXT}},
        **KEYS,
    },
    "map with a key that has a default": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {**TEXT, "default": "x"}}},
        **KEYS,
    },
    "map with an object as its key": {
        "type": "array",
        "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "object"}}},
        **KEYS,
    },
    "keys of no map": {"type": "array", "items": TEXT, "x-kubernetes-list-map-keys": ["a"]},
    "text as a set": {**TEXT, "x-kubernetes-list-type": "set"},
    "other type of map": {"type": "object", "x-kubernetes-map-type": "foo"},
    "broken pattern": {**TEXT, "pattern": "("},
    "empty rule": {**TEXT, "x-kubernetes-validations": [{"rule": " "}]},
    "type in a part": {**TEXT, "anyOf": [{"type": "string"}]},
    "description in a part": {**TEXT, "not": {"description": "a"}},
    "parts": {**TEXT, "anyOf": [{"minLength": 1}, {"pattern": "a"}]},
    "number or text": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "embedded without fields": {"type": "object", "x-kubernetes-embedded-resource": True},
}
"""What may be a field's schema, and what may not."""

CHANGES: dict[str, Callable[[Json, Json], Any]] = {
    "kind with a dash below": lambda spec, _: spec["names"].update(kind="pro_be"),
    "lower-case kind": lambda spec, _: spec["names"].update(kind="widget"),
    "short name": lambda spec, _: spec["names"].update(shortNames=["A_"]),
    "singular": lambda spec, _: spec["names"].update(singular="A"),
    "no version": lambda spec, _: spec.update(versions=[]),
    "a version twice": lambda spec, first: spec["versions"].append({**first, "storage": False}),
    "name of a version": lambda _, first: first.update(name="V_1"),
    "long name of a version": lambda _, first: first.update(name="a" * 64),
    "version that is not served": lambda _, first: first.update(served=False),
    "all fields preserved": lambda spec, _: spec.update(preserveUnknownFields=True),
    "webhook for conversion": lambda spec, _: spec.update(conversion={"strategy": "Webhook"}),
    "type of a column": lambda _, first: first["additionalPrinterColumns"][0].update(type="foo"),
    "path of a column": lambda _, first: first["additionalPrinterColumns"][0].update(jsonPath="x"),
    "rules of labels": lambda _, first: first["schema"]["openAPIV3Schema"]["properties"].update(
        metadata={"type": "object", "properties": {"labels": {"type": "object"}}}
    ),
    "rules of the name": lambda _, first: first["schema"]["openAPIV3Schema"]["properties"].update(
        metadata={"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}
    ),
}


def with_field(field: Json) -> Json:
    found = deepcopy(definition("asked.test"))
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["x"] = field
    return found


def changed(change: Callable[[Json, Json], Any]) -> Json:
    found = deepcopy(definition("asked.test"))
    change(found["spec"], found["spec"]["versions"][0])
    return found


def test_definitions_are_taken_and_refused_alike(both: tuple[Api, Api]) -> None:
    asked = {name: with_field(field) for name, field in FIELDS.items()}
    asked |= {name: changed(change) for name, change in CHANGES.items()}
    asked |= {group: definition(group) for group in ("flat", "a.k8s.io", "a.test")}
    real, ours = (
        {name: api.post(f"{DEFINITIONS}?dryRun=All", crd).code for name, crd in asked.items()} for api in both
    )
    assert ours == real
    assert {201, 422} == set(real.values())
