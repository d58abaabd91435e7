"""Conversion of values to text in Go's formats, for CEL's `string()` and for times and durations in rendered fields."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from renderer.cel.nanoseconds import nanoseconds

_NANOSECONDS_PER_SECOND: Final = 10**9


def double_text(value: float) -> str:
    """Return `string(double)`, Go's shortest 'g' form: `1`, `0.5`, `1e+06`, `1e-07`, `+Inf`, `NaN`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return _format_double(value, range(-4, 6), exponent_digits=2)


def json_double_text(value: float) -> str:
    """Return a finite double in the format of Go's encoding/json (ES6 number format)."""
    return _format_double(value, range(-6, 21), exponent_digits=1)


def _format_double(value: float, positional_exponents: range, *, exponent_digits: int) -> str:
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    digits, exponent = _shortest_digits(value)
    sign = "-" if value < 0 else ""
    if exponent in positional_exponents:
        return sign + _format_positional(digits, exponent)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):0{exponent_digits}d}"


def positional_text(value: float) -> str:
    """Return a finite double without an exponent."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return sign + ("0" if value == 0 else _format_positional(*_shortest_digits(value)))


def _shortest_digits(value: float) -> tuple[str, int]:
    """Return the fewest digits that identify `value`, and the decimal exponent of the first digit."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) - 1 if whole != "0" else -1 - (len(fraction) - len(fraction.lstrip("0")))
    return digits.rstrip("0") or "0", leading + int(exponent or 0)


def _format_positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def timestamp_text(value: datetime) -> str:
    """Return `value` in RFC 3339 format in UTC, with as many fractional digits as needed."""
    moment = value.astimezone(UTC)
    whole = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"
    return f"{whole}{_format_fraction(nanoseconds(value) % _NANOSECONDS_PER_SECOND)}Z"


def seconds_text(value: timedelta) -> str:
    """Return `string(duration)` in seconds: `5400s`, `1.5s`."""
    total = nanoseconds(value)
    whole, fraction = divmod(abs(total), _NANOSECONDS_PER_SECOND)
    return f"{'-' if total < 0 else ''}{whole}{_format_fraction(fraction)}s"


def duration_text(value: timedelta) -> str:
    """Return Go's `Duration.String()`: `1h30m0s`, `1.5s`, `300ms`, `0s`."""
    total = nanoseconds(value)
    sign, nanos = ("-" if total < 0 else ""), abs(total)
    if nanos == 0:
        return "0s"
    for unit, name in ((1, "ns"), (1_000, "µs"), (1_000_000, "ms")):
        if nanos < 1_000 * unit:
            whole, remainder = divmod(nanos, unit)
            return f"{sign}{whole}{_format_fraction(remainder * (_NANOSECONDS_PER_SECOND // unit))}{name}"
    seconds, fraction = divmod(nanos, _NANOSECONDS_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{seconds}{_format_fraction(fraction)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _format_fraction(billionths: int) -> str:
    return f".{billionths:09d}".rstrip("0") if billionths else ""
