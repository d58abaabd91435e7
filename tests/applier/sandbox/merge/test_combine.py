"""Merges of values, and the removal of fields."""

from __future__ import annotations

from applier.sandbox.merge.combine import merge_values, remove_fields
from applier.sandbox.merge.field_set import from_paths
from applier.sandbox.merge.types import DEDUCED, type_of_schema

ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}
LIST = {"type": "array", "items": ITEM, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
TYPE = type_of_schema({"type": "object", "properties": {"items": LIST}}, crd=False, definitions={})


def test_nothing_is_removed_and_equal_parts_are_shared() -> None:
    left = {"a": {"b": 1}, "c": 2}
    assert merge_values(DEDUCED, left, {"a": {"d": 3}}) == {"a": {"b": 1, "d": 3}, "c": 2}
    assert merge_values(DEDUCED, left, {"c": 2}) is left


def test_items_merge_by_key_in_the_newer_order() -> None:
    left = {"items": [{"name": "a", "v": 1}, {"name": "b", "v": 1}, {"name": "own"}]}
    right = {"items": [{"name": "b", "v": 2}, {"name": "a"}]}
    merged = merge_values(TYPE, left, right)
    assert [item["name"] for item in merged["items"]] == ["b", "own", "a"]
    assert merged["items"][2] == {"name": "a", "v": 1}


def test_a_map_without_parts_becomes_null() -> None:
    assert remove_fields(DEDUCED, {"a": {"b": 1}, "c": 2}, from_paths(frozenset({("a", "b")}))) == {"a": None, "c": 2}
