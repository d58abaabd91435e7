"""Checks of values against types, with the server's messages."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.merge.type_check import TypeMismatchError, check_type
from applier.sandbox.merge.types import type_of_schema

SET = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
TYPE = type_of_schema(
    {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "set": SET}},
    crd=False,
    definitions={},
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"n": "x"}, ".n: expected numeric (int or float), got string"),
        ({"s": 1}, ".s: expected string, got &value.valueUnstructured{Value:1}"),
        ({"x": 1}, ".x: field not declared in schema"),
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        ({"set": "a"}, ".set: expected list, got &{a}"),
    ],
)
def test_mistakes(value: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeMismatchError) as mismatch:
        check_type(TYPE, value)
    assert str(mismatch.value) == message


def test_stored_objects_may_have_equal_items() -> None:
    check_type(TYPE, {"set": ["a", "a"], "n": None}, allow_duplicates=True)
