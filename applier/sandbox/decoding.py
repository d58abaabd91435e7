"""Content of built-in kinds read by their published schemas, as the server's typed decoder reads it.

Unknown fields are dropped and listed, nulls are absent, empty lists and maps that nothing requires are absent, a value
of another type is a mistake that nothing survives. Source: the OpenAPI documents that the API server publishes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from applier.sandbox.metadata import go_kind

Schema = Mapping[str, Any]

_GO = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool", "array": "slice"}
_INT32 = range(-(2**31), 2**31)


class MisfitError(Exception):
    """A value that cannot be read, in the words of the decoder."""


class Decoder:
    """Reads the objects of one kind; `definitions` is what the `$ref`s of its schema name, by their last part."""

    def __init__(self, kind: str, definitions: Mapping[str, Schema]) -> None:
        self._kind = kind
        self._definitions = definitions

    def resolve(self, schema: Schema) -> Schema:
        """A schema itself, where it only refers to it."""
        if "$ref" in schema:
            return self._definitions[schema["$ref"].rpartition("/")[2]]
        parts = schema.get("allOf")
        return self.resolve(parts[0]) if parts and len(parts) == 1 else schema

    def read(self, schema: Schema, value: Any, path: str, unknown: list[str]) -> Any:
        """The value as read; paths of dropped fields are added to `unknown`. Raises MisfitError."""
        schema = self.resolve(schema)
        match schema.get("type"):
            case "object":
                return self._object(schema, value, path, unknown)
            case "array":
                if not isinstance(value, list):
                    raise self._misfit(value, path, "slice")
                items = schema.get("items", {})
                return [self.read(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
            case None:
                return self._open(schema, value, path)
            case kind:
                return self._scalar(kind, schema.get("format", ""), value, path)

    def _object(self, schema: Schema, value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise self._misfit(value, path, "struct" if "properties" in schema else "map[string]string")
        properties, rest = schema.get("properties"), schema.get("additionalProperties")
        if properties is None:
            if not isinstance(rest, Mapping):
                return value
            return {
                name: self.read(rest, "" if item is None else item, f"{path}.{name}" if path else name, unknown)
                for name, item in value.items()
                if item is not None or self.resolve(rest).get("type") == "string"
            }
        found: dict[str, Any] = {}
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            field = properties.get(name)
            if field is None:
                unknown.append(place)
            elif item is not None:
                read = self.read(field, item, place, unknown)
                if read not in ([], {}) or not self._is_container(field) or name in schema.get("required", ()):
                    found[name] = read
        return found

    def _is_container(self, schema: Schema) -> bool:
        """A list, or a map of any members: the server leaves it out when it is empty."""
        schema = self.resolve(schema)
        return schema.get("type") == "array" or (schema.get("type") == "object" and "additionalProperties" in schema)

    def _open(self, schema: Schema, value: Any, path: str) -> Any:
        """Quantities and int-or-string have alternatives, JSON has no schema at all."""
        if "oneOf" not in schema:
            return value
        kinds = {option.get("type") for option in schema["oneOf"]}
        fits = (
            isinstance(value, str)
            or (type(value) is int and kinds & {"integer", "number"})
            or (type(value) is float and "number" in kinds)
        )
        if not fits:
            raise self._misfit(value, path, "string")
        return value

    def _scalar(self, kind: str, form: str, value: Any, path: str) -> Any:
        match kind, value:
            case ("string", str()) | ("boolean", bool()):
                if form == "byte":
                    self._check_base64(value)
                return value
            case "integer", int() if not isinstance(value, bool):
                if form == "int32" and value not in _INT32:
                    raise MisfitError(
                        f"json: cannot unmarshal number {value} into Go struct field {self._place(path)} of type int32"
                    )
                return value
            case "number", int() | float() if not isinstance(value, bool):
                return value
        raise self._misfit(value, path, "int32" if form == "int32" else _GO[kind])

    def _check_base64(self, value: str) -> None:
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            good = len(value) - len(value.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
            raise MisfitError(f"illegal base64 data at input byte {good}") from None

    def _misfit(self, value: Any, path: str, wanted: str) -> MisfitError:
        place = self._place(path)
        return MisfitError(f"json: cannot unmarshal {go_kind(value)} into Go struct field {place} of type {wanted}")

    def _place(self, path: str) -> str:
        return f"{self._kind}.{path}"
