"""Type conversions (CEL language definition, "List of standard definitions").

The conversions read texts as strictly as Go does.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.nanoseconds import EPOCH, duration_from_nanoseconds, nanoseconds, timestamp_from_nanoseconds
from renderer.cel.operators import check_int_range, check_uint_range, compute_duration, compute_timestamp
from renderer.cel.text_format import double_text, seconds_text, timestamp_text
from renderer.cel.values import TypeValue, UInt, type_of

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_DOUBLE: Final = re.compile(
    r"[+-]?(?P<digits>[0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|infinity)|nan", re.IGNORECASE | re.ASCII
)
_MAX_NUMBER_CHARACTERS: Final = 400
_MAX_TIME_CHARACTERS: Final = 100
_TRUE: Final = frozenset(("1", "t", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "false", "FALSE", "False"))
_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_DURATION: Final = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0)", re.ASCII)
_DURATION_PART: Final = re.compile(r"(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNIT_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


@overload("type(dyn): type")
def type_of_value(value: Any) -> TypeValue:
    """Return the CEL type of `value`."""
    return type_of(value)


@overload("string(string): string", "string(bool): string")
@overload("string(int): string", "string(uint): string", "string(double): string")
@overload("string(bytes): string", "string(timestamp): string", "string(duration): string")
def string(meter: Meter, value: Any) -> str:
    """Return `value` as text: bytes decoded as UTF-8, a timestamp in RFC 3339 format in UTC, a duration in seconds.

    Raises: EvaluationError for bytes that are not UTF-8.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case bytes():
            return _decode(meter, value)
        case datetime():
            return timestamp_text(value)
    return seconds_text(value)


def _decode(meter: Meter, value: bytes) -> str:
    meter.produce(len(value))
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("string(bytes): not UTF-8") from None


@overload("int(int): int", "int(uint): int", "int(double): int", "int(string): int")
@overload("int(timestamp): int", "int(duration): int")
def integer(value: Any) -> int:
    """Return `value` as an int.

    Truncate a double towards zero. Convert a timestamp to seconds after 1970-01-01 00:00 UTC, and, as cel-go does, a
    duration to nanoseconds.

    Raises: EvaluationError if `value` is not a number of 64 bits.
    """
    match value:
        case float():
            return _truncate(value, -(2.0**63), 2.0**63)
        case str():
            return check_int_range(_parse_integer(value, "int"))
        case datetime():
            return (value - EPOCH) // timedelta(seconds=1)
        case timedelta():
            return nanoseconds(value)
    return check_int_range(int(value))


@overload("uint(int): uint", "uint(uint): uint", "uint(double): uint", "uint(string): uint")
def unsigned(value: Any) -> UInt:
    """Return `value` as a uint. Truncate a double towards zero.

    Raises: EvaluationError if `value` is not a number from 0 to 2**64-1.
    """
    match value:
        case float():
            return check_uint_range(_truncate(value, -math.ulp(0.0), 2.0**64))
        case str():
            return check_uint_range(_parse_integer(value, "uint"))
    return check_uint_range(int(value))


def _truncate(value: float, low: float, high: float) -> int:
    if not low < value < high:
        raise EvaluationError(f"{double_text(value)} is out of range")
    return math.trunc(value)


def _parse_integer(text: str, target: str) -> int:
    if not _INTEGER.fullmatch(text) or (target == "uint" and text[0] in "+-"):
        raise EvaluationError(f"{text[:50]!r} is not {'an int' if target == 'int' else 'a uint'}")
    return int(text)


@overload("double(double): double", "double(int): double", "double(uint): double", "double(string): double")
def double(value: Any) -> float:
    """Return `value` as a double. A number that is too close to zero becomes zero.

    Raises: EvaluationError if a text is not a number, or names a number out of range.
    """
    if type(value) is not str:
        return float(value)
    parsed = _DOUBLE.fullmatch(value) if len(value) <= _MAX_NUMBER_CHARACTERS else None
    if parsed is None:
        raise EvaluationError(f"{value[:50]!r} is not a double; write a number such as 1.5")
    number = float(value)
    if parsed["digits"] and math.isinf(number):
        raise EvaluationError(f"{value[:50]!r} is out of range")
    return number


@overload("bool(bool): bool", "bool(string): bool")
def boolean(value: Any) -> bool:
    """Return `value` as a bool.

    Texts such as `true`, `t` and `1` are true. Texts such as `false`, `f` and `0` are false.

    Raises: EvaluationError for any other text.
    """
    if value is True or value in _TRUE:
        return True
    if value is False or value in _FALSE:
        return False
    raise EvaluationError(f"{value[:50]!r} is not a bool; write true or false")


@overload("bytes(bytes): bytes", "bytes(string): bytes")
def to_bytes(meter: Meter, value: Any) -> bytes:
    """Return `value` as bytes. Encode a text as UTF-8."""
    if type(value) is bytes:
        return value
    octets: bytes = value.encode()  # built before the payment, because only the encoder knows the number of bytes
    meter.produce(len(octets))
    return octets


@overload("timestamp(timestamp): timestamp", "timestamp(string): timestamp", "timestamp(int): timestamp")
def timestamp(value: Any) -> datetime:
    """Return `value` as a timestamp. Read a text in RFC 3339 format, and an int as seconds after 1970-01-01 00:00 UTC.

    The function cuts off digits below a nanosecond.

    Raises: EvaluationError for any other text, or if the year is not from 1 to 9999.
    """
    if isinstance(value, datetime):
        return value
    if type(value) is int:
        return compute_timestamp(lambda: EPOCH + timedelta(seconds=value))
    return _parse_timestamp(value)


def _parse_timestamp(text: str) -> datetime:
    parsed = _RFC3339.fullmatch(text) if len(text) <= _MAX_TIME_CHARACTERS else None
    try:
        if parsed is None:
            raise ValueError
        moment = datetime.fromisoformat(f"{parsed[1]}{'+00:00' if parsed[3] == 'Z' else parsed[3]}").astimezone(UTC)
        fraction = (parsed[2] or "")[:9].ljust(9, "0")
        return timestamp_from_nanoseconds(nanoseconds(moment) + int(fraction))
    except (ValueError, OverflowError):
        raise EvaluationError(f"{text[:50]!r} is not a timestamp; write a time such as 2026-01-31T08:00:00Z") from None


@overload("duration(duration): duration", "duration(string): duration")
def duration(value: Any) -> timedelta:
    """Return `value` as a duration. Read a text in Go's format, such as `1h30m`.

    Raises: EvaluationError for any other text.
    """
    if isinstance(value, timedelta):
        return value
    parsed = _DURATION.fullmatch(value) if len(value) <= _MAX_TIME_CHARACTERS else None
    if parsed is None:
        raise EvaluationError(f"{value[:50]!r} is not a duration; write a duration such as 1h30m or 45s")
    length = sum(map(_part_nanoseconds, _DURATION_PART.finditer(parsed[2])))
    return compute_duration(lambda: duration_from_nanoseconds(-length if parsed[1] == "-" else length))


def _part_nanoseconds(part: re.Match[str]) -> int:
    whole, fraction, unit = part[1] or "0", part[2], _UNIT_NANOSECONDS[part[3]]
    return int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
