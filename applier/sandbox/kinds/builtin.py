"""Built-in kinds, from the schemas and the discovery that the real API server publishes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.kinds.admission import COMPLETERS, HAS_GENERATION
from applier.sandbox.kinds.decoding import Decoder, DecodingError
from applier.sandbox.kinds.defaults import METADATA_DEFAULTS
from applier.sandbox.kinds.go_types import GoType, GoTypeRegistry
from applier.sandbox.kinds.registry import DecodedObject, ServedKind
from applier.sandbox.kinds.scale import BUILT_IN_SCALE_PATHS
from applier.sandbox.kinds.validation import VALIDATION_RULES, validate_schema
from applier.sandbox.merge import DEDUCED, MergeType, type_of_schema
from renderer import builtin_kinds
from renderer.builtin_kinds import BuiltinSchemas

_UNSERVED_VERSIONS = frozenset({("autoscaling", "v1")})
"""Versions that the sandbox does not serve.

The sandbox stores each built-in kind in a single version, without conversion.
"""


_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


class BuiltInKindModel:
    """Model (`KindModel`) of a built-in kind, from the published schema.

    Args:
        go_type: Go type of the kind, or None if the API server does not publish the schema. If the type is None, the
            model accepts any content.
    """

    def __init__(
        self, kind: str, go_type: GoType | None, builtin_schemas: BuiltinSchemas, *, resource: str, has_status: bool
    ) -> None:
        self._resource = resource
        self._has_status = has_status and go_type is not None
        self.go_type = go_type
        self.schema: Mapping[str, Any] = go_type.schema if go_type else {}
        self.has_generation = resource in HAS_GENERATION
        self._definitions = builtin_schemas.definitions
        self._decoder = Decoder(kind)

    @cached_property
    def blank(self) -> Object:
        return self.go_type.zero if self.go_type else {}

    @cached_property
    def type(self) -> MergeType:
        if not self.go_type:
            return DEDUCED
        return type_of_schema(self.schema, crd=False, definitions=self._definitions)

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return built_in_go_types().schema_type(schema).schema

    def decode(self, obj: Object, *, merged: bool = False) -> DecodedObject:
        if not self.go_type:
            return DecodedObject(obj)
        unknown: list[str] = []
        content = {name: value for name, value in obj.items() if name not in _IDENTITY}
        try:
            decoded = self._decoder.decode_struct(self.go_type, content, "", unknown)
        except DecodingError as error:
            return DecodedObject(obj, error=str(error))
        return DecodedObject({**decoded, **{name: obj[name] for name in _IDENTITY}}, tuple(unknown))

    def default(self, obj: Object, live: Object | None) -> Object:
        change = METADATA_DEFAULTS.get(self._resource)
        if not change:
            return obj
        obj = {**obj, "metadata": dict(obj["metadata"])}
        change(obj)
        return obj

    def complete(self, obj: Object, live: Object | None) -> Object:
        change = COMPLETERS.get(self._resource)
        if live is None and self._has_status:
            assert self.go_type
            obj = {**obj, "status": self._decoder.decode_struct(self.go_type.fields["status"].go_type, {}, "", [])}
        if change:
            obj = copy.deepcopy(obj)
            change(obj, live)
        return obj

    def validate(self, obj: Object, live: Object | None) -> list[StatusCause]:
        rule = VALIDATION_RULES.get(self._resource)
        mistakes = list(validate_schema(self.go_type, obj)) if self.go_type else []
        if rule:
            reported_fields = {mistake.field for mistake in mistakes}
            mistakes += [mistake for mistake in rule(obj, live) if mistake.field not in reported_fields]
        return mistakes


@cache
def built_in_go_types() -> GoTypeRegistry:
    """Return the registry of the Go types of all built-in kinds."""
    return GoTypeRegistry(builtin_kinds.load_builtin_schemas(), builtin_kinds.load_structures())


@cache
def built_in_kinds() -> tuple[ServedKind, ...]:
    """Return all built-in kinds whose objects the sandbox stores.

    All sandboxes of a process share the result.
    """
    builtin_schemas = builtin_kinds.load_builtin_schemas()
    return tuple(
        _build_kind(builtin_schemas, group["metadata"].get("name", ""), version["version"], entry)
        for group in builtin_schemas.discovery
        for version in group["versions"]
        if (group["metadata"].get("name", ""), version["version"]) not in _UNSERVED_VERSIONS
        for entry in version["resources"]
        if {"create", "list"} <= set(entry["verbs"])
    )


def _build_kind(builtin_schemas: BuiltinSchemas, group: str, version: str, entry: Mapping[str, Any]) -> ServedKind:
    kind, plural = entry["responseKind"]["kind"], entry["resource"]
    resource = f"{plural}.{group}" if group else plural
    served_subresources = {subresource["subresource"] for subresource in entry.get("subresources", ())}
    subresources = tuple(name for name in ("scale", "status") if name in served_subresources)
    go_type = built_in_go_types().kind_type(group, version, kind)
    return ServedKind(
        group,
        version,
        kind,
        plural,
        entry["scope"] == "Namespaced",
        BuiltInKindModel(kind, go_type, builtin_schemas, resource=resource, has_status="status" in served_subresources),
        entry.get("singularResource", ""),
        f"{kind}List",
        tuple(entry["verbs"]),
        tuple(entry.get("shortNames", ())),
        tuple(entry.get("categories", ())),
        subresources,
        scale_paths=BUILT_IN_SCALE_PATHS if "scale" in served_subresources else None,
    )


@cache
def scale_kind() -> ServedKind:
    """Return the kind Scale, which the scale subresource of every kind reads and writes."""
    go_type = built_in_go_types().kind_type("autoscaling", "v1", "Scale")
    model = BuiltInKindModel(
        "Scale", go_type, builtin_kinds.load_builtin_schemas(), resource="scales.autoscaling", has_status=False
    )
    return ServedKind("autoscaling", "v1", "Scale", "scales", True, model)
