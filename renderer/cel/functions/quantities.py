"""Kubernetes quantities (`500Mi`, `1.5`, `250m`, `1e3`). Held in billionths, the finest that Kubernetes keeps."""

from __future__ import annotations

import math
from typing import Final

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.values import INT_MAX, INT_MIN, register_type
from renderer.frozen import dataclass
from renderer.quantity import parse_nanos

_BILLION: Final = 10**9


@dataclass(frozen=True, slots=True)
class Quantity:
    nanos: int


register_type(Quantity, "kubernetes.Quantity", "quantity")


@overload("quantity(string): quantity")
def quantity(text: str) -> Quantity:
    amount = parse_nanos(text)
    if amount is None:
        raise EvaluationError(f"{text!r} is not a quantity; write for instance 500Mi, 1.5 or 250m")
    return Quantity(amount)


@overload("isQuantity(string): bool")
def is_quantity(text: str) -> bool:
    return parse_nanos(text) is not None


@overload("quantity.sign(): int", "sign(quantity): int")
def sign(value: Quantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


@overload("quantity.isInteger(): bool")
def is_integer(value: Quantity) -> bool:
    return value.nanos % _BILLION == 0 and INT_MIN <= value.nanos // _BILLION <= INT_MAX


@overload("quantity.asInteger(): int")
def as_integer(value: Quantity) -> int:
    if not is_integer(value):
        raise EvaluationError("asInteger: the quantity is not a whole number of 64 bits")
    return value.nanos // _BILLION


@overload("quantity.asApproximateFloat(): double")
def as_approximate_float(value: Quantity) -> float:
    try:
        return value.nanos / _BILLION
    except OverflowError:
        return math.inf if value.nanos > 0 else -math.inf


@overload("quantity.add(quantity): quantity", "quantity.add(int): quantity")
def add(value: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(value.nanos + _nanos_of(other))


@overload("quantity.sub(quantity): quantity", "quantity.sub(int): quantity")
def subtract(value: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(value.nanos - _nanos_of(other))


def _nanos_of(value: Quantity | int) -> int:
    return value.nanos if isinstance(value, Quantity) else value * _BILLION


@overload("quantity.compareTo(quantity): int")
def compare_to(value: Quantity, other: Quantity) -> int:
    return (value.nanos > other.nanos) - (value.nanos < other.nanos)


@overload("quantity.isLessThan(quantity): bool")
def is_less_than(value: Quantity, other: Quantity) -> bool:
    return value.nanos < other.nanos


@overload("quantity.isGreaterThan(quantity): bool")
def is_greater_than(value: Quantity, other: Quantity) -> bool:
    return value.nanos > other.nanos
