"""Structural defaulting, as the API server does it."""

from typing import Any

import pytest

from renderer.schema.defaults import apply_defaults

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 1},
        "name": {"type": "string", "nullable": True, "default": "x"},
        "plain": {"type": "string"},
        "deep": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"default": 7}}}},
    },
}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ({}, {"size": 1, "name": "x"}),
        ({"size": 2, "name": "y"}, {"size": 2, "name": "y"}),
        ({"size": None, "name": None, "plain": None}, {"size": 1, "name": None}),
        ({"deep": {}}, {"deep": {"on": True}, "size": 1, "name": "x"}),
        ({"items": [{}, None]}, {"items": [{"n": 7}, None], "size": 1, "name": "x"}),
        ({"unknown": {"a": None}}, {"unknown": {"a": None}, "size": 1, "name": "x"}),
    ],
)
def test_absent_fields_get_their_default(value: Any, filled: Any) -> None:
    assert apply_defaults(SCHEMA, value) == filled


def test_a_null_without_a_default_can_be_kept() -> None:
    assert apply_defaults(SCHEMA, {"plain": None}, keep_nulls=True)["plain"] is None


def test_the_result_shares_nothing_with_the_value_and_the_schema() -> None:
    schema = {"type": "object", "default": {"a": []}}
    first = apply_defaults(schema, None)
    first["a"].append(1)
    assert apply_defaults(schema, None) == {"a": []}
