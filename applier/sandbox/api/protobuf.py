"""Decoding of Kubernetes protobuf to JSON objects.

kubectl sends objects of built-in kinds in protobuf. The module decodes request bodies only. Responses are always JSON,
which every client accepts.

Source: apimachinery `runtime.Unknown`, `generated.proto` of the API groups, and Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from applier.cluster import Object
from applier.sandbox.kinds.go_types import FIELDS_V1, INT_OR_STRING, QUANTITY, RAW_EXTENSION, TIME_TYPES, GoType

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DEPTH = 100


class ProtobufError(ValueError):
    """Failure to decode bytes that are not a message of the expected type."""


def decode_protobuf(body: bytes, go_type: GoType) -> Object:
    """Return the object in `body`, with the apiVersion and kind that the client sent.

    Raises: ProtobufError if `body` is not a message of the type `go_type`.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(_read_fields(body[len(_MAGIC) :]))
        identity = dict(_read_fields(envelope.get(1, b"")))
        type_meta = {"apiVersion": identity.get(1, b"").decode(), "kind": identity.get(2, b"").decode()}
        return type_meta | _decode_struct(go_type, envelope.get(2, b""), 0)
    except (IndexError, struct.error, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ProtobufError(f"proto: {error}") from None


def _decode_struct(go_type: GoType, data: bytes, depth: int) -> Object:
    if depth > _MAX_DEPTH:
        raise ProtobufError("nested too deeply")
    fields_by_number = {go_field.number: go_field for go_field in go_type.struct_fields}
    obj: Object = {}
    for number, value in _read_fields(data):
        go_field = fields_by_number.get(number)
        if go_field is None:
            continue
        field_type = go_field.go_type
        if not go_field.name:
            obj |= _decode_struct(field_type, value, depth + 1)
        elif field_type.type == "array" and field_type.item_type:
            obj.setdefault(go_field.name, []).extend(_decode_items(field_type.item_type, value, depth))
        elif field_type.type == "object" and not field_type.struct_fields and field_type.item_type:
            entry = dict(_read_fields(value))
            obj.setdefault(go_field.name, {})[entry.get(1, b"").decode()] = _decode_value(
                field_type.item_type, entry.get(2), depth
            )
        else:
            obj[go_field.name] = _decode_value(field_type, value, depth)
    return obj


def _decode_items(go_type: GoType, value: Any, depth: int) -> Iterator[Any]:
    """Yield the item in `value`. If `value` is a packed field, yield each number."""
    if go_type.type == "integer" and isinstance(value, bytes):
        position = 0
        while position < len(value):
            number, position = _read_varint(value, position)
            yield _to_signed(number)
    else:
        yield _decode_value(go_type, value, depth)


def _decode_value(go_type: GoType, value: Any, depth: int) -> Any:
    if go_type.struct_fields:
        return _decode_struct(go_type, value or b"", depth + 1)
    match go_type.type:
        case "string" if go_type.schema.get("format") == "byte":
            return base64.b64encode(value or b"").decode()
        case "string":
            return (value or b"").decode()
        case "integer":
            return _to_signed(value or 0)
        case "boolean":
            return bool(value)
        case "number":
            return struct.unpack("<d", value)[0]
        case "array" if go_type.item_type:
            return [
                _decode_value(go_type.item_type, item, depth)
                for number, item in _read_fields(value or b"")
                if number == 1
            ]
        case kind:
            return _decode_special(kind, dict(_read_fields(value or b"")))


def _decode_special(kind: str, message: dict[int, Any]) -> Any:
    """Return the single value that `message`, a message of type `kind`, represents."""
    match kind:
        case _ if kind == QUANTITY:
            return message.get(1, b"").decode()
        case _ if kind == INT_OR_STRING:
            return message.get(3, b"").decode() if message.get(1) else _to_signed(message.get(2, 0))
        case _ if kind in TIME_TYPES and message:
            time = _EPOCH + timedelta(seconds=_to_signed(message.get(1, 0)), microseconds=message.get(2, 0) // 1000)
            return time.isoformat()
        case _ if kind in TIME_TYPES:
            return None
        case _ if kind in (RAW_EXTENSION, FIELDS_V1):
            return orjson.loads(message[1]) if message.get(1) else None
        case _:
            raise ProtobufError("protobuf cannot represent a value without a structure; send the object as JSON")


def _read_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field in the message `data`. Each value is an integer or bytes."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        match tag & 7:
            case 0:
                value, position = _read_varint(data, position)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, position = _read_varint(data, position)
            case 5:
                size = 4
            case other:
                raise ProtobufError(f"illegal wireType {other}")
        if position + size > len(data):
            raise ProtobufError("unexpected EOF")
        yield tag >> 3, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at `position` in `data`, and the position after the varint.

    A varint is an integer of variable length. Each byte contains seven bits of the integer.
    """
    number = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
    raise ProtobufError("integer overflow")


def _to_signed(number: int) -> int:
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number
