"""Conversion of an expression's value to plain JSON (kro: "result conversion").

An empty optional becomes null, a timestamp becomes text in RFC 3339 format, and a duration becomes text in Go's format.
Whole doubles in the range of an int become ints, because Go writes whole doubles without a fraction. Bytes, unsigned
numbers above 2**63-1, numbers that JSON cannot express, and maps with keys that are not strings are errors. The result
shares no list and no map with the value.
"""

from __future__ import annotations

import base64
import math
from datetime import datetime, timedelta
from typing import Any

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.text_format import duration_text, timestamp_text
from renderer.cel.values import INT_MAX, INT_MIN, LISTS, OMIT, MixedMap, Omit, Optional, UInt, type_name
from renderer.phrasing import with_article


def to_json(value: Any, *, expression: str = "", meter: Meter | None = None) -> Any:
    """Return a new JSON value for `value`.

    Args:
        expression: Text of the expression, for messages.

    Raises: ExpressionError if `value` has no form in JSON or exceeds the budget.
    """
    try:
        return to_plain(value, meter or Meter())
    except EvaluationError as fault:
        raise fault.as_error(expression) from None


def encode_bytes(value: Any) -> Any:
    """Return `value` with bytes as base64 text, for fields whose schema has the format `byte`."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {key: encode_bytes(item) for key, item in value.items()}
        case list():
            return [encode_bytes(item) for item in value]
        case Optional(present=True):
            return encode_bytes(value.value)
    return value


def to_plain(value: Any, meter: Meter) -> Any:
    """Return a new JSON value for `value`, and pay for each element.

    Each occurrence of an element costs units, because a small value may contain the same list a million times.

    Raises: EvaluationError if `value` has no form in JSON or exceeds the budget.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is dict:
        meter.spend(2 * len(value))
        return {key: to_plain(item, meter) for key, item in value.items() if item is not OMIT}
    if kind in LISTS:
        meter.spend(2 * len(value))
        return [to_plain(item, meter) for item in value if item is not OMIT]
    return _special_to_plain(value, meter)


def _special_to_plain(value: Any, meter: Meter) -> Any:
    match value:
        case float():
            return _number_to_plain(value)
        case Optional():
            return to_plain(value.value, meter) if value.present else None
        case UInt():
            if value > INT_MAX:
                raise EvaluationError(f"uint {int(value)} is too large for a field (more than 2**63-1)")
            return int(value)
        case datetime():
            return timestamp_text(value)
        case timedelta():
            return duration_text(value)
        case bytes():
            raise EvaluationError("bytes cannot be a field; use base64.encode(...) or string(...)")
        case Omit():
            raise EvaluationError("omit() drops a whole field; do not use omit() inside another value")
        case MixedMap():
            raise EvaluationError("the keys of a map must be strings; use string(...)")
    raise EvaluationError(f"{with_article(type_name(value))} cannot be a field; use string(...) or one of its methods")


def _number_to_plain(value: float) -> int | float:
    if not math.isfinite(value):
        raise EvaluationError(f"{value} cannot be a field: JSON has no such number")
    return int(value) if value.is_integer() and INT_MIN <= value <= INT_MAX else value
