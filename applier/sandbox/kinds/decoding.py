"""Content of built-in kinds as the server's typed decoder reads it and its encoder writes it again.

Unknown fields are dropped and listed, nulls are absent, what is empty is absent where its structure says so, structures
are there even if nothing of them was given, defaults are filled in, quantities and times are written in one way, a value
of another type is a mistake that nothing survives. Source: the OpenAPI documents that the API server publishes, and its types in Go.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

from applier.sandbox.kinds.defaults import DEFAULTS
from applier.sandbox.kinds.go_types import FIELDS, INT_OR_STRING, QUANTITY, RAW, TIMES, GoField, GoType
from applier.sandbox.kinds.metadata import go_kind
from renderer import quantity

_GO = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool", "array": "slice"}
_INT32 = range(-(2**31), 2**31)


class MisfitError(Exception):
    """A value that cannot be read, in the words of the decoder."""


class Decoder:
    """Reads the objects of one kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def read(self, form: GoType, value: Any, path: str, unknown: list[str]) -> Any:
        """The value as it is stored; paths of dropped fields are added to `unknown`. Raises MisfitError."""
        if form.parts:
            return self.structure(form, value, path, unknown)
        match form.type:
            case "object":
                return self._map(form, value, path, unknown)
            case "array":
                if not isinstance(value, list):
                    raise self._misfit(value, path, "slice")
                items = form.items
                if items is None:
                    return value
                return [self.read(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
            case kind if kind in _GO:
                return self._scalar(kind, form.schema.get("format", ""), value, path)
            case kind:
                return self._value(kind, value, path)

    def structure(self, form: GoType, value: Any, path: str, unknown: list[str]) -> Any:
        """As `read`, of a structure."""
        if not isinstance(value, dict):
            raise self._misfit(value, path, "struct")
        fields, found = form.fields, {}
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            field = fields.get(name)
            if field is None:
                unknown.append(place)
            elif item is not None:
                read = self.read(field.form, item, place, unknown)
                if read or (field.presence != "omitempty" and not field.form.vanishes):
                    found[name] = read
        for field in form.given:
            if field.name not in found:
                found[field.name] = field.default if field.default is not None else self._nothing(field)
        if change := DEFAULTS.get(form.definition):
            change(found)
        return found

    def _nothing(self, field: GoField) -> Any:
        if field.presence == "null":
            return None
        return self.structure(field.form, {}, "", []) if field.form.parts else field.form.zero

    def _map(self, form: GoType, value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise self._misfit(value, path, "map[string]string" if form.items else "struct")
        items = form.items
        if items is None:
            return value
        return {
            name: self.read(items, "" if item is None else item, f"{path}.{name}" if path else name, unknown)
            for name, item in value.items()
            if item is not None or items.type == "string"
        }

    def _value(self, kind: str, value: Any, path: str) -> Any:
        """What is written in one way only, and what may be anything."""
        match kind:
            case _ if kind == QUANTITY:
                text = str(value) if type(value) in (int, float) else value
                if not isinstance(text, str):
                    raise self._misfit(value, path, "string")
                if (found := quantity.canonical(text.strip())) is None:
                    raise MisfitError(
                        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    )
                return found
            case _ if kind == INT_OR_STRING:
                return value if type(value) is str else self._scalar("integer", "int32", value, path)
            case _ if kind in TIMES:
                return self._time(value, path, micro=kind.endswith("MicroTime"))
            case _ if kind in (RAW, FIELDS) and not isinstance(value, dict):
                raise self._misfit(value, path, "struct")
            case _:
                return value

    def _time(self, value: Any, path: str, *, micro: bool) -> str:
        if not isinstance(value, str):
            raise self._misfit(value, path, "string")
        form = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
        try:
            found = datetime.fromisoformat(value)
            if found.tzinfo is None or "T" not in value:
                raise ValueError
            found = found.astimezone(UTC)
        except (ValueError, OverflowError):
            raise MisfitError(f'parsing time "{value}" as "{form}": cannot parse "{value}" as "2006"') from None
        return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")

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
