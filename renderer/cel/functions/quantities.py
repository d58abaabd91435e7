"""Kubernetes quantities (`500Mi`, `1.5`, `250m`, `1e3`) in billionths, the finest unit that Kubernetes keeps."""

from __future__ import annotations

import math
from typing import Final

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.values import INT_MAX, INT_MIN, register_type
from renderer.frozen import dataclass
from renderer.quantity import parse_nanos

_BILLION: Final = 10**9


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity."""

    nanos: int
    """The quantity in billionths."""


register_type(Quantity, "kubernetes.Quantity", "quantity")


@overload("quantity(string): quantity")
def quantity(text: str) -> Quantity:
    """Return the quantity that `text` names, such as `500Mi`. Raises: EvaluationError for any other text."""
    amount = parse_nanos(text)
    if amount is None:
        raise EvaluationError(f"{text!r} is not a quantity; write a quantity such as 500Mi, 1.5 or 250m")
    return Quantity(amount)


@overload("quantity.isInteger(): bool")
def is_integer(value: Quantity) -> bool:
    """Return whether `value` is a whole number that fits into an int of 64 bits."""
    return value.nanos % _BILLION == 0 and INT_MIN <= value.nanos // _BILLION <= INT_MAX


@overload("quantity.asInteger(): int")
def as_integer(value: Quantity) -> int:
    """Return `value` as an int. Raises: EvaluationError if `value.isInteger()` is false."""
    if not is_integer(value):
        raise EvaluationError("asInteger: the quantity is not a whole number of 64 bits")
    return value.nanos // _BILLION


@overload("quantity.asApproximateFloat(): double")
def as_approximate_float(value: Quantity) -> float:
    """Return the double nearest to `value`, or an infinity if `value` is too large."""
    try:
        return value.nanos / _BILLION
    except OverflowError:
        return math.inf if value.nanos > 0 else -math.inf


overload_each(
    {
        "isQuantity(string): bool": lambda text: parse_nanos(text) is not None,
        "quantity.sign(): int": lambda value: (value.nanos > 0) - (value.nanos < 0),
        "sign(quantity): int": lambda value: (value.nanos > 0) - (value.nanos < 0),
        "quantity.add(quantity): quantity": lambda value, other: Quantity(value.nanos + other.nanos),
        "quantity.add(int): quantity": lambda value, whole: Quantity(value.nanos + whole * _BILLION),
        "quantity.sub(quantity): quantity": lambda value, other: Quantity(value.nanos - other.nanos),
        "quantity.sub(int): quantity": lambda value, whole: Quantity(value.nanos - whole * _BILLION),
        "quantity.compareTo(quantity): int": lambda value, other: (
            (value.nanos > other.nanos) - (value.nanos < other.nanos)
        ),
        "quantity.isLessThan(quantity): bool": lambda value, other: value.nanos < other.nanos,
        "quantity.isGreaterThan(quantity): bool": lambda value, other: value.nanos > other.nanos,
    }
)
