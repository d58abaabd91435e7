"""CEL's operators over native values (CEL language definition, "Overview of operators", "Numeric values", "Equality").

Generated code and the exact evaluator call the operators. An operator raises only EvaluationError and its subclasses.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.containers import KEYS, NUMBERS, lookup
from renderer.cel.errors import EvaluationError, NoOverloadError, no_operator_error
from renderer.cel.nanoseconds import (
    DURATION_TYPES,
    TIMESTAMP_TYPES,
    PreciseDuration,
    PreciseTimestamp,
    duration_from_nanoseconds,
    nanoseconds,
    timestamp_from_nanoseconds,
)
from renderer.cel.values import INT_MAX, INT_MIN, LISTS, MAPS, UINT_MAX, Associative, Omit, Optional, UInt, type_name

_ORDERED: Final = frozenset(
    (str, int, UInt, float, bool, bytes, datetime, timedelta, PreciseTimestamp, PreciseDuration)
)
_CONTAINERS: Final = frozenset((*LISTS, *MAPS, Optional))
_TIMES: Final = TIMESTAMP_TYPES | DURATION_TYPES
_TEXTS: Final = frozenset((str, bytes))
_CHARACTERS_PER_UNIT: Final = 10
_UNITS_PER_COMPARISON: Final = 4


def require_bool(value: Any) -> bool:
    """Return `value` unchanged. Raises: EvaluationError if `value` is not a bool."""
    if value is True:
        return True
    if value is False:
        return False
    raise EvaluationError(f"expected bool, got {type_name(value)}")


# ---- equality and order


def equal(left: Any, right: Any, meter: Meter) -> bool:
    """Return `left == right`. Numbers compare across types. Other values of different types are unequal.

    Raises: EvaluationError if either value is `omit()`.
    """
    kind = type(left)
    if kind is type(right):
        if kind in _CONTAINERS:
            return _equal_containers(left, right, meter)
        if kind is str or kind is bytes:
            meter.compare(left, right)
        if kind is not Omit:
            return left == right  # type: ignore[no-any-return]
    if kind in NUMBERS:
        return type(right) in NUMBERS and _compare_numbers(operator.eq, left, right)
    if kind is Omit or type(right) is Omit:
        raise EvaluationError("omit() drops a whole field; do not compare omit()")
    alike = any(kind in kinds and type(right) in kinds for kinds in (MAPS, LISTS))
    return alike and _equal_containers(left, right, meter)


def _equal_containers(left: Any, right: Any, meter: Meter) -> bool:
    if type(left) is Optional:
        are_present = left.present and right.present
        return equal(left.value, right.value, meter) if are_present else left.present is right.present
    if len(left) != len(right):
        return False
    meter.spend(_UNITS_PER_COMPARISON * len(left))
    if type(left) is Associative:
        items = left.by_key()
        return all((key := left.key(item)) in items and equal(items[key], item, meter) for item in right)
    if type(left) is list:
        return all(equal(a, b, meter) for a, b in zip(left, right, strict=True))
    return all(
        (counterpart := lookup(right, key)).present and equal(left[key], counterpart.value, meter) for key in left
    )


def _ordering_operator(symbol: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Meter], bool]:
    """Return the function of `symbol`. As in cel-go, a comparison with NaN is an error."""

    def ordered(left: Any, right: Any, meter: Meter) -> bool:
        kind = type(left)
        if kind is type(right) and kind in _ORDERED:
            if kind is str or kind is bytes:
                meter.compare(left, right)
            elif kind is float:
                _refuse_nan(left, right)
            return compare(left, right)
        if kind in NUMBERS and type(right) in NUMBERS:
            _refuse_nan(left, right)
            return _compare_numbers(compare, left, right)
        if any(kind in times and type(right) in times for times in (TIMESTAMP_TYPES, DURATION_TYPES)):
            return compare(left, right)
        raise no_operator_error(symbol, left, right)

    return ordered


def _refuse_nan(left: float, right: float) -> None:
    if left != left or right != right:
        raise EvaluationError("NaN has no order; test math.isNaN(...) before the comparison")


def _compare_numbers(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Return the comparison of two numbers.

    As in cel-go, if one number is a double, the function compares both as doubles, although large integers lose digits.
    """
    if type(left) is float or type(right) is float:
        return compare(float(left), float(right))
    return compare(int(left), int(right))


