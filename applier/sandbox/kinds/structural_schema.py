"""Validation of CustomResourceDefinitions and their structural schemas.

The validation neither compiles CEL rules nor checks their cost, because the applier does not contain a CEL compiler.

Source: apiextensions-apiserver `pkg/apis/apiextensions/validation`, and Kubernetes, "Specifying a structural schema".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.jsonpath import get_field
from applier.sandbox.kinds.names import validate_name
from applier.sandbox.wire import (
    forbidden_field,
    immutable_field,
    invalid_value,
    required_value,
    unsupported_value,
)
from renderer.schema import apply_defaults, validate
from renderer.schema.formats import PatternError, compile_pattern

_APPROVAL_ANNOTATION: Final = "api-approved.kubernetes.io"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_SCALAR_TYPES: Final = ("boolean", "integer", "number", "string")
_TYPES: Final = ("array", *_SCALAR_TYPES, "object")
_PRESERVE_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_COMBINATORS: Final = ("allOf", "anyOf", "oneOf", "not")
_FORBIDDEN_IN_COMBINATORS: Final = ("additionalProperties", "default", "description", "nullable", "title")


def validate_definition(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in the CustomResourceDefinition `obj`.

    The function checks names, versions, schemas and forbidden changes.
    """
    spec = obj.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    if obj["metadata"].get("name") != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value(
            "metadata.name", obj["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group'
        )
    yield from _validate_names(obj, spec.get("group", ""), names)
    if spec.get("scope") not in (None, "Cluster", "Namespaced"):
        yield unsupported_value("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        yield invalid_value(
            "spec.preserveUnknownFields", True, f"set {_PRESERVE_UNKNOWN} in spec.versions[*].schema instead"
        )
    yield from _validate_conversion(spec)
    yield from _validate_versions(versions)
    for path in ("group", "scope", "names.kind", "names.plural"):
        if live is not None and is_established(live) and get_field(spec, path) != get_field(live, f"spec.{path}"):
            yield immutable_field(f"spec.{path}", get_field(spec, path))


def _validate_conversion(spec: Object) -> Iterator[StatusCause]:
    if get_field(spec, "conversion.strategy") == "Webhook":
        for field in ("webhook.clientConfig", "webhook.conversionReviewVersions"):
            if not get_field(spec, f"conversion.{field}"):
                yield required_value(f"spec.conversion.{field}", "required when strategy is set to Webhook")


def _validate_versions(versions: list[Object]) -> Iterator[StatusCause]:
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value("spec.versions", None, "must have exactly one version marked as storage version")
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid_value("spec.versions", None, "must contain unique version names")
    for index, version in enumerate(versions):
        yield from _validate_version(version, f"spec.versions[{index}]")


def _validate_names(obj: Object, group: str, names: Object) -> Iterator[StatusCause]:
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    elif f".{group}".endswith((".k8s.io", ".kubernetes.io")) and _APPROVAL_ANNOTATION not in (
        obj["metadata"].get("annotations") or {}
    ):
        yield required_value(
            f"metadata.annotations[{_APPROVAL_ANNOTATION}]", "protected groups must have approval annotation"
        )
    single_names = {name: names[name] for name in ("plural", "singular", "kind", "listKind") if names.get(name)}
    list_names = {
        f"{name}[{index}]": text
        for name in ("shortNames", "categories")
        for index, text in enumerate(names.get(name) or ())
    }
    for name, text in {**single_names, **list_names}.items():
        yield from validate_name(
            text.lower() if name in ("kind", "listKind") else text, f"spec.names.{name}", "service"
        )


def _validate_version(version: Object, path: str) -> Iterator[StatusCause]:
    yield from validate_name(version.get("name", ""), f"{path}.name", "service")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        field_path = f"{path}.additionalPrinterColumns[{index}]"
        if column.get("type") not in _COLUMN_TYPES:
            yield invalid_value(f"{field_path}.type", column.get("type"), f"must be one of {','.join(_COLUMN_TYPES)}")
        if not str(column.get("jsonPath", "")).startswith("."):
            yield invalid_value(
                f"{field_path}.jsonPath", column.get("jsonPath"), "must be a simple json path starting with ."
            )
    field_path = f"{path}.schema.openAPIV3Schema"
    schema = get_field(version, "schema.openAPIV3Schema")
    if schema is None:
        yield required_value(field_path, "schemas are required")
    elif isinstance(schema, dict):
        if schema.get("type") != "object":
            yield (
                invalid_value(f"{field_path}.type", schema["type"], 'must be "object" at the root')
                if schema.get("type")
                else required_value(f"{field_path}.type", "must not be empty at the root")
            )
        if set(get_field(schema, "properties.metadata.properties") or ()) - {"name", "generateName"}:
            yield forbidden_field(
                f"{field_path}.properties[metadata]", "must not specify anything other than name and generateName"
            )
        yield from _validate_structural(schema, field_path)


def is_established(definition: Object) -> bool:
    """Return whether the condition Established of `definition` is True.

    The server serves the kinds of an established definition only.
    """
    conditions = get_field(definition, "status.conditions") or []
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


def _validate_structural(schema: Any, path: str) -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in `schema` and in the schemas inside `schema`.

    Every schema needs a type, and every list needs the schema of its items.
    """
    if not isinstance(schema, dict):
        return
    kind, properties = schema.get("type"), schema.get("properties")
    if not kind and not (schema.get(_PRESERVE_UNKNOWN) or schema.get("x-kubernetes-int-or-string")):
        yield required_value(f"{path}.type", "must not be empty for specified object fields")
    elif kind and kind not in _TYPES:
        yield unsupported_value(f"{path}.type", kind, _TYPES)
        return
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield required_value(f"{path}.items", "must be specified, and be a schema object")
    if schema.get("uniqueItems"):
        yield forbidden_field(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if schema.get("x-kubernetes-embedded-resource") and not (properties or schema.get(_PRESERVE_UNKNOWN)):
        yield required_value(
            f"{path}.properties",
            f"must not be empty if x-kubernetes-embedded-resource is true without {_PRESERVE_UNKNOWN}",
        )
    yield from _validate_merging(schema, path)
    yield from _validate_combinators(schema, path)
    if isinstance(properties, dict):
        yield from _validate_properties(schema, properties, path)
    yield from _validate_structural(schema.get("items"), f"{path}.items")
    yield from _validate_structural(schema.get("additionalProperties"), f"{path}.additionalProperties")
    yield from _validate_values(schema, path)


def _validate_properties(schema: Object, properties: Object, path: str) -> Iterator[StatusCause]:
    if "additionalProperties" in schema:
        yield forbidden_field(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    for name, node in properties.items():
        # The schema of the root's metadata is not checked, because the server replaces this schema.
        if not (path.endswith("openAPIV3Schema") and name == "metadata"):
            yield from _validate_structural(node, f"{path}.properties[{name}]")


def _validate_merging(schema: Object, path: str) -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in the keywords that decide how lists and maps merge."""
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    items: Object = schema["items"] if isinstance(schema.get("items"), dict) else {}
    if list_type not in (None, "atomic", "set", "map"):
        yield unsupported_value(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "map", "set"))
    elif list_type and schema.get("type") != "array":
        yield invalid_value(
            f"{path}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified"
        )
    if keys and list_type != "map":
        yield required_value(f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty")
    if list_type == "map":
        if not keys:
            yield required_value(
                f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"
            )
        if items.get("type") != "object":
            yield invalid_value(
                f"{path}.items.type", items.get("type"), "must be object if x-kubernetes-list-type is map"
            )
        yield from _validate_list_keys(items, keys or (), path)
    if list_type == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid_value(
            f"{path}.items.x-kubernetes-map-type",
            None,
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        )
    if schema.get("x-kubernetes-map-type") not in (None, "atomic", "granular"):
        yield unsupported_value(
            f"{path}.x-kubernetes-map-type", schema["x-kubernetes-map-type"], ("atomic", "granular")
        )


def _validate_list_keys(items: Object, keys: Any, path: str) -> Iterator[StatusCause]:
    properties = items.get("properties") or {}
    for index, name in enumerate(keys):
        property_path = f"{path}.items.properties[{name}]"
        if name not in properties:
            yield invalid_value(f"{path}.x-kubernetes-list-map-keys[{index}]", name, "must be a property of the items")
        elif properties[name].get("type") not in _SCALAR_TYPES:
            yield invalid_value(
                f"{property_path}.type",
                properties[name].get("type"),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            )
        elif name not in items.get("required", ()) and "default" not in properties[name]:
            yield required_value(
                f"{property_path}.default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be required",
            )


def _validate_combinators(schema: Object, path: str) -> Iterator[StatusCause]:
    """Yield a status cause for each forbidden keyword in `allOf`, `anyOf`, `oneOf` and `not`.

    A schema in these keywords may only restrict values.
    """
    forbidden_keywords = (
        _FORBIDDEN_IN_COMBINATORS if schema.get("x-kubernetes-int-or-string") else ("type", *_FORBIDDEN_IN_COMBINATORS)
    )
    for rule in _COMBINATORS:
        subschemas = schema.get(rule) or ()
        for index, subschema in enumerate([subschemas] if rule == "not" and subschemas else subschemas):
            for keyword in forbidden_keywords:
                if keyword in subschema:
                    yield forbidden_field(f"{path}.{rule}[{index}].{keyword}", "must be empty to be structural")


def _validate_values(schema: Object, path: str) -> Iterator[StatusCause]:
    """Yield status causes for an invalid pattern, for defaults that `schema` forbids, and for empty CEL rules."""
    if "pattern" in schema:
        try:
            compile_pattern(schema["pattern"])
        except PatternError as error:
            yield invalid_value(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
            )
            return
    if schema.get("default") is not None:
        for mistake in validate(schema, apply_defaults(schema, schema["default"])):
            yield invalid_value(f"{path}.default", schema["default"], str(mistake))
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        if not str(rule.get("rule", "")).strip():
            yield required_value(f"{path}.x-kubernetes-validations[{index}].rule", "rule is not specified")
