"""Bytes and text formats: cel-go's encoders, kro's `json` and `hash`.

The module writes JSON with sorted keys and escapes `<`, `>` and `&`. The module reads every number in JSON as a double.
Source: Go's encoding/json.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.text_format import json_double_text
from renderer.cel.to_json import to_plain
from renderer.cel.values import LISTS, Optional, UInt
from renderer.phrasing import mend_surrogates

_GO_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_UNITS_PER_SCALAR: Final = 20
_MAX_JSON_DEPTH: Final = 200


@overload("base64.encode(bytes): string")
def base64_encode(meter: Meter, octets: bytes) -> str:
    """Return `octets` as base64 with padding."""
    meter.produce(len(octets) * 4 // 3)
    return base64.b64encode(octets).decode()


@overload("base64.decode(string): bytes")
def base64_decode(meter: Meter, text: str) -> bytes:
    """Return the bytes of the base64 text `text`. As cel-go does, ignore line breaks and accept missing padding.

    Raises: EvaluationError if `text` is not base64.
    """
    meter.produce(len(text))
    digits = text.replace("\n", "").replace("\r", "")
    padding = "" if digits.endswith("=") else "=" * (-len(digits) % 4)
    try:
        return base64.b64decode(digits + padding, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError("base64.decode: not base64") from None


@overload("json.marshal(dyn): string")
def json_marshal(meter: Meter, value: Any) -> str:
    """Return `value` as JSON with sorted keys, bytes as base64 text, and the escapes of Go's encoding/json.

    Raises: EvaluationError for a key that is not a string, and for a number that JSON cannot express.
    """
    pieces: list[str] = []
    _write(meter, value, pieces)
    meter.check_length(sum(map(len, pieces)))
    return "".join(pieces)


def _write(meter: Meter, value: Any, pieces: list[str]) -> None:
    """Append the text of `value` to `pieces`, and pay for each piece."""
    while type(value) is Optional:
        value = value.value if value.present else None
    if isinstance(value, dict):
        _write_all(
            meter,
            "{",
            [
                (f"{_paid_scalar(meter, key)}:", item)
                for key, item in sorted(_require_text_keys(value), key=itemgetter(0))
            ],
            "}",
            pieces,
        )
    elif type(value) in LISTS:
        _write_all(meter, "[", [("", item) for item in value], "]", pieces)
    else:
        meter.spend(_UNITS_PER_SCALAR)
        pieces.append(_paid_scalar(meter, _to_scalar(meter, value)))


def _write_all(meter: Meter, opening: str, items: list[tuple[str, Any]], closing: str, pieces: list[str]) -> None:
    meter.spend(1 + len(items))
    pieces.append(opening)
    for position, (label, item) in enumerate(items):
        pieces.append(f",{label}" if position else label)
        _write(meter, item, pieces)
    pieces.append(closing)


def _require_text_keys(value: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
    if any(type(key) is not str for key in value):
        raise EvaluationError("json.marshal: the keys of a map must be strings")
    return value.items()


def _to_scalar(meter: Meter, value: Any) -> Any:
    """Return a value that is neither a map nor a list as JSON. As in Go, bytes become base64 text."""
    match value:
        case float():
            return value
        case bytes():
            return base64_encode(meter, value)
        case UInt():
            return int(value)
    return to_plain(value, meter)


def _paid_scalar(meter: Meter, value: Any) -> str:
    text = _scalar(value)
    meter.produce(len(text))
    return text


def _scalar(value: Any) -> str:
    if type(value) is float:
        if not math.isfinite(value):
            raise EvaluationError(f"json.marshal: JSON has no {value}")
        return json_double_text(value)
    return json.dumps(value, ensure_ascii=False).translate(_GO_ESCAPES)


@overload("json.unmarshal(string): dyn")
def json_unmarshal(meter: Meter, text: str) -> Any:
    """Return the value of the JSON text `text`, with every number as a double.

    Raises: EvaluationError if `text` is not JSON, is nested too deeply, or contains a number out of range.
    """
    meter.spend(len(text))
    if _estimate_depth(text) > _MAX_JSON_DEPTH:
        raise EvaluationError(f"json.unmarshal: nested deeper than {_MAX_JSON_DEPTH} levels")
    try:
        value = json.loads(text, parse_int=_parse_number, parse_float=_parse_number, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise EvaluationError(f"json.unmarshal: {error.msg} at character {error.pos + 1}") from None
    return mend_surrogates(value) if "\\u" in text else value


def _estimate_depth(text: str) -> int:
    """Return an upper bound of the nesting depth of the JSON text `text`.

    The bound is the number of opening brackets. If the number exceeds _MAX_JSON_DEPTH, return the exact depth instead.
    """
    brackets = text.count("[") + text.count("{")
    return brackets if brackets <= _MAX_JSON_DEPTH else _measure_depth(text)


def _measure_depth(text: str) -> int:
    depth = max_depth = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            max_depth = max(max_depth, depth)
        elif character in "]}":
            depth -= 1
    return max_depth


def _parse_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise EvaluationError(f"json.unmarshal: {text[:50]} is out of range")
    return number


def _refuse_constant(name: str) -> float:
    raise EvaluationError(f"json.unmarshal: {name} is not JSON")


@overload("hash.fnv64a(string): bytes")
def fnv64a(meter: Meter, text: str) -> bytes:
    """Return the 64-bit FNV-1a hash of the UTF-8 bytes of `text`, in big-endian order."""
    meter.spend(len(text))
    value = _FNV_OFFSET
    for octet in text.encode():
        value = ((value ^ octet) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return value.to_bytes(8, "big")


@overload("hash.sha256(string): bytes")
def sha256(meter: Meter, text: str) -> bytes:
    """Return the SHA-256 digest of the UTF-8 bytes of `text`."""
    meter.read(text)
    return hashlib.sha256(text.encode()).digest()


@overload("hash.md5(string): bytes")
def md5(meter: Meter, text: str) -> bytes:
    """Return the MD5 digest of the UTF-8 bytes of `text`."""
    meter.read(text)
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()
