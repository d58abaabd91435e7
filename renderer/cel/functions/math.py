"""The `math` functions of cel-go's math extension, version 2."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.containers import NUMBERS
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.operators import check_int_range, greater, less
from renderer.cel.values import LISTS, UINT_MAX, UInt, type_name

_BITS: Final = 64
_INTEGERS: Final = {int: "int", UInt: "uint"}


@overload("math.greatest(list): dyn", "math.greatest(int): int", "math.greatest(uint): uint")
@overload("math.greatest(double): double")
def greatest(meter: Meter, values: Any) -> Any:
    """Return the greatest of the numbers.

    Raises: EvaluationError for an empty list, for a value that is not a number, and for NaN beside other numbers.
    """
    return _extreme("math.greatest", greater, meter, values)


@overload("math.least(list): dyn", "math.least(int): int", "math.least(uint): uint", "math.least(double): double")
def least(meter: Meter, values: Any) -> Any:
    """Return the least of the numbers. Raises: EvaluationError as `greatest` does."""
    return _extreme("math.least", less, meter, values)


def _extreme(name: str, better: Callable[..., bool], meter: Meter, values: Any) -> Any:
    """Return the first number to which `better` prefers no other number. The types of the numbers may differ.

    Args:
        values: One number or a list. Several arguments of a call arrive as one list.
    """
    numbers = values if type(values) in LISTS else [values]
    if not numbers:
        raise EvaluationError(f"{name} of an empty list has no value; pass at least one number")
    meter.spend(len(numbers))
    for number in numbers:
        if type(number) not in NUMBERS:
            raise EvaluationError(f"{name} takes numbers, not {type_name(number)}")
    best = numbers[0]
    for number in numbers[1:]:
        if better(number, best, meter):
            best = number
    return best


def _round_finite(rounding: Callable[[float], int], value: float) -> float:
    """Apply `rounding` to a finite number, and keep the sign of zero. Return infinities and NaN unchanged."""
    return math.copysign(rounding(value), value) if math.isfinite(value) else value


overload_each(
    {
        "math.ceil(double): double": lambda value: _round_finite(math.ceil, value),
        "math.floor(double): double": lambda value: _round_finite(math.floor, value),
        "math.trunc(double): double": lambda value: _round_finite(math.trunc, value),
        "math.round(double): double": lambda value: _round_finite(_round_half_away, value),
        "math.isInf(double): bool": math.isinf,
        "math.isNaN(double): bool": math.isnan,
        "math.isFinite(double): bool": math.isfinite,
    }
)


def _round_half_away(value: float) -> int:
    return math.trunc(value) + math.trunc(2 * (value - math.trunc(value)))


@overload("math.sqrt(double): double", "math.sqrt(int): double", "math.sqrt(uint): double")
def sqrt(value: float) -> float:
    """Return the square root of `value`, or NaN if `value` is negative."""
    return math.sqrt(value) if value >= 0 else math.nan


@overload("math.abs(int): int", "math.abs(uint): uint", "math.abs(double): double")
def absolute(value: Any) -> Any:
    """Return the absolute value of `value`.

    Raises: EvaluationError for the least int, whose absolute value does not fit into 64 bits.
    """
    return check_int_range(abs(value)) if type(value) is int else (value if type(value) is UInt else abs(value))


@overload("math.sign(int): int", "math.sign(uint): uint", "math.sign(double): double")
def sign(value: Any) -> Any:
    """Return -1, 0 or 1 in the type of `value`, or NaN if `value` is NaN."""
    if value != value:
        return value
    return type(value)((value > 0) - (value < 0))


# ---- 64 bits; negative ints are two's complement


def _to_signed(bits: int) -> int:
    bits &= UINT_MAX
    return bits - (1 << _BITS) if bits >> (_BITS - 1) else bits


def _to_type_of(value: int, bits: int) -> int:
    return UInt(bits & UINT_MAX) if type(value) is UInt else _to_signed(bits)


def _register_bitwise(name: str, combine: Callable[[int, int], int]) -> None:
    @overload(*(f"math.{name}({kind}, {kind}): {kind}" for kind in _INTEGERS.values()))
    def combined(left: int, right: int) -> int:
        return _to_type_of(left, combine(left, right))


for _name, _combine in (("bitAnd", operator.and_), ("bitOr", operator.or_), ("bitXor", operator.xor)):
    _register_bitwise(_name, _combine)


@overload("math.bitNot(int): int", "math.bitNot(uint): uint")
def bit_not(value: int) -> int:
    """Return `value` with each of its 64 bits inverted."""
    return _to_type_of(value, ~int(value))


@overload("math.bitShiftLeft(int, int): int", "math.bitShiftLeft(uint, int): uint")
def bit_shift_left(value: int, bits: int) -> int:
    """Return `value` shifted left by `bits`, truncated to 64 bits. Raises: EvaluationError if `bits` is negative."""
    return _to_type_of(value, int(value) << _clamp_shift(bits))


@overload("math.bitShiftRight(int, int): int", "math.bitShiftRight(uint, int): uint")
def bit_shift_right(value: int, bits: int) -> int:
    """Return `value` shifted right by `bits`. Even for a negative `value`, zeros enter from the left.

    Raises: EvaluationError if `bits` is negative.
    """
    return _to_type_of(value, (int(value) & UINT_MAX) >> _clamp_shift(bits))


def _clamp_shift(bits: int) -> int:
    if bits < 0:
        raise EvaluationError(f"cannot shift by {bits} bits; use a number of bits that is not negative")
    return min(bits, _BITS)