less = _ordering_operator("<", operator.lt)
less_equal = _ordering_operator("<=", operator.le)
greater = _ordering_operator(">", operator.gt)
greater_equal = _ordering_operator(">=", operator.ge)


# ---- arithmetic


def check_int_range(value: int) -> int:
    """Return `value` unchanged. Raises: EvaluationError if `value` does not fit into 64 bits."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow (int is 64 bits)")


def check_uint_range(value: int) -> UInt:
    """Return `value` as a uint. Raises: EvaluationError if `value` is negative or does not fit into 64 bits."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow (uint is 64 bits and not negative)")


def compute_timestamp(compute: Callable[[], datetime]) -> datetime:
    """Return the result of `compute`. Raises: EvaluationError if the timestamp is not in the years 1 to 9999."""
    try:
        return compute()
    except OverflowError:
        raise EvaluationError("timestamp out of range (years 1 to 9999)") from None


def compute_duration(compute: Callable[[], timedelta]) -> timedelta:
    """Return the result of `compute`.

    Raises: EvaluationError if the nanoseconds do not fit into 64 bits, which is about 292 years in either direction.
    """
    try:
        value = compute()
    except OverflowError:
        raise EvaluationError("duration out of range") from None
    if not INT_MIN <= nanoseconds(value) <= INT_MAX:
        raise EvaluationError("duration out of range")
    return value


def add(left: Any, right: Any, meter: Meter) -> Any:
    """Return the sum of numbers or times, or the concatenation of texts, bytes or lists.

    Raises: EvaluationError for other operands, and for a result out of range.
    """
    kind = type(left)
    if kind in _TIMES:
        return _add_times(left, right)
    if kind is not type(right) and not (kind in LISTS and type(right) in LISTS):
        raise no_operator_error("+", left, right)
    if kind is str or kind is bytes:
        meter.produce(len(left) + len(right))
        return left + right
    if kind in LISTS:
        return _add_lists(left, right, meter)
    return _compute_numbers("+", operator.add, left, right)


