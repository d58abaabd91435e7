"""CEL's operators over native values."""

import math
import operator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.cel import operators
from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.nanoseconds import duration_from_nanoseconds, timestamp_from_nanoseconds
from renderer.cel.values import INT_MAX, INT_MIN, NONE, Associative, Optional, UInt


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (1, UInt(1), True),
        (1, True, False),
        ("1", 1, False),
        ([1, {"a": 2}], [1.0, {"a": UInt(2)}], True),
        ({"a": 1}, {"b": 1}, False),
        (Optional(1), Optional(1.0), True),
        (NONE, Optional(None), False),
        (math.nan, math.nan, False),
        (Associative([1, 2], lambda item: item), [2, 1], True),
    ],
)
def test_values_of_other_types_are_not_equal_and_numbers_may_be(left: Any, right: Any, same: bool) -> None:
    assert operators.equal(left, right, Meter()) is same


@pytest.mark.parametrize("symbol", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("number", [1, UInt(1), 1.0, math.inf, math.nan])
def test_nan_has_no_order(symbol: str, number: float) -> None:
    compare = operators.BINARY[symbol][0]
    for left, right in ((math.nan, number), (number, math.nan)):
        with pytest.raises(EvaluationError, match="NaN has no order"):
            compare(left, right, Meter())


def test_integers_have_64_bits() -> None:
    with pytest.raises(EvaluationError, match="integer overflow"):
        operators.add(2**63 - 1, 1, Meter())
    with pytest.raises(EvaluationError, match="integer overflow"):
        operators.negate(-(2**63))
    with pytest.raises(EvaluationError, match="unsigned integer overflow"):
        operators.subtract(UInt(1), UInt(2))


@pytest.mark.parametrize(("left", "right", "quotient", "remainder"), [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1)])
def test_division_truncates_and_the_remainder_has_the_sign_of_the_dividend(
    left: int, right: int, quotient: int, remainder: int
) -> None:
    assert operators.divide(left, right) == quotient
    assert operators.modulo(left, right) == remainder


def test_doubles_divide_by_zero() -> None:
    assert operators.divide(-1.0, 0.0) == -math.inf
    assert math.isnan(operators.divide(0.0, 0.0))


def test_types_do_not_mix_in_arithmetic() -> None:
    with pytest.raises(EvaluationError, match=r"no such overload: int \+ double"):
        operators.add(1, 1.0, Meter())


def test_times_add_to_times() -> None:
    start, hour = datetime(2026, 1, 31, tzinfo=UTC), timedelta(hours=1)
    assert operators.add(start, hour, Meter()) == operators.add(hour, start, Meter()) == start + hour
    assert operators.subtract(start + hour, start) == hour
    with pytest.raises(EvaluationError, match="out of range"):
        operators.add(datetime(9999, 12, 31, tzinfo=UTC), timedelta(days=1), Meter())


def test_durations_have_the_nanoseconds_of_64_bits() -> None:
    greatest, least = duration_from_nanoseconds(INT_MAX), duration_from_nanoseconds(INT_MIN)
    nanosecond = duration_from_nanoseconds(1)
    assert operators.subtract(operators.add(least, nanosecond, Meter()), nanosecond) == least
    assert operators.subtract(nanosecond, greatest) == duration_from_nanoseconds(1 - INT_MAX)
    for left, right in (
        (greatest, duration_from_nanoseconds(-1)),
        (least, nanosecond),
        (timestamp_from_nanoseconds(2**63), timestamp_from_nanoseconds(0)),
    ):
        with pytest.raises(EvaluationError, match="duration out of range"):
            operators.subtract(left, right)


def test_a_key_of_another_type_is_not_in_a_map() -> None:
    assert operators.contains("a", {"a": 1}, Meter())
    assert not operators.contains([1], {"a": 1}, Meter())


def test_lists_pay_for_their_length() -> None:
    meter = Meter()
    operators.BINARY["+"][0]([1] * 60, [2] * 40, meter)
    assert meter.granted - meter.left == 100


def test_only_values_with_an_order_are_sorted() -> None:
    operators.check_sortable([1, 2], Meter())
    with pytest.raises(EvaluationError, match="cannot sort by int and string"):
        operators.check_sortable([1, "a"], Meter())
    with pytest.raises(EvaluationError, match="cannot sort by map"):
        operators.check_sortable([{}], Meter())


def test_every_operator_has_its_function() -> None:
    assert operators.BINARY["<"][0](1, 2.5, Meter()) is operator.lt(1, 2.5)
