"""Well-known types of Protobuf that cel-go's standard environment constructs: `google.protobuf.Int32Value{value: 3}`.

CEL has no values of well-known types. A constructed message is a plain number, text, list, map, timestamp or duration
(CEL language definition, "Protocol Buffer Data Conversion"). Each message is a function of the map of its fields.
Expressions cannot construct messages of other types.
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
from renderer.cel.nanoseconds import duration_from_nanoseconds, timestamp_from_nanoseconds
from renderer.cel.operators import compute_duration, compute_timestamp
from renderer.cel.text_format import seconds_text, timestamp_text
from renderer.cel.values import MAPS, UINT_MAX, UInt, type_name

Fields = dict[str, Any]

CONSTANTS: Final = {"google.protobuf.NullValue.NULL_VALUE": 0}
_MAX_JSON_INTEGER: Final = 2**53 - 1
"""Greatest integer that JSON carries as a number (CEL language definition, "JSON Data Conversion")."""
_BILLION: Final = 10**9


def _typed_field(message: str, fields: Fields, name: str, default: Any) -> Any:
    """Return the value of the field `name`, or `default` if the field is absent.

    Raises: EvaluationError if the value does not have the type of `default`.
    """
    value = fields.get(name, default)
    if type_name(value) != type_name(default):
        raise EvaluationError(f"{message}.{name} must be of type {type_name(default)}, not {type_name(value)}")
    return value


def _check_field_names(message: str, fields: Fields, *names: str) -> None:
    for name in fields:
        if name not in names:
            raise EvaluationError(f"{message} has no field {name!r}, only {', '.join(names)}")


def _register_wrapper(name: str, default: Any, check: Callable[[Any], Any]) -> None:
    message = f"google.protobuf.{name}"

    @overload(f"{message}{{}}(map): {type_name(default)}", namespaced=True)
    def construct(fields: Fields) -> Any:
        _check_field_names(message, fields, "value")
        return check(_typed_field(message, fields, "value", default))


def _keep(value: Any) -> Any:
    return value


def _range_check(low: int, high: int) -> Callable[[int], int]:
    def check(value: int) -> int:
        if low <= value <= high:
            return value
        raise EvaluationError(f"{int(value)} is out of range ({low} to {high})")

    return check


def _round_to_float32(value: float) -> float:
    """Return the 32-bit number nearest to `value`."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


_WRAPPERS: Final[dict[str, tuple[Any, Callable[[Any], Any]]]] = {
    "BoolValue": (False, _keep),
    "BytesValue": (b"", _keep),
    "DoubleValue": (0.0, _keep),
    "FloatValue": (0.0, _round_to_float32),
    "Int32Value": (0, _range_check(-(2**31), 2**31 - 1)),
    "Int64Value": (0, _keep),
    "StringValue": ("", _keep),
    "UInt32Value": (UInt(0), _range_check(0, 2**32 - 1)),
    "UInt64Value": (UInt(0), _range_check(0, UINT_MAX)),
}
for _name, (_default, _check) in _WRAPPERS.items():
    _register_wrapper(_name, _default, _check)


@overload("google.protobuf.Timestamp{}(map): timestamp", namespaced=True)
def timestamp(fields: Fields) -> datetime:
    """Return the timestamp `seconds` seconds and `nanos` nanoseconds after 1970-01-01 00:00 UTC.

    Raises: EvaluationError if the signs differ, `nanos` is a second or more, or the year is not from 1 to 9999.
    """
    nanos = _nanoseconds("google.protobuf.Timestamp", fields)
    return compute_timestamp(lambda: timestamp_from_nanoseconds(nanos))


@overload("google.protobuf.Duration{}(map): duration", namespaced=True)
def duration(fields: Fields) -> timedelta:
    """Return the duration of `seconds` seconds and `nanos` nanoseconds.

    Raises: EvaluationError if the signs differ, `nanos` is a second or more, or the duration is out of range.
    """
    nanos = _nanoseconds("google.protobuf.Duration", fields)
    return compute_duration(lambda: duration_from_nanoseconds(nanos))


def _nanoseconds(message: str, fields: Fields) -> int:
    _check_field_names(message, fields, "seconds", "nanos")
    seconds, nanos = _typed_field(message, fields, "seconds", 0), _typed_field(message, fields, "nanos", 0)
    if not -_BILLION < nanos < _BILLION or seconds * nanos < 0:
        raise EvaluationError(
            f"{message}: {seconds} seconds and {nanos} nanos must have one sign, and nanos must be less than a second"
        )
    return int(seconds * _BILLION + nanos)


@overload("google.protobuf.Struct{}(map): map", namespaced=True)
def struct_value(meter: Meter, fields: Fields) -> Any:
    """Return the map in `fields` as a JSON object."""
    _check_field_names("google.protobuf.Struct", fields, "fields")
    return _to_json_value(meter, _typed_field("google.protobuf.Struct", fields, "fields", {}))


@overload("google.protobuf.ListValue{}(map): list", namespaced=True)
def list_value(meter: Meter, fields: Fields) -> Any:
    """Return the list in `values` as a JSON list."""
    _check_field_names("google.protobuf.ListValue", fields, "values")
    return _to_json_value(meter, _typed_field("google.protobuf.ListValue", fields, "values", []))


_VALUE_DEFAULTS: Final[dict[str, Any]] = {
    "null_value": 0,
    "number_value": 0.0,
    "string_value": "",
    "bool_value": False,
    "struct_value": {},
    "list_value": [],
}


@overload("google.protobuf.Value{}(map): dyn", namespaced=True)
def value(meter: Meter, fields: Fields) -> Any:
    """Return the JSON value of the field that the message contains.

    Protobuf accepts one field only. If the message contains several fields, the last field takes precedence.
    """
    _check_field_names("google.protobuf.Value", fields, *_VALUE_DEFAULTS)
    if not fields:
        return None
    name = next(reversed(fields))
    content = _typed_field("google.protobuf.Value", fields, name, _VALUE_DEFAULTS[name])
    return None if name == "null_value" else _to_json_value(meter, content)


def _to_json_value(meter: Meter, content: Any) -> Any:
    """Return `content` as JSON. Return an integer as a double, or as text if other readers of JSON could round it."""
    if type(content) in MAPS:
        meter.spend(2 * len(content))
        if any(type(key) is not str for key in content):
            raise EvaluationError("google.protobuf.Struct: the keys must be strings")
        return {key: _to_json_value(meter, item) for key, item in content.items()}
    match content:
        case None | bool() | float() | str():
            return content
        case int():
            return float(content) if abs(content) <= _MAX_JSON_INTEGER else str(int(content))
        case list():
            meter.spend(2 * len(content))
            return [_to_json_value(meter, item) for item in content]
        case bytes():
            meter.produce(len(content) * 4 // 3)
            return base64.b64encode(content).decode()
        case datetime():
            return timestamp_text(content)
        case timedelta():
            return seconds_text(content)
    raise EvaluationError(f"{type_name(content)} is not a JSON value")
