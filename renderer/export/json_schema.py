"""JSON Schemas (draft 7) for editors: of instances, from the schemas of their definitions, and of definitions.

The schemas check the fields that an author may write. Only `levelgate lint` checks expressions, markers and references,
because the check needs a compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from renderer.definition.compile import Definition
from renderer.kinds import RGD

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_CONDITIONS: Final = {"type": "array", "items": {"type": "string", "pattern": r"^\s*\$\{[\s\S]*\}\s*$"}}
_METADATA: Final = {
    "type": "object",
    "properties": {"name": _TEXT, "namespace": _TEXT, "labels": _TEXTS, "annotations": _TEXTS},
    "required": ["name"],
}
_NAME: Final = {"type": "string", "pattern": "^[a-z][a-zA-Z0-9]*$"}


def instance_schema(definition: Definition) -> dict[str, Any]:
    """Return the schema of a kind's instances. As `lint` does, the schema rejects unknown fields."""
    return _build_document(
        definition.api_version,
        definition.group_kind.kind,
        {"spec": _translate(definition.spec_schema)},
        required=["spec"] if definition.spec_schema.get("required") else [],
    )


def definition_schema() -> dict[str, Any]:
    """Return the schema of ResourceGraphDefinitions."""
    spec = _closed_object(
        {
            "schema": _closed_object(_SCHEMA, required=["kind", "apiVersion"]),
            "resources": _or_null({"type": "array", "items": _closed_object(_RESOURCE, required=["id"])}),
            "propagateWhen": _or_null(_CONDITIONS),
        },
        required=["schema"],
    )
    return _build_document(f"{RGD.group}/v1alpha1", RGD.kind, {"spec": spec}, required=["spec"])


def spec_schema(api_version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a kind whose `spec` has the OpenAPI schema `spec`."""
    return _build_document(api_version, kind, {"spec": _translate(spec)}, required=["spec"])


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a kind whose objects have the OpenAPI schema `schema`.

    Args:
        schema: An OpenAPI schema in which `apiVersion` and `kind` each have an enum of one word.
    """
    identity = {name: {"const": schema["properties"][name]["enum"][0]} for name in ("apiVersion", "kind")}
    translated = _translate(schema)
    properties = {**translated["properties"], **identity}
    return {"$schema": _DRAFT, "title": identity["kind"]["const"], **translated, "properties": properties}


def combine_schemas(schemas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one schema for objects of the kinds of all `schemas`. The schema accepts all objects of other kinds."""
    branches = [
        {
            "if": {"properties": {name: schema["properties"][name] for name in ("apiVersion", "kind")}},
            "then": {name: value for name, value in schema.items() if name != "$schema"},
        }
        for schema in schemas
    ]
    return {"$schema": _DRAFT, "type": "object", "required": ["apiVersion", "kind"], "allOf": branches}


def _build_document(api_version: str, kind: str, fields: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    identity = {"apiVersion": {"const": api_version}, "kind": {"const": kind}, "metadata": _METADATA}
    return {
        "$schema": _DRAFT,
        "title": kind,
        **_closed_object({**identity, **fields}, required=["apiVersion", "kind", "metadata", *required]),
    }


def _closed_object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    result = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**result, "required": required} if required else result


def _translate(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CRD's OpenAPI as JSON Schema.

    The translation drops extensions. If the API server would drop unknown fields, the JSON Schema rejects unknown
    fields.
    """
    result = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-") and key != "nullable"}
    if "properties" in schema:
        result["properties"] = {name: _translate(field) for name, field in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            result[key] = _translate(schema[key])
    if "oneOf" in schema:
        result["oneOf"] = [_translate(choice) for choice in schema["oneOf"]]
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if schema.get("x-kubernetes-list-type") == "set":
        result["uniqueItems"] = True
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    return result


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `schema` extended to accept null, because a null field counts as absent."""
    return {**schema, "type": [schema["type"], "null"]}


_OPTIONAL_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "spec": {"type": "object", "description": "The fields of an instance, with their types in SimpleSchema."},
    "types": {"type": "object", "description": "Custom types for use in spec."},
    "status": {"type": "object", "description": "Fields of the status; every value contains an expression."},
    "additionalPrinterColumns": {"type": "array", "items": {"type": "object"}},
    "shortNames": {"type": "array", "items": _TEXT},
    "categories": {"type": "array", "items": _TEXT},
    "metadata": _closed_object({"labels": _or_null(_TEXTS), "annotations": _or_null(_TEXTS)}),
}
_SCHEMA: Final = {
    "kind": {"type": "string", "pattern": "^[A-Z][a-zA-Z0-9]{0,62}$"},
    "apiVersion": {"type": "string", "pattern": "^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$"},
    "group": _or_null(_TEXT),
    "scope": {"enum": ["Namespaced", "Cluster", None]},
    **{name: _or_null(schema) for name, schema in _OPTIONAL_FIELDS.items()},
}
_RESOURCE: Final = {
    "id": _NAME,
    "template": _or_null({"type": "object", "required": ["apiVersion", "kind", "metadata"]}),
    "externalRef": _or_null({"type": "object", "required": ["apiVersion", "kind", "metadata"]}),
    "readyWhen": _or_null(_CONDITIONS),
    "includeWhen": _or_null(_CONDITIONS),
    "forEach": _or_null({"type": "array", "items": {"type": "object", "minProperties": 1, "maxProperties": 1}}),
    "propagateWhen": _or_null(_CONDITIONS),
}
