"""Rules that every manifest must meet, and further rules for Secrets and CRDs.

The rules are OpenAPI schemas, which the validator of instances checks. Levelgate checks the rules before reading other
fields of a manifest. The rules require only the fields and types that Levelgate relies on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from renderer import schema
from renderer.identity import GroupKind, Manifest, group_kind
from renderer.kinds import CRD
from renderer.schema import SchemaMistake

_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_NAME = {"type": "string", "minLength": 1}


def open_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has the fields `properties` and may have additional fields."""
    return {"type": "object", "properties": properties, **_OPEN}


ALIASES_SCHEMA = {
    "type": "array",
    "maxItems": 32,
    "uniqueItems": True,
    "items": {"type": "string", "maxLength": 63, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
}
"""Short names and categories of a kind (kro's `spec.schema`)."""
METADATA_SCHEMA = {"type": "object", "properties": {"labels": _TEXTS, "annotations": _TEXTS}}
COLUMNS_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["jsonPath", "name", "type"],
        "properties": {
            "name": _NAME,
            "type": {"type": "string", "enum": ["boolean", "date", "integer", "number", "string"]},
            "jsonPath": _NAME,
            "description": _TEXT,
            "format": {
                "type": "string",
                "enum": ["int32", "int64", "float", "double", "byte", "date", "date-time", "password"],
            },
            "priority": {"type": "integer"},
        },
    },
}
"""Printer columns (`CustomResourceColumnDefinition` of apiextensions.k8s.io/v1)."""

_METADATA = {**open_object(name=_NAME, namespace=_TEXT, labels=_TEXTS, annotations=_TEXTS), "required": ["name"]}
_ANY = {**open_object(metadata=_METADATA), "required": ["metadata"]}
_KINDS = {
    GroupKind("", "Secret"): open_object(data=_TEXTS, stringData=_TEXTS),
    CRD: {
        **open_object(
            spec={
                **open_object(group=_NAME, scope=_NAME, names={**open_object(kind=_NAME), "required": ["kind"]}),
                "required": ["group", "names"],
            }
        ),
        "required": ["spec"],
    },
}


def find_mistakes(manifest: Manifest) -> list[SchemaMistake]:
    """Return the rules that `manifest` breaks, with paths from the top of `manifest`. Null fields count as absent."""
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict) and None in metadata.values():
        manifest = {**manifest, "metadata": {name: value for name, value in metadata.items() if value is not None}}
    if None in manifest.values():
        manifest = {name: value for name, value in manifest.items() if value is not None}
    if metadata_mistakes := schema.validate(_ANY, manifest):
        return metadata_mistakes
    rules = _KINDS.get(group_kind(manifest))
    return schema.validate(rules, manifest) if rules else []
