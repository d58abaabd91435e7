"""Types for merging values, derived from an OpenAPI v3 schema.

A schema may allow several kinds of value, so a type has up to three facets: scalar, list and map. A map type reads the
schema of each field on first use. So the module reads only the used part of a kind's schema, and recursive schemas need
no special case. For callers, types are immutable.

Source: kube-openapi `schemaconv`; https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final, Literal

from renderer.frozen import dataclass

Schema = Mapping[str, Any]

Scalar = Literal["", "numeric", "string", "boolean", "untyped"]


@dataclass(frozen=True, slots=True)
class MergeType:
    """Kinds of value that a schema allows: a scalar, a list, a map, or several of them.

    If a facet is absent, the schema allows no such value.
    """

    scalar: Scalar = ""
    list: MergeListType | None = None
    map: MergeMapType | None = None
    is_built_in: bool = False
    """True for a built-in kind. Some structures of its objects are never absent, because the server always writes these
    structures.
    """


class MergeListType:
    """List facet of a type.

    An atomic list is a single value.

    Args:
        atomic: True if the list merges as a whole.
        items: function that returns the type of the items.
        keys: names of the fields that identify an item. If no names are given, the value of the item identifies the
            item.
    """

    def __init__(self, *, atomic: bool, items: Callable[[], MergeType], keys: tuple[str, ...] = ()) -> None:
        self.atomic = atomic
        self.keys = keys
        self.sorted_keys = sorted(keys)
        self._items = items

    @cached_property
    def element(self) -> MergeType:
        return self._items()

    @cached_property
    def key_defaults(self) -> Mapping[str, Any]:
        """Return the schema's defaults of key fields that an item may omit, such as the protocol of a port."""
        structure = self.element.map
        defaults = {name: structure.fields.get(name, {}).get("default") for name in self.keys} if structure else {}
        return {name: value for name, value in defaults.items() if value is not None}


class MergeMapType:
    """Map facet of a type, for maps and structures.

    An atomic map is a single value.

    Args:
        atomic: True if the map merges as a whole.
        fields: schemas of the members that have their own type.
        read_schema: function that returns the type of a schema.
        read_additional: function that returns the type of all other members, or None if the schema forbids other
            members.
    """

    def __init__(
        self,
        *,
        atomic: bool = False,
        fields: Mapping[str, Schema] = MappingProxyType({}),
        read_schema: Callable[[Schema], MergeType] | None = None,
        read_additional: Callable[[], MergeType] | None,
    ) -> None:
        self.atomic = atomic
        self.fields = fields
        self._read_schema = read_schema
        self._read_additional = read_additional
        self._types: dict[str, MergeType] = {}

    def child(self, name: str) -> MergeType | None:
        """Return the type of the member `name`, or None if the schema forbids the member."""
        member_type = self._types.get(name)
        if member_type is None:
            schema = self.fields.get(name)
            if schema is None or self._read_schema is None:
                return self.additional_type
            member_type = self._types[name] = self._read_schema(schema)
        return member_type

    @cached_property
    def additional_type(self) -> MergeType | None:
        return self._read_additional() if self._read_additional else None

    def with_atomic(self, atomic: bool) -> MergeMapType:
        return MergeMapType(
            atomic=atomic, fields=self.fields, read_schema=self._read_schema, read_additional=self._read_additional
        )


