"""Protobuf's well-known types, which cel-go's standard environment can construct: `google.protobuf.Int32Value{value: 3}`.

CEL has no values of these types; what is constructed is a plain number, text, list, map, timestamp or duration (CEL
language definition, "Protocol Buffer Data Conversion"). A message is a function of the map of its fields. Other
messages do not exist here.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.nanoseconds import instant, span
from renderer.cel.operators import bounded_duration, bounded_time
from renderer.cel.text_format import seconds_text, timestamp_text
from renderer.cel.values import MAPS, UINT_MAX, UInt, type_name

Fields = dict[str, Any]

CONSTANTS: Final = {"google.protobuf.NullValue.NULL_VALUE": 0}
_EXACT: Final = 2**53
_BILLION: Final = 10**9


def _field(message: str, fields: Fields, name: str, default: Any) -> Any:
    """The value of a field, which must have the type of its default."""
    value = fields.get(name, default)
    if type_name(value) != type_name(default):
        raise EvaluationError(f"{message}.{name} is {type_name(default)}, not {type_name(value)}")
    return value


def _only(message: str, fields: Fields, *names: str) -> None:
    for name in fields:
        if name not in names:
            raise EvaluationError(f"{message} has no field {name!r}, only {', '.join(names)}")


def _wrapper(name: str, default: Any, check: Callable[[Any], Any] = lambda value: value) -> None:
    message = f"google.protobuf.{name}"

    @overload(f"{message}{{}}(map): {type_name(default)}", namespaced=True)
    def construct(fields: Fields) -> Any:
        _only(message, fields, "value")
        return check(_field(message, fields, "value", default))


def _within(low: int, high: int) -> Callable[[int], int]:
    def check(value: int) -> int:
        if low <= value <= high:
            return value
        raise EvaluationError(f"{int(value)} is out of range ({low} to {high})")

    return check


def _single(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


_wrapper("BoolValue", False)
_wrapper("BytesValue", b"")
_wrapper("DoubleValue", 0.0)
_wrapper("FloatValue", 0.0, _single)
_wrapper("Int32Value", 0, _within(-(2**31), 2**31 - 1))
_wrapper("Int64Value", 0)
_wrapper("StringValue", "")
_wrapper("UInt32Value", UInt(0), _within(0, 2**32 - 1))
_wrapper("UInt64Value", UInt(0), _within(0, UINT_MAX))


@overload("google.protobuf.Timestamp{}(map): timestamp", namespaced=True)
def timestamp(fields: Fields) -> datetime:
    nanos = _nanoseconds("google.protobuf.Timestamp", fields)
    return bounded_time(lambda: instant(nanos))


@overload("google.protobuf.Duration{}(map): duration", namespaced=True)
def duration(fields: Fields) -> timedelta:
    nanos = _nanoseconds("google.protobuf.Duration", fields)
    return bounded_duration(lambda: span(nanos))


def _nanoseconds(message: str, fields: Fields) -> int:
    _only(message, fields, "seconds", "nanos")
    seconds, nanos = _field(message, fields, "seconds", 0), _field(message, fields, "nanos", 0)
    if not -_BILLION < nanos < _BILLION or seconds * nanos < 0:
        raise EvaluationError(f"{message}: {seconds} seconds and {nanos} nanos do not go together")
    return int(seconds * _BILLION + nanos)


@overload("google.protobuf.Struct{}(map): map", namespaced=True)
def structure(meter: Meter, fields: Fields) -> Any:
    _only("google.protobuf.Struct", fields, "fields")
    return _json(meter, _field("google.protobuf.Struct", fields, "fields", {}))


@overload("google.protobuf.ListValue{}(map): list", namespaced=True)
def list_value(meter: Meter, fields: Fields) -> Any:
    _only("google.protobuf.ListValue", fields, "values")
    return _json(meter, _field("google.protobuf.ListValue", fields, "values", []))


_KINDS: Final[dict[str, Any]] = {
    "null_value": 0,
    "number_value": 0.0,
    "string_value": "",
    "bool_value": False,
    "struct_value": {},
    "list_value": [],
}


@overload("google.protobuf.Value{}(map): dyn", namespaced=True)
def value(meter: Meter, fields: Fields) -> Any:
    """Of several fields, which exclude each other in protobuf, the last one counts."""
    _only("google.protobuf.Value", fields, *_KINDS)
    if not fields:
        return None
    name = next(reversed(fields))
    held = _field("google.protobuf.Value", fields, name, _KINDS[name])
    return None if name == "null_value" else _json(meter, held)


def _json(meter: Meter, held: Any) -> Any:
    """A value as JSON has it: numbers are doubles, or text where a double is not exact."""
    if type(held) in MAPS:
        meter.spend(2 * len(held))
        if any(type(key) is not str for key in held):
            raise EvaluationError("google.protobuf.Struct: the keys must be strings")
        return {key: _json(meter, item) for key, item in held.items()}
    match held:
        case None | bool() | float() | str():
            return held
        case int():
            return float(held) if -_EXACT <= held <= _EXACT else str(int(held))
        case list():
            meter.spend(2 * len(held))
            return [_json(meter, item) for item in held]
        case bytes():
            meter.produce(len(held) * 4 // 3)
            return base64.b64encode(held).decode()
        case datetime():
            return timestamp_text(held)
        case timedelta():
            return seconds_text(held)
    raise EvaluationError(f"{type_name(held)} is no JSON value")
