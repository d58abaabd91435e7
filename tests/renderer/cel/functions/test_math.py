"""The `math` functions of cel-go's extension."""

from __future__ import annotations

import math as floats
from collections.abc import Callable
from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError, NoOverloadError
from renderer.cel.functions import math
from renderer.cel.functions.registry import FUNCTIONS
from renderer.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt


def call(name: str, *operands: Any) -> Any:
    """Return the value of the function `math.NAME` as an expression calls it."""
    return FUNCTIONS[f"math.{name}", False](Meter(), *operands)


def same(left: Any, right: Any) -> bool:
    """Return whether two numbers have the same type, value and sign. NaN is the same as NaN."""
    return type(left) is type(right) and repr(left) == repr(right)


@pytest.mark.parametrize(
    ("values", "greatest", "least"),
    [
        (5, 5, 5),
        ([1, 5, 3], 5, 1),
        ([-2.5, UInt(7), 3], UInt(7), -2.5),
        ([UInt(UINT_MAX), INT_MIN], UInt(UINT_MAX), INT_MIN),
        ([1, 1.0, UInt(1)], 1, 1),
        ([1.0, 1], 1.0, 1.0),
        ([floats.inf, -floats.inf], floats.inf, -floats.inf),
        (floats.nan, floats.nan, floats.nan),
        ([floats.nan], floats.nan, floats.nan),
    ],
)
def test_the_extremes_of_numbers_keep_their_type_and_the_first_of_equals_wins(
    values: Any, greatest: Any, least: Any
) -> None:
    assert same(math.greatest(Meter(), values), greatest)
    assert same(math.least(Meter(), values), least)


@pytest.mark.parametrize(("function", "name"), [(math.greatest, "math.greatest"), (math.least, "math.least")])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "of an empty list has no value; pass at least one number"),
        (["a"], "takes numbers, not string"),
        ([1, True], "takes numbers, not bool"),
        ([1, None, 2], "takes numbers, not null"),
    ],
)
def test_an_extreme_needs_numbers(
    function: Callable[[Meter, Any], Any], name: str, values: list[Any], message: str
) -> None:
    with pytest.raises(EvaluationError) as caught:
        function(Meter(), values)
    assert caught.value.message == f"{name} {message}"


@pytest.mark.parametrize("function", [math.greatest, math.least])
@pytest.mark.parametrize(
    "values", [[floats.nan, 1.0], [1.0, floats.nan], [1, UInt(2), floats.nan], [floats.nan, floats.nan]]
)
def test_nan_beside_other_numbers_has_no_extreme(function: Callable[[Meter, Any], Any], values: list[Any]) -> None:
    with pytest.raises(EvaluationError, match="NaN has no order"):
        function(Meter(), values)


def test_an_extreme_pays_for_each_number() -> None:
    assert math.greatest(Meter(3), [1, 2, 3]) == 3
    with pytest.raises(BudgetError):
        math.greatest(Meter(2), [1, 2, 3])


@pytest.mark.parametrize(
    ("value", "ceil", "floor", "trunc", "rounded"),
    [
        (1.2, 2.0, 1.0, 1.0, 1.0),
        (-1.2, -1.0, -2.0, -1.0, -1.0),
        (2.5, 3.0, 2.0, 2.0, 3.0),
        (-2.5, -2.0, -3.0, -2.0, -3.0),
        (0.49999999999999994, 1.0, 0.0, 0.0, 0.0),
        (-0.4, -0.0, -1.0, -0.0, -0.0),
        (-0.0, -0.0, -0.0, -0.0, -0.0),
        (4503599627370497.0, 4503599627370497.0, 4503599627370497.0, 4503599627370497.0, 4503599627370497.0),
        (1e300, 1e300, 1e300, 1e300, 1e300),
        (floats.inf, floats.inf, floats.inf, floats.inf, floats.inf),
        (-floats.inf, -floats.inf, -floats.inf, -floats.inf, -floats.inf),
        (floats.nan, floats.nan, floats.nan, floats.nan, floats.nan),
    ],
)
def test_a_rounded_double_keeps_its_sign_and_half_goes_away_from_zero(
    value: float, ceil: float, floor: float, trunc: float, rounded: float
) -> None:
    assert same(call("ceil", value), ceil)
    assert same(call("floor", value), floor)
    assert same(call("trunc", value), trunc)
    assert same(call("round", value), rounded)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(0.0, "isFinite"), (1e308, "isFinite"), (floats.inf, "isInf"), (-floats.inf, "isInf"), (floats.nan, "isNaN")],
)
def test_a_double_is_finite_or_infinite_or_nan(value: float, kind: str) -> None:
    assert {name: call(name, value) for name in ("isFinite", "isInf", "isNaN")} == {
        "isFinite": kind == "isFinite",
        "isInf": kind == "isInf",
        "isNaN": kind == "isNaN",
    }


@pytest.mark.parametrize("name", ["ceil", "floor", "trunc", "round", "isFinite", "isInf", "isNaN"])
def test_an_int_is_not_rounded(name: str) -> None:
    with pytest.raises(NoOverloadError, match=rf"no such overload: math\.{name}\(int\)"):
        call(name, 1)


