"""Decoding of objects of built-in kinds, with the same result as the server's typed decoder and encoder.

The decoder drops and lists unknown fields. The decoder also drops nulls, and empty values that Go does not write. The
decoder adds missing structures and defaults, and converts quantities and times to a canonical form. A value of the
wrong type is an error.

Source: the OpenAPI documents that the API server publishes, and its types in Go.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

from applier.sandbox.kinds.defaults import DEFAULTS
from applier.sandbox.kinds.go_types import (
    FIELDS_V1,
    INT_OR_STRING,
    QUANTITY,
    RAW_EXTENSION,
    TIME_TYPES,
    GoField,
    GoType,
)
from applier.sandbox.kinds.metadata import go_kind
from renderer import quantity

_GO_TYPE_NAMES = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool", "array": "slice"}
_INT32_RANGE = range(-(2**31), 2**31)


class DecodingError(Exception):
    """Failure to decode a value, with the message of the server's decoder."""


class Decoder:
    """Decoder of the objects of a single kind. Messages of the decoder name the kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def decode(self, go_type: GoType, value: Any, path: str, unknown: list[str]) -> Any:
        """Return `value` in its stored form, and append the paths of dropped fields to `unknown`.

        Raises: DecodingError if a value has the wrong type.
        """
        if go_type.struct_fields:
            return self.decode_struct(go_type, value, path, unknown)
        match go_type.type:
            case "object":
                return self._decode_map(go_type, value, path, unknown)
            case "array":
                if not isinstance(value, list):
                    raise self._type_error(value, path, "slice")
                items = go_type.item_type
                if items is None:
                    return value
                return [self.decode(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
            case kind if kind in _GO_TYPE_NAMES:
                return self._decode_scalar(kind, go_type.schema.get("format", ""), value, path)
            case kind:
                return self._decode_special(kind, value, path)

    def decode_struct(self, go_type: GoType, value: Any, path: str, unknown: list[str]) -> Any:
        """Return the structure `value` with its defaults, decoded by the rules of `decode`.

        Raises: DecodingError if a value has the wrong type.
        """
        if not isinstance(value, dict):
            raise self._type_error(value, path, "struct")
        fields, decoded = go_type.fields, {}
        for name, item in value.items():
            field_path = f"{path}.{name}" if path else name
            field = fields.get(name)
            if field is None:
                unknown.append(field_path)
            elif item is not None:
                decoded_item = self.decode(field.go_type, item, field_path, unknown)
                if decoded_item or (field.presence != "omitempty" and not field.go_type.is_list_or_map):
                    decoded[name] = decoded_item
        for field in go_type.always_written_fields:
            if field.name not in decoded:
                decoded[field.name] = field.default if field.default is not None else self._empty_value(field)
        if change := DEFAULTS.get(go_type.definition):
            change(decoded)
        return decoded

    def _empty_value(self, field: GoField) -> Any:
        if field.presence == "null":
            return None
        return self.decode_struct(field.go_type, {}, "", []) if field.go_type.struct_fields else field.go_type.zero

    def _decode_map(self, go_type: GoType, value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise self._type_error(value, path, "map[string]string" if go_type.item_type else "struct")
        items = go_type.item_type
        if items is None:
            return value
        return {
            name: self.decode(items, "" if item is None else item, f"{path}.{name}" if path else name, unknown)
            for name, item in value.items()
            if item is not None or items.type == "string"
        }

    def _decode_special(self, kind: str, value: Any, path: str) -> Any:
        """Return a quantity or time in canonical form, and any other value unchanged.

        Raises: DecodingError if the value is malformed, or has the wrong type.
        """
        match kind:
            case _ if kind == QUANTITY:
                text = str(value) if type(value) in (int, float) else value
                if not isinstance(text, str):
                    raise self._type_error(value, path, "string")
                if (canonical := quantity.canonicalize(text.strip())) is None:
                    raise DecodingError(
                        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    )
                return canonical
            case _ if kind == INT_OR_STRING:
                return value if type(value) is str else self._decode_scalar("integer", "int32", value, path)
            case _ if kind in TIME_TYPES:
                return self._decode_time(value, path, micro=kind.endswith("MicroTime"))
            case _ if kind in (RAW_EXTENSION, FIELDS_V1) and not isinstance(value, dict):
                raise self._type_error(value, path, "struct")
            case _:
                return value

    def _decode_time(self, value: Any, path: str, *, micro: bool) -> str:
        if not isinstance(value, str):
            raise self._type_error(value, path, "string")
        layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
        try:
            time = datetime.fromisoformat(value)
            if time.tzinfo is None or "T" not in value:
                raise ValueError
            time = time.astimezone(UTC)
        except (ValueError, OverflowError):
            raise DecodingError(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"') from None
        return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")

    def _decode_scalar(self, kind: str, type_format: str, value: Any, path: str) -> Any:
        match kind, value:
            case ("string", str()) | ("boolean", bool()):
                if type_format == "byte":
                    self._check_base64(value)
                return value
            case "integer", int() if not isinstance(value, bool):
                if type_format == "int32" and value not in _INT32_RANGE:
                    go_field = self._go_field_name(path)
                    raise DecodingError(
                        f"json: cannot unmarshal number {value} into Go struct field {go_field} of type int32"
                    )
                return value
            case "number", int() | float() if not isinstance(value, bool):
                return value
        raise self._type_error(value, path, "int32" if type_format == "int32" else _GO_TYPE_NAMES[kind])

    def _check_base64(self, value: str) -> None:
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            valid_length = len(value) - len(
                value.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
            )
            raise DecodingError(f"illegal base64 data at input byte {valid_length}") from None

    def _type_error(self, value: Any, path: str, expected: str) -> DecodingError:
        go_field = self._go_field_name(path)
        return DecodingError(
            f"json: cannot unmarshal {go_kind(value)} into Go struct field {go_field} of type {expected}"
        )

    def _go_field_name(self, path: str) -> str:
        return f"{self._kind}.{path}"