def _compute_numbers(symbol: str, compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return the sum, difference or product of two numbers of one type."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int_range(compute(left, right))
        if kind is float:
            return compute(left, right)
        if kind is UInt:
            return check_uint_range(compute(int(left), int(right)))
    raise no_operator_error(symbol, left, right)


def _add_lists(left: list[Any], right: list[Any], meter: Meter) -> list[Any]:
    meter.spend(len(left) + len(right))
    if type(left) is not Associative:
        return [*left, *right]
    return Associative((left.by_key() | {left.key(item): item for item in right}).values(), left.key)


def _add_times(left: Any, right: Any) -> Any:
    if type(left) in DURATION_TYPES and type(right) in DURATION_TYPES:
        return compute_duration(lambda: duration_from_nanoseconds(nanoseconds(left) + nanoseconds(right)))
    if {type(left) in DURATION_TYPES, type(right) in DURATION_TYPES} == {True, False} and type(right) in _TIMES:
        return compute_timestamp(lambda: timestamp_from_nanoseconds(nanoseconds(left) + nanoseconds(right)))
    raise no_operator_error("+", left, right)


def concatenate(meter: Meter, *parts: str) -> str:
    """Return the result of a chain of `+` with a text among the operands.

    If a part is not a text, the function may raise any exception. Then the caller must run the exact evaluator.
    """
    meter.produce(sum(map(len, parts)))
    return "".join(parts)


def subtract(left: Any, right: Any) -> Any:
    """Return the difference of two numbers of one type, or of timestamps and durations.

    Raises: EvaluationError for other operands, and for a result out of range.
    """
    if type(left) in _TIMES:
        return _subtract_times(left, right)
    return _compute_numbers("-", operator.sub, left, right)


def _subtract_times(left: Any, right: Any) -> Any:
    if type(right) not in _TIMES or (type(left) in DURATION_TYPES and type(right) in TIMESTAMP_TYPES):
        raise no_operator_error("-", left, right)
    if type(left) in TIMESTAMP_TYPES and type(right) in DURATION_TYPES:
        return compute_timestamp(lambda: timestamp_from_nanoseconds(nanoseconds(left) - nanoseconds(right)))
    return compute_duration(lambda: duration_from_nanoseconds(nanoseconds(left) - nanoseconds(right)))


def multiply(left: Any, right: Any) -> Any:
    """Return the product of two numbers of one type.

    Raises: EvaluationError for other operands, and for a result out of range.
    """
    return _compute_numbers("*", operator.mul, left, right)


def divide(left: Any, right: Any) -> Any:
    """Return the quotient. Integers truncate towards zero. Doubles follow IEEE 754.

    Raises: EvaluationError for other operands, and for an integer divided by zero.
    """
    kind = type(left)
    if kind is not type(right) or kind not in NUMBERS:
        raise no_operator_error("/", left, right)
    if kind is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    return UInt(quotient) if kind is UInt else check_int_range(quotient if (left < 0) is (right < 0) else -quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Any, right: Any) -> Any:
    """Return the remainder of two integers, with the sign of the dividend.

    Raises: EvaluationError for other operands, doubles included, and for a division by zero.
    """
    kind = type(left)
    if kind is not type(right) or kind not in (int, UInt):
        raise no_operator_error("%", left, right)
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow (int is 64 bits)")
    remainder = abs(int(left)) % abs(int(right))
    return UInt(remainder) if kind is UInt else (remainder if left >= 0 else -remainder)


def negate(value: Any) -> Any:
    """Return `-value` of an int or double. Raises: EvaluationError for other types and for the least int."""
    kind = type(value)
    if kind is int:
        return check_int_range(-value)
    if kind is float:
        return -value
    raise NoOverloadError(f"-{type_name(value)}", (value,))


def invert(value: Any) -> bool:
    """Return `!value`. Raises: NoOverloadError if `value` is not a bool."""
    if type(value) is bool:
        return not value
    raise NoOverloadError(f"!{type_name(value)}", (value,))


_COMPARABLE_TYPES: Final = (TIMESTAMP_TYPES, DURATION_TYPES)


def check_sortable(keys: list[Any], meter: Meter, *, alike: Iterable[frozenset[type]] = _COMPARABLE_TYPES) -> None:
    """Pay for sorting `keys`, and check that `keys` have an order.

    Each round of the sort costs units for the characters of all texts, because each comparison starts at the first
    character.

    Args:
        keys: Values of one type, or of types in one set of `alike`.

    Raises: EvaluationError if the keys have no order.
    """
    rounds = len(keys).bit_length()
    meter.spend(len(keys) + sum(len(key) for key in keys if type(key) in _TEXTS) * rounds // _CHARACTERS_PER_UNIT)
    kinds = {type(key) for key in keys}
    if not kinds <= _ORDERED or (len(kinds) > 1 and not any(kinds <= types for types in alike)):
        names = " and ".join(sorted({type_name(key) for key in keys}))
        raise EvaluationError(f"cannot sort by {names}")


# ---- membership


def contains(value: Any, container: Any, meter: Meter) -> bool:
    """Return `value in container`. Raises: NoOverloadError if `container` is neither a list nor a map."""
    if type(container) in LISTS:
        meter.spend(_UNITS_PER_COMPARISON * len(container))
        return any(equal(value, item, meter) for item in container)
    if type(container) in MAPS:
        return lookup(container, value).present if type(value) in KEYS or type(value) is float else False
    raise no_operator_error("in", value, container)


BINARY: Final[dict[str, tuple[Callable[..., Any], bool]]] = {
    "+": (add, True),
    "-": (subtract, False),
    "*": (multiply, False),
    "/": (divide, False),
    "%": (modulo, False),
    "<": (less, True),
    "<=": (less_equal, True),
    ">": (greater, True),
    ">=": (greater_equal, True),
    "==": (equal, True),
    "in": (contains, True),
}
"""The function of each operator, and whether the function accepts the meter as its third argument. `!=` is `!(==)`."""
