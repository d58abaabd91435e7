"""Kubernetes quantities (`500Mi`, `1.5`, `250m`, `1e3`). Held in billionths, the finest that Kubernetes keeps."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from renderer.cel.faults import Fault
from renderer.cel.functions.table import overload
from renderer.cel.values import INT_MAX, INT_MIN, register_type

_BILLION: Final = 10**9
_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<power>[+-]?[0-9]{1,3}))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Quantity:
    nanos: int


register_type(Quantity, "kubernetes.Quantity", "quantity")


def parse(text: str) -> Quantity | None:
    """None for text that is not a quantity. Finer than a billionth rounds away from zero (k8s.io/apimachinery,
    `resource.ParseQuantity`).
    """
    found = _PATTERN.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    whole, fraction = found["whole"], found["fraction"] or ""
    if not whole and not fraction:
        return None
    suffix, power = found["suffix"] or "", int(found["power"] or 0)
    numerator = int(whole + fraction or "0") * (1 << _BINARY.get(suffix, 0)) * _BILLION
    shift = _DECIMAL.get(suffix, 0) + power - len(fraction)
    scaled = numerator * 10**shift if shift >= 0 else -(-numerator // 10**-shift)
    return Quantity(-scaled if found["sign"] == "-" else scaled)


@overload("quantity(string): quantity")
def quantity(text: str) -> Quantity:
    found = parse(text)
    if found is None:
        raise Fault(f"{text!r} is not a quantity; write for instance 500Mi, 1.5 or 250m")
    return found


@overload("isQuantity(string): bool")
def is_quantity(text: str) -> bool:
    return parse(text) is not None


@overload("quantity.sign(): int", "sign(quantity): int")
def sign(value: Quantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


@overload("quantity.isInteger(): bool")
def is_integer(value: Quantity) -> bool:
    return value.nanos % _BILLION == 0 and INT_MIN <= value.nanos // _BILLION <= INT_MAX


@overload("quantity.asInteger(): int")
def as_integer(value: Quantity) -> int:
    if not is_integer(value):
        raise Fault("asInteger: the quantity is not a whole number of 64 bits")
    return value.nanos // _BILLION


@overload("quantity.asApproximateFloat(): double")
def as_approximate_float(value: Quantity) -> float:
    try:
        return value.nanos / _BILLION
    except OverflowError:
        return math.inf if value.nanos > 0 else -math.inf


@overload("quantity.add(quantity): quantity", "quantity.add(int): quantity")
def add(value: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(value.nanos + _nanos(other))


@overload("quantity.sub(quantity): quantity", "quantity.sub(int): quantity")
def subtract(value: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(value.nanos - _nanos(other))


def _nanos(value: Quantity | int) -> int:
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
