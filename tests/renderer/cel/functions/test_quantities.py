"""Kubernetes quantities as values of expressions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError, NoOverloadError
from renderer.cel.functions import quantities
from renderer.cel.functions.quantities import Quantity, quantity
from renderer.cel.functions.registry import FUNCTIONS
from renderer.cel.values import INT_MAX, INT_MIN, type_name

BILLION = 10**9


def call_method(name: str, *operands: Any) -> Any:
    """Return the value of a method of the first operand."""
    return FUNCTIONS[name, True](Meter(), *operands)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("500Mi", 500 * 2**20 * BILLION),
        ("1.5", 1_500_000_000),
        ("250m", 250_000_000),
        ("1e3", 1000 * BILLION),
        ("-1n", -1),
        ("0.1n", 1),
    ],
)
def test_a_quantity_counts_billionths(text: str, nanos: int) -> None:
    assert quantity(text) == Quantity(nanos)
    assert FUNCTIONS["isQuantity", False](Meter(), text) is True


@pytest.mark.parametrize("text", ["", "500mb", "1.5.5", " 1", "1 Gi", "Mi", "0x1"])
def test_a_text_that_is_not_a_quantity(text: str) -> None:
    assert FUNCTIONS["isQuantity", False](Meter(), text) is False
    with pytest.raises(EvaluationError) as caught:
        quantity(text)
    assert caught.value.message == f"{text!r} is not a quantity; write a quantity such as 500Mi, 1.5 or 250m"


def test_messages_call_the_type_quantity() -> None:
    assert type_name(quantity("1")) == "quantity"
    with pytest.raises(NoOverloadError, match=r"no such overload: quantity\.add\(double\)"):
        call_method("add", quantity("1"), 1.0)


@pytest.mark.parametrize(
    ("nanos", "whole"),
    [
        (0, 0),
        (-2 * BILLION, -2),
        (INT_MAX * BILLION, INT_MAX),
        (INT_MIN * BILLION, INT_MIN),
        (quantity("1.5Gi").nanos, 3 * 2**29),
    ],
)
def test_a_whole_quantity_of_64_bits_is_an_int(nanos: int, whole: int) -> None:
    assert quantities.is_integer(Quantity(nanos)) is True
    assert quantities.as_integer(Quantity(nanos)) == whole


@pytest.mark.parametrize("nanos", [1, -1, 250_000_000, BILLION + 1, (INT_MAX + 1) * BILLION, (INT_MIN - 1) * BILLION])
def test_any_other_quantity_is_not_an_int(nanos: int) -> None:
    assert quantities.is_integer(Quantity(nanos)) is False
    with pytest.raises(EvaluationError) as caught:
        quantities.as_integer(Quantity(nanos))
    assert caught.value.message == "asInteger: the quantity is not a whole number of 64 bits"


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("250m", 0.25),
        ("-1n", -1e-9),
        ("9007199254740993", 9007199254740992.0),
        ("1e308", 1e308),
        ("1e309", math.inf),
        ("-1e309", -math.inf),
    ],
)
def test_the_nearest_double_of_a_quantity(text: str, nearest: float) -> None:
    assert quantities.as_approximate_float(quantity(text)) == nearest


@pytest.mark.parametrize(("text", "sign"), [("-1n", -1), ("0", 0), ("-0", 0), ("1n", 1), ("1Ei", 1)])
def test_the_sign_of_a_quantity(text: str, sign: int) -> None:
    assert call_method("sign", quantity(text)) == sign
    assert FUNCTIONS["sign", False](Meter(), quantity(text)) == sign


@pytest.mark.parametrize(
    ("operand", "total", "difference"),
    [(quantity("500m"), "1.5", "0.5"), (quantity("-2"), "-1", "3"), (2, "3", "-1"), (0, "1", "1")],
)
def test_a_quantity_or_whole_units_can_be_added_and_subtracted(
    operand: Quantity | int, total: str, difference: str
) -> None:
    assert call_method("add", quantity("1"), operand) == quantity(total)
    assert call_method("sub", quantity("1"), operand) == quantity(difference)


@pytest.mark.parametrize(
    ("left", "right", "order"), [("1G", "1Gi", -1), ("1.5", "1500m", 0), ("1", "999999999n", 1), ("-1", "0", -1)]
)
def test_quantities_have_the_order_of_their_amounts(left: str, right: str, order: int) -> None:
    operands = quantity(left), quantity(right)
    assert call_method("compareTo", *operands) == order
    assert call_method("isLessThan", *operands) is (order < 0)
    assert call_method("isGreaterThan", *operands) is (order > 0)
