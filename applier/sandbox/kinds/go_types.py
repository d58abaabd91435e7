"""Go types in which the API server holds objects of built-in kinds.

The types decide which fields the server writes, and how the server reads protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from renderer.builtin_kinds import BuiltinSchemas, Structures
from renderer.frozen import dataclass

Schema = Mapping[str, Any]

_META_PREFIX: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
FIELDS_V1: Final = f"{_META_PREFIX}FieldsV1"
DELETE_OPTIONS: Final = f"{_META_PREFIX}DeleteOptions"
TIME_TYPES: Final = frozenset({f"{_META_PREFIX}Time", f"{_META_PREFIX}MicroTime"})
_SINGLE_VALUE_TYPES: Final = frozenset({QUANTITY, INT_OR_STRING, RAW_EXTENSION, FIELDS_V1, *TIME_TYPES})
"""Definitions that represent a single value, not a structure."""
_ZERO_VALUES: Final[Mapping[str, Any]] = {
    QUANTITY: "0",
    INT_OR_STRING: 0,
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
}
"""Zero value by type. For all other types, the zero value is null."""


@dataclass(frozen=True, slots=True)
class GoField:
    """Field of a Go structure."""

    name: str
    """Name in JSON. If the name is empty, the structure has the fields of `go_type` inline in JSON."""
    number: int
    """Field number in protobuf."""
    presence: str
    """Rule by which the server writes an empty value, defined in `renderer.builtin_kinds`."""
    go_type: GoType
    default: Any = None
    """Scalar default of the field, or None if the field has no default."""


@dataclass(frozen=True)
class GoType:
    """Type of a value: its schema, and the name of the definition if the schema has one."""

    definition: str
    schema: Schema
    _registry: GoTypeRegistry

    @cached_property
    def struct_fields(self) -> Sequence[GoField]:
        """Return the fields of a structure as Go declares them, or no fields for other types."""
        return self._registry.struct_fields(self.definition, self.schema)

    @cached_property
    def fields(self) -> Mapping[str, GoField]:
        """Return the fields that a structure has in JSON, by name, or no fields for other types."""
        return {field.name: field for field in self._iterate_json_fields()}

    def _iterate_json_fields(self) -> Iterator[GoField]:
        for field in self.struct_fields:
            if field.name:
                yield field
            else:
                yield from field.go_type._iterate_json_fields()

    @cached_property
    def always_written_fields(self) -> Sequence[GoField]:
        """Return the fields that the server writes even if the client does not send them."""
        return [
            field for field in self.fields.values() if field.presence in ("always", "null") or field.default is not None
        ]

    @cached_property
    def zero(self) -> Any:
        """Return the value, before defaults, of a field of this type that the client does not send."""
        if not self.struct_fields:
            return _ZERO_VALUES.get(self.type)
        written_fields = [field for field in self.always_written_fields if field.presence in ("always", "null")]
        return {field.name: field.go_type.zero if field.presence == "always" else None for field in written_fields}

    @cached_property
    def is_list_or_map(self) -> bool:
        """Return whether the type is a list or a map. An empty list or map counts as absent."""
        return self.type == "array" or (self.type == "object" and not self.struct_fields and self.item_type is not None)

    @cached_property
    def item_type(self) -> GoType | None:
        """Return the type of the items of a list or map, or None if the items may have any type."""
        item_schema = self.schema.get("items") or self.schema.get("additionalProperties")
        return (
            self._registry.schema_type(item_schema)
            if isinstance(item_schema, Mapping) and self.definition not in _SINGLE_VALUE_TYPES
            else None
        )

    @cached_property
    def type(self) -> str:
        """Return the type in the schema, or the name of the definition if the definition represents a single value."""
        return self.definition if self.definition in _SINGLE_VALUE_TYPES else self.schema.get("type", "")


class GoTypeRegistry:
    """Go types of all built-in kinds by definition, each read on first use."""

    def __init__(self, builtin_schemas: BuiltinSchemas, published: Structures) -> None:
        self._builtin_schemas = builtin_schemas
        self._published = published
        self._definition_types: dict[str, GoType] = {}

    def kind_type(self, group: str, version: str, kind: str) -> GoType | None:
        """Return the type of the objects of `kind`, or None if the API server does not publish the schema of `kind`."""
        name = self._builtin_schemas.kinds.get(f"{group}/{version}/{kind}")
        return self.definition_type(name) if name else None

    def schema_type(self, schema: Schema) -> GoType:
        subschemas: Sequence[Schema] = schema.get("allOf", ())
        reference = schema.get("$ref") or (subschemas[0].get("$ref") if len(subschemas) == 1 else "")
        return self.definition_type(reference.rpartition("/")[2]) if reference else GoType("", schema, self)

    def definition_type(self, name: str) -> GoType:
        if name not in self._definition_types:
            self._definition_types[name] = GoType(name, self._builtin_schemas.definitions.get(name, {}), self)
        return self._definition_types[name]

    def struct_fields(self, definition: str, schema: Schema) -> Sequence[GoField]:
        if definition in _SINGLE_VALUE_TYPES:
            return ()
        properties = schema.get("properties", {})
        go_fields = []
        for name, number, presence in self._published.get(definition, ()):
            if name in properties:
                field_schema = properties[name]
                go_fields.append(
                    GoField(
                        name,
                        number,
                        presence,
                        self.schema_type(field_schema),
                        _published_default(field_schema, presence),
                    )
                )
            elif not name and presence in self._published:
                go_fields.append(GoField("", number, "", GoType(presence, schema, self)))
        return go_fields


def _published_default(schema: Schema, presence: str) -> Any:
    """Return the default that `schema` declares for a field, or None if the decoder does not use the default.

    For presence `always`, the decoder uses the zero value instead. The decoder uses an empty scalar or list only for
    presence `pointer` or `null`, and never uses an empty map.
    """
    default = schema.get("default")
    return default if presence != "always" and default != {} and (default or presence in ("pointer", "null")) else None
