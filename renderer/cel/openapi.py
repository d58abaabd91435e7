"""Conversion between OpenAPI v3 schemas and static types, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from renderer.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    Dyn,
    Record,
    Scalar,
    StaticList,
    StaticMap,
    StaticOptional,
    Type,
)

Schema = Mapping[str, Any]

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_FORMATS: Final = {"byte": BYTES, "date-time": Scalar("timestamp"), "duration": Scalar("duration")}
_NAMES: Final = {
    "bool": "boolean",
    **dict.fromkeys(("int", "uint"), "integer"),
    "double": "number",
    **dict.fromkeys(("string", "bytes", "timestamp", "duration"), "string"),
}


class SchemaTypeReader:
    """Reader of the schemas of one document.

    Schemas are large and recursive, and expressions use few fields. Therefore the reader reads the type of a field at
    the first use of the field.

    Args:
        definitions: Targets of the document's `$ref`s, by the last part of the reference.
    """

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._types_by_name: dict[str, Type] = {}

    def read_type(self, schema: Any) -> Type:
        """Return the type that `schema` declares, or `DYN` if `schema` leaves the type open.

        In CEL, texts of some formats are values of other types, such as timestamps (see
        `renderer.template.typed_views`). A date stays text, because a timestamp would render as a different text.

        Source: Kubernetes documentation, "Common Expression Language", type integration.
        """
        match schema:
            case {"$ref": str(reference)} | {"allOf": [{"$ref": str(reference)}]}:
                return self._resolve_reference(reference.rpartition("/")[2])
            case {"x-kubernetes-int-or-string": True} | {"format": "int-or-string"}:
                return Dyn(frozenset(("integer", "string")))
            case {"type": "object"}:
                return self._read_object(schema)
            case {"type": "array"}:
                return StaticList(self.read_type(schema.get("items")))
            case {"type": "string"}:
                return _FORMATS.get(str(schema.get("format")), STRING)
            case {"type": ("boolean" | "integer" | "number") as name}:
                return _SCALARS[name]
            case {"oneOf": list(choices)} | {"anyOf": list(choices)}:
                names = [choice.get("type") if isinstance(choice, Mapping) else None for choice in choices]
                return DYN if None in names else Dyn(frozenset(map(str, names)))
        return DYN

    def _resolve_reference(self, name: str) -> Type:
        if name not in self._types_by_name:
            self._types_by_name[name] = self.read_type(self._definitions.get(name))
        return self._types_by_name[name]

    def _read_object(self, schema: Schema) -> Type:
        additional = schema.get("additionalProperties")
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and (properties or not (additional or schema.get(_OPEN))):
            return Record(LazyProperties(properties, self), open=bool(schema.get(_OPEN)) or bool(additional))
        return (
            StaticMap(STRING, self.read_type(additional))
            if isinstance(additional, Mapping)
            else Dyn(frozenset(("object",)))
        )


class LazyProperties(Mapping[str, Type]):
    """Types of a schema's properties, each read at its first use."""

    def __init__(self, properties: Mapping[str, Any], reader: SchemaTypeReader) -> None:
        self._properties = properties
        self._reader = reader
        self._types: dict[str, Type] = {}

    def __getitem__(self, name: str) -> Type:
        if name not in self._types:
            self._types[name] = self._reader.read_type(self._properties[name])
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._properties)

    def __len__(self) -> int:
        return len(self._properties)


def from_openapi(schema: Any) -> Type:
    """Return the type that `schema` declares, as `SchemaTypeReader.read_type` does.

    Args:
        schema: A schema without references.
    """
    return SchemaTypeReader({}).read_type(schema)


def to_openapi(kind: Type, enclosing: tuple[Record, ...] = ()) -> dict[str, Any]:
    """Return a structural schema for values of the type `kind` as JSON.

    The schema of an unknown type accepts all values. If a record contains itself, the schema of the inner record
    accepts any object, so that the recursion ends. An optional counts as its value (kro, "Type checking").

    Args:
        enclosing: The records around `kind`.
    """
    match kind:
        case StaticOptional(value=value):
            return to_openapi(value, enclosing)
        case Scalar(name=name) if name in _NAMES:
            return {"type": _NAMES[name]}
        case StaticList(element=element):
            return {"type": "array", "items": to_openapi(element, enclosing)}
        case StaticMap(key=key, value=value) if key in (STRING, DYN) and value != DYN:
            return {"type": "object", "additionalProperties": to_openapi(value, enclosing)}
        case Record(fields=fields, open=is_open) if fields and not any(kind is outer for outer in enclosing):
            properties = {name: to_openapi(field, (*enclosing, kind)) for name, field in fields.items()}
            return {"type": "object", "properties": properties, **({_OPEN: True} if is_open else {})}
        case StaticMap() | Record():
            return {"type": "object", _OPEN: True}
        case Dyn(only=only) if len(only) == 1:
            (name,) = only
            return {"type": name, **({_OPEN: True} if name == "object" else {})}
    return {_OPEN: True}
