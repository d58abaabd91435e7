"""CEL values as native Python values."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.cel.values import (
    NONE,
    OMIT,
    Associative,
    MixedMap,
    Optional,
    TypeValue,
    UInt,
    python_types,
    type_name,
    type_of,
)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "int"),
        (UInt(1), "uint"),
        (1.0, "double"),
        (True, "bool"),
        (None, "null"),
        ({}, "map"),
        (MixedMap({1: 1}), "map"),
        (Associative([], str), "list"),
        (datetime(2026, 1, 31, tzinfo=UTC), "timestamp"),
        (timedelta(0), "duration"),
        (NONE, "optional"),
        (TypeValue("int"), "type"),
        (OMIT, "omit"),
    ],
)
def test_a_value_has_the_name_of_its_type(value: Any, name: str) -> None:
    assert type_name(value) == name
    assert type(value) in python_types(name) or name in ("optional", "null")


def test_a_type_as_a_value_has_its_full_name() -> None:
    assert type_of(timedelta(0)) == TypeValue("google.protobuf.Duration")
    assert type_of(None) == TypeValue("null_type")


def test_selection_passes_through_an_optional() -> None:
    found: Optional = Optional({"a": {"b": None}})["a"]["b"]
    assert found == Optional(None)
    assert found["c"] is NONE
    assert Optional({})["a"] is NONE
    assert NONE["a"] is NONE


def test_omit_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match="cannot be compared"):
        _ = OMIT == 1
