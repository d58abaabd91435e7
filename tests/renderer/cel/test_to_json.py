"""Values of expressions as plain JSON."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.cel.to_json import encode_bytes, to_json
from renderer.cel.values import NONE, OMIT, MixedMap, Optional, UInt
from renderer.errors import ExpressionError


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (1.0, 1),
        (1.5, 1.5),
        (2.0**53, 2**53),
        (-(2.0**63), -(2**63)),
        (2.0**63, 2.0**63),
        (UInt(3), 3),
        (NONE, None),
        (Optional([Optional(1)]), [1]),
        (datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00Z"),
        (timedelta(minutes=90), "1h30m0s"),
        ({"a": OMIT, "b": [OMIT, 1]}, {"b": [1]}),
    ],
)
def test_a_value(value: Any, json: Any) -> None:
    found = to_json(value)
    assert (found, type(found)) == (json, type(json))


@pytest.mark.parametrize("value", [b"a", UInt(2**63), math.nan, MixedMap({1: 2}), OMIT, object()])
def test_a_value_without_json_is_an_error_of_its_expression(value: Any) -> None:
    with pytest.raises(ExpressionError, match=r"^\$\{x\.y\}: "):
        to_json([value] if value is not OMIT else value, expression="x.y")


def test_bytes_become_text_where_a_field_is_for_bytes() -> None:
    assert encode_bytes({"a": [b"hi", Optional(b"")], "b": 1}) == {"a": ["aGk=", ""], "b": 1}


def test_the_result_shares_nothing_with_the_value() -> None:
    value: dict[str, Any] = {"a": []}
    to_json(value)["a"].append(1)
    assert value == {"a": []}
