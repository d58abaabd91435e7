"""Bodies in Kubernetes' protobuf, which kubectl sends for built-in kinds, as the JSON that they mean.

Only what clients send is read; answers are always JSON, which every client takes. Source: apimachinery
`runtime.Unknown`, `generated.proto` of the API groups, and Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from applier.sandbox.kinds.go_types import FIELDS, INT_OR_STRING, QUANTITY, RAW, TIMES, GoType

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DEEPEST = 100

Object = dict[str, Any]


class UnreadableError(ValueError):
    """Bytes that are no such message, with the reason."""


def read(body: bytes, form: GoType) -> Object:
    """The object of a body, with apiVersion and kind as the client names them. Raises UnreadableError."""
    if not body.startswith(_MAGIC):
        raise UnreadableError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        identity = dict(_fields(envelope.get(1, b"")))
        words = {"apiVersion": identity.get(1, b"").decode(), "kind": identity.get(2, b"").decode()}
        return words | _structure(form, envelope.get(2, b""), 0)
    except (IndexError, struct.error, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnreadableError(f"proto: {error}") from None


def _structure(form: GoType, data: bytes, depth: int) -> Object:
    if depth > _DEEPEST:
        raise UnreadableError("nested too deeply")
    parts = {part.number: part for part in form.parts}
    found: Object = {}
    for number, value in _fields(data):
        part = parts.get(number)
        if part is None:
            continue
        inner = part.form
        if not part.name:
            found |= _structure(inner, value, depth + 1)
        elif inner.type == "array" and inner.items:
            found.setdefault(part.name, []).extend(_items(inner.items, value, depth))
        elif inner.type == "object" and not inner.parts and inner.items:
            entry = dict(_fields(value))
            found.setdefault(part.name, {})[entry.get(1, b"").decode()] = _value(inner.items, entry.get(2), depth)
        else:
            found[part.name] = _value(inner, value, depth)
    return found


def _items(form: GoType, value: Any, depth: int) -> Iterator[Any]:
    """One item, or several numbers in one field."""
    if form.type == "integer" and isinstance(value, bytes):
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            yield _signed(number)
    else:
        yield _value(form, value, depth)


def _value(form: GoType, value: Any, depth: int) -> Any:
    if form.parts:
        return _structure(form, value or b"", depth + 1)
    match form.type:
        case "string" if form.schema.get("format") == "byte":
            return base64.b64encode(value or b"").decode()
        case "string":
            return (value or b"").decode()
        case "integer":
            return _signed(value or 0)
        case "boolean":
            return bool(value)
        case "number":
            return struct.unpack("<d", value)[0]
        case "array" if form.items:
            return [_value(form.items, item, depth) for number, item in _fields(value or b"") if number == 1]
        case kind:
            return _single(kind, dict(_fields(value or b"")))


def _single(kind: str, message: dict[int, Any]) -> Any:
    """A message that stands for a single value."""
    match kind:
        case _ if kind == QUANTITY:
            return message.get(1, b"").decode()
        case _ if kind == INT_OR_STRING:
            return message.get(3, b"").decode() if message.get(1) else _signed(message.get(2, 0))
        case _ if kind in TIMES and message:
            time = _EPOCH + timedelta(seconds=_signed(message.get(1, 0)), microseconds=message.get(2, 0) // 1000)
            return time.isoformat()
        case _ if kind in TIMES:
            return None
        case _ if kind in (RAW, FIELDS):
            return orjson.loads(message[1]) if message.get(1) else None
        case _:
            raise UnreadableError("what has no structure is read as JSON only")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of the fields of a message: whole numbers, or bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, position = _varint(data, position)
            case 5:
                size = 4
            case other:
                raise UnreadableError(f"illegal wireType {other}")
        if position + size > len(data):
            raise UnreadableError("unexpected EOF")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place after it."""
    found = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, position
    raise UnreadableError("integer overflow")


def _signed(number: int) -> int:
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number
