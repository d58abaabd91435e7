"""Custom kinds, with the structural schema of their CustomResourceDefinition as their model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.kinds import metadata
from applier.sandbox.kinds.registry import DecodedObject
from applier.sandbox.merge import DEDUCED, MergeType, type_of_schema
from applier.sandbox.wire import invalid_value
from renderer.schema import BrokenRule, Evaluate, apply_defaults, broken_rules, validate

Schema = Mapping[str, Any]
_PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_TYPE_KEYWORDS = frozenset({"type", "x-kubernetes-int-or-string"})
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
_UNCHECKED_RULES_MESSAGE = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_CAUSE_REASONS: Mapping[str, str] = {
    "type": "FieldValueTypeInvalid",
    "format": "FieldValueTypeInvalid",
    "required": "FieldValueRequired",
    "enum": "FieldValueNotSupported",
    "duplicate": "FieldValueDuplicate",
    "maxLength": "FieldValueTooLong",
    "maxItems": "FieldValueTooMany",
    "maxProperties": "FieldValueTooMany",
}
"""Reason of a status cause, by the violated rule of the schema. For any other rule, the reason is FieldValueInvalid."""


class CustomKindModel:
    """Model (`KindModel`) of a custom kind, from its structural schema.

    Args:
        evaluate: function that evaluates the CEL rules of the schema. If None, the model does not check CEL rules.
    """

    go_type = None
    has_generation = True
    blank: ClassVar[Object] = {}

    def __init__(self, schema: Schema, *, definitions: Mapping[str, Schema], evaluate: Evaluate | None) -> None:
        self.schema = schema
        self._content = {
            **schema,
            "properties": {
                name: field for name, field in (schema.get("properties") or {}).items() if name not in _IDENTITY
            },
        }
        self._definitions = definitions
        self._evaluate = evaluate
        self._has_rules = "x-kubernetes-validations" in str(schema)

    @cached_property
    def type(self) -> MergeType:
        if not self.schema:
            return DEDUCED
        return type_of_schema(self.schema, crd=True, definitions=self._definitions)

    def resolve(self, schema: Schema) -> Schema:
        return schema

    def decode(self, obj: Object, *, merged: bool = False) -> DecodedObject:
        unknown: list[str] = []
        identity = {name: obj[name] for name in obj if name in _IDENTITY}
        content = {name: value for name, value in obj.items() if name not in _IDENTITY}
        return DecodedObject(
            {**identity, **prune(self._content, content, "", unknown, keep_typed_nulls=merged)}, tuple(unknown)
        )

    def default(self, obj: Object, live: Object | None) -> Object:
        identity = {name: obj[name] for name in obj if name in _IDENTITY}
        content = {name: value for name, value in obj.items() if name not in _IDENTITY}
        return {**identity, **apply_defaults(self._content, content, keep_nulls=True)}

    def complete(self, obj: Object, live: Object | None) -> Object:
        return obj

    def validate(self, obj: Object, live: Object | None) -> list[StatusCause]:
        content = {name: value for name, value in obj.items() if name not in _IDENTITY}
        causes = [
            StatusCause(mistake.path, _CAUSE_REASONS.get(mistake.rule, "FieldValueInvalid"), mistake.message)
            for mistake in validate(self._content, content, old=live)
        ]
        if not self._has_rules or self._evaluate is None:
            return causes
        if causes:
            return causes if live else [*causes, invalid_value("<nil>", None, _UNCHECKED_RULES_MESSAGE)]
        return [_rule_cause(broken_rule) for broken_rule in broken_rules(self.schema, obj, self._evaluate, old=live)]


def _rule_cause(broken_rule: BrokenRule) -> StatusCause:
    reason = broken_rule.rule.get("reason") or "FieldValueInvalid"
    return StatusCause(broken_rule.path or "<nil>", reason, f"Invalid value: {broken_rule.message}")


def _prune_metadata(value: Any, path: str, unknown: list[str]) -> Any:
    """Return the metadata of an embedded object without unknown fields, or `value` itself if its type is wrong.

    Append the paths of the unknown fields to `unknown`.
    """
    pruned, unknown_paths, mistake = metadata.read_metadata(value)
    unknown += (path + unknown_path.removeprefix("metadata") for unknown_path in unknown_paths)
    return value if mistake else pruned


def prune(schema: Schema, value: Any, path: str, unknown: list[str], *, keep_typed_nulls: bool) -> Any:
    """Return `value` without fields that `schema` does not declare, and append the paths of these fields to `unknown`.

    If a field is not nullable and has no default, drop a null in the field. With `keep_typed_nulls`, keep the null if
    the schema of the field declares a type.
    """
    match value:
        case dict():
            properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
            keeps_unknown = bool(schema.get(_PRESERVE_UNKNOWN)) or additional is True
            identity_fields = _IDENTITY if schema.get("x-kubernetes-embedded-resource") else frozenset()
            pruned: dict[str, Any] = {}
            for name, item in value.items():
                field_path = f"{path}.{name}" if path else name
                field = properties.get(name, additional)
                if isinstance(field, dict):
                    if (
                        item is not None
                        or (keep_typed_nulls and _TYPE_KEYWORDS & field.keys())
                        or field.get("nullable")
                        or "default" in field
                    ):
                        pruned[name] = prune(field, item, field_path, unknown, keep_typed_nulls=keep_typed_nulls)
                elif name == "metadata" and identity_fields:
                    pruned[name] = _prune_metadata(item, field_path, unknown)
                elif keeps_unknown or name in identity_fields:
                    pruned[name] = item
                else:
                    unknown.append(field_path)
            return pruned
        case list():
            items = schema.get("items")
            if not isinstance(items, Mapping):
                return value
            return [
                prune(items, item, f"{path}[{index}]", unknown, keep_typed_nulls=keep_typed_nulls)
                for index, item in enumerate(value)
            ]
        case _:
            return value
