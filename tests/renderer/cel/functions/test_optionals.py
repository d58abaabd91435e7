"""Functions and methods of optional values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import optionals
from renderer.cel.functions.registry import FUNCTIONS
from renderer.cel.nanoseconds import duration_from_nanoseconds
from renderer.cel.values import NONE, Optional, UInt


def call(name: str, *operands: Any) -> Any:
    """Return the value of the function `optional.NAME` as an expression calls it."""
    return FUNCTIONS[f"optional.{name}", False](Meter(), *operands)


def call_method(name: str, *operands: Any) -> Any:
    """Return the value of a method of the first operand."""
    return FUNCTIONS[name, True](Meter(), *operands)


@pytest.mark.parametrize("value", [1, "", None, NONE])
def test_an_optional_gives_the_value_that_it_was_made_of(value: object) -> None:
    made = call("of", value)
    assert made == Optional(value)
    assert call_method("hasValue", made) is True
    assert optionals.value_of(made) is value


def test_an_empty_optional_has_no_value() -> None:
    assert FUNCTIONS["optional.none", False].arities == {0}
    assert call("none") is NONE
    assert call_method("hasValue", NONE) is False
    with pytest.raises(EvaluationError) as caught:
        optionals.value_of(NONE)
    assert caught.value.message == "the optional has no value; use orValue(...)"


@pytest.mark.parametrize(
    "zero", [0, UInt(0), 0.0, -0.0, False, "", b"", None, [], {}, timedelta(0), datetime(1, 1, 1, tzinfo=UTC)]
)
def test_a_zero_value_makes_an_empty_optional(zero: object) -> None:
    assert call("ofNonZeroValue", zero) is NONE


@pytest.mark.parametrize(
    "value",
    [
        -1,
        UInt(1),
        0.5,
        True,
        "0",
        b"\x00",
        [None],
        {"a": 0},
        duration_from_nanoseconds(1),
        duration_from_nanoseconds(-1),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, microsecond=1, tzinfo=UTC),
    ],
)
def test_any_other_value_makes_a_full_optional(value: object) -> None:
    assert call("ofNonZeroValue", value) == Optional(value)


def test_values_of_full_optionals_are_kept_in_order() -> None:
    values = [Optional(2), NONE, Optional(None), Optional(1)]
    assert optionals.unwrap(Meter(), values) == [2, None, 1]
    assert optionals.unwrap(Meter(), []) == []
    assert call_method("unwrapOpt", values) == call("unwrap", values) == [2, None, 1]


def test_only_optionals_can_be_unwrapped() -> None:
    with pytest.raises(EvaluationError) as caught:
        optionals.unwrap(Meter(), [NONE, "a"])
    assert caught.value.message == "expected optional, got string"


def test_unwrapping_pays_for_each_optional() -> None:
    assert optionals.unwrap(Meter(2), [NONE, NONE]) == []
    with pytest.raises(BudgetError):
        optionals.unwrap(Meter(1), [NONE, NONE])


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        (Optional(1), Optional(2), Optional(1)),
        (Optional(None), Optional(2), Optional(None)),
        (NONE, Optional(2), Optional(2)),
        (NONE, NONE, NONE),
    ],
)
def test_the_first_full_optional_is_chosen(first: Optional, second: Optional, chosen: Optional) -> None:
    assert call_method("or", first, second) == chosen


@pytest.mark.parametrize(("optional", "value"), [(Optional(1), 1), (Optional(None), None), (NONE, "other")])
def test_the_other_value_replaces_an_empty_optional(optional: Optional, value: object) -> None:
    assert call_method("orValue", optional, "other") == value
