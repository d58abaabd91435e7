"""One schema for instances of several revisions. The CRD serves this schema during a rollout.

A value that fits the schema of one revision also fits the union and keeps all its fields. If the API server accepts
every schema, the API server also accepts the union. The union contains the properties of all schemas. If all revisions
agree on a restriction (required, patterns, rules) or a default, the union keeps it. The union widens bounds and enums
instead of dropping them. The API server estimates the cost of rules from bounds and enums, and refuses a schema whose
rules cost too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from renderer.errors import RendererError
from renderer.schema.compatibility import LOWER_BOUNDS, UPPER_BOUNDS
from renderer.schema.errors import child_path

Schema = Mapping[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_SHAPE: Final = frozenset({"type", "properties", "items", "additionalProperties", "required", "description", _PRESERVE})
_RULES: Final = "x-kubernetes-validations"


class NoUnionError(RendererError):
    """A contradiction between the schemas of several revisions.

    One CRD cannot serve instances of contradictory revisions, so all instances must move to the new revision together.

    Attributes:
        path: Path of the contradictory field.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


def union(schemas: Sequence[Schema], path: str = "spec") -> dict[str, Any]:
    """Return the union of several schemas.

    Args:
        schemas: At least one schema, the oldest schema first.

    Raises: NoUnionError if the schemas contradict each other.
    """
    newest = schemas[-1]
    if all(schema == newest for schema in schemas):
        return dict(newest)
    _check_shapes(schemas, path)
    merged = {key: value for key, value in _common_keys(schemas).items() if key not in _SHAPE} | _widest_bounds(schemas)
    merged |= {key: newest[key] for key in ("type", "description") if key in newest}
    if any(schema.get(_PRESERVE) for schema in schemas):
        merged[_PRESERVE] = True
    merged |= _fields(schemas, path) | _rules(schemas)
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if key in newest:
            merged[key] = union([schema[key] for schema in schemas], f"{path}{suffix}")
    _check_list_map(merged, path)
    return merged


def _check_shapes(schemas: Sequence[Schema], path: str) -> None:
    shapes = [_shape(schema) for schema in schemas]
    for shape in shapes:
        if shape != shapes[0]:
            raise NoUnionError(path, f"is {shapes[0]} in one revision and {shape} in another")


def _shape(schema: Schema) -> str:
    return "a map" if "additionalProperties" in schema else f"of type {schema.get('type', 'any')}"


def _common_keys(schemas: Sequence[Schema]) -> dict[str, Any]:
    first, *others = schemas
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def _widest_bounds(schemas: Sequence[Schema]) -> dict[str, Any]:
    """Return the bounds and the enum that all schemas contain, wide enough for the values of every schema."""
    bounds = {
        key: choose_bound(schema[key] for schema in schemas)
        for keys, choose_bound in ((LOWER_BOUNDS, min), (UPPER_BOUNDS, max))
        for key in keys
        if all(key in schema for schema in schemas)
    }
    if all("enum" in schema for schema in schemas):
        bounds["enum"] = list(dict.fromkeys(value for schema in schemas for value in schema["enum"]))
    return bounds


def _fields(schemas: Sequence[Schema], path: str) -> dict[str, Any]:
    """Return `properties` and `required` of the union."""
    names = dict.fromkeys(name for schema in schemas for name in schema.get("properties", {}))
    if not names and not any("properties" in schema for schema in schemas):
        return {}
    fields: dict[str, Any] = {"properties": {name: _field(schemas, name, path) for name in names}}
    if required := set.intersection(*(set(schema.get("required", ())) for schema in schemas)):
        fields["required"] = sorted(required)
    return fields


def _field(schemas: Sequence[Schema], name: str, path: str) -> dict[str, Any]:
    """Return the union of one property.

    If a revision does not have the property, the union drops the default, because the API server must not set the
    property on instances of that revision.
    """
    field_schemas = [schema["properties"][name] for schema in schemas if name in schema.get("properties", {})]
    merged = union(field_schemas, child_path(path, name))
    if len(field_schemas) < len(schemas):
        merged.pop("default", None)
    return merged


def _rules(schemas: Sequence[Schema]) -> dict[str, Any]:
    first, *others = (schema.get(_RULES, ()) for schema in schemas)
    rules = [rule for rule in first if all(rule in other for other in others)]
    return {_RULES: rules} if rules else {}


def _check_list_map(schema: Schema, path: str) -> None:
    """Check that a list map meets the API server's requirements. Every key must be required or have a default.

    Raises: NoUnionError if the list map does not meet a requirement.
    """
    items, keys = schema.get("items", {}), schema.get("x-kubernetes-list-map-keys", ())
    if schema.get("x-kubernetes-list-type") == "map" and not keys:
        raise NoUnionError(path, "the items have other keys in another revision")
    for key in keys:
        if key not in items.get("required", ()) and "default" not in items["properties"][key]:
            raise NoUnionError(path, f"the key {key!r} of the list is required, or has a default, in one revision only")
