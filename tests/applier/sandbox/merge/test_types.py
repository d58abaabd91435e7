"""How schemas become types."""

from __future__ import annotations

from typing import Any

from applier.sandbox.merge import DEDUCED, MergeType, type_of_schema
from renderer import builtin_kinds

BUNDLE = builtin_kinds.load_builtin_schemas()


def of(schema: dict[str, Any], **definitions: Any) -> MergeType:
    return type_of_schema(schema, crd=False, definitions=definitions)


def member(type_: MergeType, *names: str) -> MergeType:
    for name in names:
        assert type_.map is not None
        found = type_.map.child(name)
        assert found is not None
        type_ = found
    return type_


def deployment(*names: str) -> MergeType:
    schema = BUNDLE.schema("apps", "v1", "Deployment")
    assert schema is not None
    return member(type_of_schema(schema, crd=False, definitions=BUNDLE.definitions), *names)


def test_a_list_is_atomic_unless_it_says_otherwise() -> None:
    lists = of({"type": "array", "items": {"type": "string"}}).list
    assert lists is not None
    assert lists.atomic


def test_a_set_has_no_keys() -> None:
    lists = of({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}).list
    assert lists is not None
    assert (lists.atomic, lists.keys) == (False, ())


def test_older_kinds_say_it_by_the_patch_strategy() -> None:
    strategy = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
    lists = of({"type": "array", "items": {"type": "object"}, **strategy}).list
    assert lists is not None
    assert (lists.atomic, lists.keys) == (False, ("name",))


def test_ports_of_a_container_have_two_keys_with_defaults() -> None:
    containers = deployment("spec", "template", "spec", "containers").list
    assert containers is not None
    ports = member(containers.element, "ports").list
    assert ports is not None
    assert ports.keys == ("containerPort", "protocol")
    assert ports.key_defaults == {"containerPort": 0, "protocol": "TCP"}


def test_a_selector_is_atomic() -> None:
    selector = deployment("spec", "selector").map
    assert selector is not None
    assert selector.atomic


def test_a_field_may_override_how_its_definition_merges() -> None:
    reference = {"$ref": "#/components/schemas/Map"}
    type_ = of(
        {
            "type": "object",
            "properties": {"whole": {"allOf": [reference], "x-kubernetes-map-type": "atomic"}, "parts": reference},
        },
        Map={"type": "object", "additionalProperties": {"type": "string"}},
    )
    whole, parts = member(type_, "whole").map, member(type_, "parts").map
    assert whole is not None
    assert parts is not None
    assert (whole.atomic, parts.atomic) == (True, False)


def test_quantities_are_text_or_numbers() -> None:
    assert of({"$ref": "#/x/io.k8s.apimachinery.pkg.api.resource.Quantity"}).scalar == "untyped"


def test_an_object_without_fields_takes_anything() -> None:
    free = of({"type": "object"}).map
    assert free is not None
    assert free.additional_type is DEDUCED


def test_unknown_fields_are_let_through_where_they_are_preserved_and_below() -> None:
    inner = {"type": "object", "properties": {"known": {"type": "string"}}}
    type_ = of({"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"inner": inner}})
    assert member(type_, "inner").map.child("unknown") is DEDUCED  # type: ignore[union-attr]
    assert of(inner).map.child("unknown") is None  # type: ignore[union-attr]


def test_a_custom_kind_and_an_embedded_resource_have_metadata_whatever_their_schema_says() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    type_ = type_of_schema(
        {"type": "object", "properties": {"metadata": {"type": "object"}, "pod": embedded}},
        crd=True,
        definitions=BUNDLE.definitions,
    )
    assert member(type_, "metadata", "finalizers").list.atomic is False  # type: ignore[union-attr]
    assert member(type_, "pod", "metadata", "finalizers").list.atomic is False  # type: ignore[union-attr]


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Tree"}}}
    assert member(of({"$ref": "#/components/schemas/Tree"}, Tree=tree), "child", "child", "child").map is not None