@pytest.mark.parametrize(
    ("value", "root"),
    [
        (9, 3.0),
        (UInt(2**62), 2.0**31),
        (2.25, 1.5),
        (0, 0.0),
        (-1, floats.nan),
        (-0.5, floats.nan),
        (floats.nan, floats.nan),
        (floats.inf, floats.inf),
    ],
)
def test_the_square_root_is_a_double_and_nan_for_a_negative_number(value: float, root: float) -> None:
    assert same(math.sqrt(value), root)


@pytest.mark.parametrize(
    ("value", "absolute"),
    [
        (-3, 3),
        (3, 3),
        (INT_MIN + 1, INT_MAX),
        (UInt(UINT_MAX), UInt(UINT_MAX)),
        (-1.5, 1.5),
        (-0.0, 0.0),
        (-floats.inf, floats.inf),
    ],
)
def test_the_absolute_value_keeps_the_type(value: Any, absolute: Any) -> None:
    assert same(math.absolute(value), absolute)


def test_the_least_int_has_no_absolute_value() -> None:
    with pytest.raises(EvaluationError) as caught:
        math.absolute(INT_MIN)
    assert caught.value.message == "integer overflow (int is 64 bits)"


@pytest.mark.parametrize(
    ("value", "sign"),
    [
        (INT_MIN, -1),
        (0, 0),
        (7, 1),
        (UInt(0), UInt(0)),
        (UInt(UINT_MAX), UInt(1)),
        (-0.5, -1.0),
        (0.0, 0.0),
        (floats.inf, 1.0),
        (floats.nan, floats.nan),
    ],
)
def test_the_sign_has_the_type_of_the_number(value: Any, sign: Any) -> None:
    assert same(math.sign(value), sign)


@pytest.mark.parametrize(
    ("left", "right", "both", "either", "one"),
    [
        (6, 3, 2, 7, 5),
        (-1, 5, 5, -1, -6),
        (INT_MIN, INT_MAX, 0, -1, -1),
        (UInt(6), UInt(3), UInt(2), UInt(7), UInt(5)),
        (UInt(UINT_MAX), UInt(2**63), UInt(2**63), UInt(UINT_MAX), UInt(INT_MAX)),
    ],
)
def test_bits_combine_in_the_type_of_the_operands(left: int, right: int, both: int, either: int, one: int) -> None:
    assert same(call("bitAnd", left, right), both)
    assert same(call("bitOr", left, right), either)
    assert same(call("bitXor", left, right), one)


@pytest.mark.parametrize("name", ["bitAnd", "bitOr", "bitXor"])
def test_bits_of_an_int_and_a_uint_do_not_combine(name: str) -> None:
    with pytest.raises(NoOverloadError, match=rf"no such overload: math\.{name}\(int, uint\)"):
        call(name, 1, UInt(1))


@pytest.mark.parametrize(
    ("value", "inverted"), [(0, -1), (-1, 0), (INT_MIN, INT_MAX), (UInt(0), UInt(UINT_MAX)), (UInt(1), UInt(2**64 - 2))]
)
def test_each_of_the_64_bits_is_inverted(value: int, inverted: int) -> None:
    assert same(math.bit_not(value), inverted)
    assert same(math.bit_not(inverted), value)


@pytest.mark.parametrize(
    ("value", "bits", "shifted"),
    [
        (1, 0, 1),
        (1, 4, 16),
        (1, 63, INT_MIN),
        (3, 63, INT_MIN),
        (1, 64, 0),
        (-1, INT_MAX, 0),
        (UInt(1), 63, UInt(2**63)),
        (UInt(UINT_MAX), 1, UInt(2**64 - 2)),
        (UInt(1), 64, UInt(0)),
    ],
)
def test_a_shift_to_the_left_drops_bits_beyond_64(value: int, bits: int, shifted: int) -> None:
    assert same(math.bit_shift_left(value, bits), shifted)


@pytest.mark.parametrize(
    ("value", "bits", "shifted"),
    [
        (256, 4, 16),
        (-1, 0, -1),
        (-1, 1, INT_MAX),
        (INT_MIN, 63, 1),
        (-1, 64, 0),
        (-1, INT_MAX, 0),
        (UInt(UINT_MAX), 63, UInt(1)),
        (UInt(UINT_MAX), 64, UInt(0)),
    ],
)
def test_zeros_enter_a_shift_to_the_right(value: int, bits: int, shifted: int) -> None:
    assert same(math.bit_shift_right(value, bits), shifted)


@pytest.mark.parametrize("shift", [math.bit_shift_left, math.bit_shift_right])
def test_a_shift_by_a_negative_number_of_bits_is_refused(shift: Callable[[int, int], int]) -> None:
    with pytest.raises(EvaluationError) as caught:
        shift(1, -1)
    assert caught.value.message == "cannot shift by -1 bits; use a number of bits that is not negative"