class _SchemaReader:
    """Reader that derives types from schemas, and caches the types of named definitions."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._definition_types: dict[tuple[str, str], MergeType] = {}

    def type_of(self, schema: Schema, *, preserves: bool) -> MergeType:
        reference = _reference_name(schema)
        if not reference:
            return self._read_inline(schema, preserves=preserves)
        override = schema.get("x-kubernetes-map-type", "")
        merge_type = self._definition_types.get((reference, override))
        if merge_type is None:
            merge_type = _SPECIAL_TYPES.get(reference) or self._read_inline(
                self._definitions[reference], preserves=False
            )
            if override and merge_type.map:
                merge_type = MergeType(map=merge_type.map.with_atomic(override == "atomic"))
            self._definition_types[reference, override] = merge_type
        return merge_type

    def _read_inline(self, schema: Schema, *, preserves: bool) -> MergeType:
        preserves = preserves or schema.get("x-kubernetes-preserve-unknown-fields") is True
        match schema.get("type", ""):
            case "object":
                return MergeType(map=self._read_map(schema, preserves=preserves))
            case "array":
                return MergeType(list=self._read_list(schema, preserves=preserves))
            case "integer" | "number":
                return NUMERIC
            case "boolean":
                return BOOLEAN
            case "string":
                return STRING if schema.get("format", "") in ("", "byte") else UNTYPED
            case _:
                return MergeType(
                    scalar="untyped",
                    list=self._read_list(schema, preserves=preserves),
                    map=self._read_map(schema, preserves=preserves),
                )

    def _read_map(self, schema: Schema, *, preserves: bool) -> MergeMapType:
        properties = schema.get("properties") or {}
        additional: Any = schema.get("additionalProperties")
        read_additional: Callable[[], MergeType] | None = None
        if isinstance(additional, Mapping):
            read_additional = partial(self.type_of, additional, preserves=preserves)
        elif additional is True or (additional is None and (preserves or not properties)):
            read_additional = _deduced_type
        return MergeMapType(
            atomic=schema.get("x-kubernetes-map-type") == "atomic",
            fields=properties,
            read_schema=partial(self.type_of, preserves=preserves),
            read_additional=read_additional,
        )

    def _read_list(self, schema: Schema, *, preserves: bool) -> MergeListType:
        atomic, keys = _list_rules(schema)
        items = schema.get("items")
        read_items = _atomic_type if items is None else partial(self.type_of, items, preserves=preserves)
        return MergeListType(atomic=atomic, keys=keys, items=read_items)


def _list_rules(schema: Schema) -> tuple[bool, tuple[str, ...]]:
    """Return whether the list of `schema` is atomic, and the names of its key fields.

    Kinds older than server-side apply declare a patch strategy instead of a list type.
    """
    kind = schema.get("x-kubernetes-list-type")
    if kind is None and schema.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        key: str = schema.get("x-kubernetes-patch-merge-key", "")
        return False, (key,) if key else ()
    return kind not in ("map", "set"), tuple(schema["x-kubernetes-list-map-keys"]) if kind == "map" else ()


def _reference_name(schema: Schema) -> str:
    """Return the name of the definition to which `schema` refers, or an empty string if `schema` has no reference.

    If a schema has other keywords beside the reference, the reference is in an `allOf` with a single element.
    """
    reference: str = schema.get("$ref", "")
    subschemas: Sequence[Schema] = schema.get("allOf", ())
    if not reference and len(subschemas) == 1:
        reference = subschemas[0].get("$ref", "")
    return reference.rpartition("/")[2]


def _deduced_type() -> MergeType:
    return DEDUCED


def _atomic_type() -> MergeType:
    return ATOMIC


NUMERIC: Final = MergeType(scalar="numeric")
STRING: Final = MergeType(scalar="string")
BOOLEAN: Final = MergeType(scalar="boolean")
UNTYPED: Final = MergeType(scalar="untyped")

ATOMIC: Final = MergeType(
    scalar="untyped",
    list=MergeListType(atomic=True, items=_atomic_type),
    map=MergeMapType(atomic=True, read_additional=_atomic_type),
)
"""Type that allows any value, and merges the value as a whole."""

DEDUCED: Final = MergeType(
    scalar="untyped",
    list=MergeListType(atomic=True, items=_atomic_type),
    map=MergeMapType(read_additional=_deduced_type),
)
"""Type of values without a schema. Maps merge member by member, and lists are atomic."""

_SPECIAL_TYPES: Final[Mapping[str, MergeType]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": UNTYPED,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ATOMIC,
}

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def type_of_schema(schema: Schema, *, crd: bool, definitions: Mapping[str, Schema]) -> MergeType:
    """Return the type of the objects of a kind with the OpenAPI v3 schema `schema`.

    Args:
        crd: True if `schema` is the structural schema of a CustomResourceDefinition. The type then has the server's
            types for apiVersion, kind and metadata, at the root and in embedded resources.
        definitions: targets of references in `schema`, by the last part of the reference. For a CRD, the targets
            include ObjectMeta.
    """
    type_ = _SchemaReader(definitions).type_of(_with_identity(schema) if crd else schema, preserves=False)
    return type_ if crd else replace(type_, is_built_in=True)


def _with_identity(schema: Schema, *, root: bool = True) -> Schema:
    """Return the structural `schema` with apiVersion, kind and metadata at the root and in embedded resources."""
    completed = dict(schema)
    if properties := schema.get("properties"):
        completed["properties"] = {name: _with_identity(child, root=False) for name, child in properties.items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(child := schema.get(keyword), Mapping):
            completed[keyword] = _with_identity(child, root=False)
    if root or schema.get("x-kubernetes-embedded-resource"):
        identity = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": _OBJECT_META}}
        completed["properties"] = {**completed.get("properties", {}), **identity}
    return completed
