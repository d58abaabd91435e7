"""Rules of CustomResourceDefinitions. Source: apiextensions-apiserver `pkg/apis/apiextensions/validation`, and Kubernetes,
"Specifying a structural schema".

Not here: what the rules of a schema say and cost, for the applier knows no CEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from applier.sandbox.jsonpath import at
from applier.sandbox.kinds.names import named
from applier.sandbox.wire import StatusCause, forbidden, immutable, invalid, required, unsupported
from renderer.schema import apply_defaults, validate
from renderer.schema.patterns import PatternError, compiled

Object = dict[str, Any]

_APPROVAL: Final = "api-approved.kubernetes.io"
_COLUMNS: Final = ("boolean", "date", "integer", "number", "string")
_SCALARS: Final = ("boolean", "integer", "number", "string")
_TYPES: Final = ("array", *_SCALARS, "object")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf", "not")
_NOT_IN_PARTS: Final = ("additionalProperties", "default", "description", "nullable", "title")


def definition(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    """CustomResourceDefinition: names, one stored version, unchanged identity, structural schemas."""
    spec = obj.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    if obj["metadata"].get("name") != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield invalid("metadata.name", obj["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group')
    yield from _names(obj, spec.get("group", ""), names)
    if spec.get("scope") not in (None, "Cluster", "Namespaced"):
        yield unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        yield invalid("spec.preserveUnknownFields", True, f"set {_PRESERVE} in spec.versions[*].schema instead")
    if at(spec, "conversion.strategy") == "Webhook":
        for field in ("webhook.clientConfig", "webhook.conversionReviewVersions"):
            if not at(spec, f"conversion.{field}"):
                yield required(f"spec.conversion.{field}", "required when strategy is set to Webhook")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", None, "must have exactly one version marked as storage version")
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid("spec.versions", None, "must contain unique version names")
    for index, version in enumerate(versions):
        yield from _version(version, f"spec.versions[{index}]")
    for path in ("group", "scope", "names.kind", "names.plural"):
        if live is not None and _established(live) and at(spec, path) != at(live, f"spec.{path}"):
            yield immutable(f"spec.{path}", at(spec, path))


def _names(obj: Object, group: str, names: Object) -> Iterator[StatusCause]:
    if "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    elif f".{group}".endswith((".k8s.io", ".kubernetes.io")) and _APPROVAL not in (
        obj["metadata"].get("annotations") or {}
    ):
        yield required(f"metadata.annotations[{_APPROVAL}]", "protected groups must have approval annotation")
    single = {name: names[name] for name in ("plural", "singular", "kind", "listKind") if names.get(name)}
    lists = {
        f"{name}[{index}]": text
        for name in ("shortNames", "categories")
        for index, text in enumerate(names.get(name) or ())
    }
    for name, text in {**single, **lists}.items():
        yield from named(text.lower() if name in ("kind", "listKind") else text, f"spec.names.{name}", "service")


def _version(version: Object, path: str) -> Iterator[StatusCause]:
    yield from named(version.get("name", ""), f"{path}.name", "service")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        place = f"{path}.additionalPrinterColumns[{index}]"
        if column.get("type") not in _COLUMNS:
            yield invalid(f"{place}.type", column.get("type"), f"must be one of {','.join(_COLUMNS)}")
        if not str(column.get("jsonPath", "")).startswith("."):
            yield invalid(f"{place}.jsonPath", column.get("jsonPath"), "must be a simple json path starting with .")
    place = f"{path}.schema.openAPIV3Schema"
    schema = at(version, "schema.openAPIV3Schema")
    if schema is None:
        yield required(place, "schemas are required")
    elif isinstance(schema, dict):
        if schema.get("type") != "object":
            yield (
                invalid(f"{place}.type", schema["type"], 'must be "object" at the root')
                if schema.get("type")
                else required(f"{place}.type", "must not be empty at the root")
            )
        if set(at(schema, "properties.metadata.properties") or ()) - {"name", "generateName"}:
            yield forbidden(
                f"{place}.properties[metadata]", "must not specify anything other than name and generateName"
            )
        yield from _structural(schema, place)


def _established(definition: Object) -> bool:
    conditions = at(definition, "status.conditions") or []
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _structural(schema: Any, path: str) -> Iterator[StatusCause]:
    """Every node says its type, and lists and maps what is in them."""
    if not isinstance(schema, dict):
        return
    kind, properties = schema.get("type"), schema.get("properties")
    if not kind and not (schema.get(_PRESERVE) or schema.get("x-kubernetes-int-or-string")):
        yield required(f"{path}.type", "must not be empty for specified object fields")
    elif kind and kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
        return
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified, and be a schema object")
    if schema.get("uniqueItems"):
        yield forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if schema.get("x-kubernetes-embedded-resource") and not (properties or schema.get(_PRESERVE)):
        yield required(
            f"{path}.properties", f"must not be empty if x-kubernetes-embedded-resource is true without {_PRESERVE}"
        )
    yield from _merging(schema, path)
    yield from _parts(schema, path)
    if isinstance(properties, dict):
        if "additionalProperties" in schema:
            yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        for name, node in properties.items():
            if path.endswith("openAPIV3Schema") and name == "metadata":
                continue
            yield from _structural(node, f"{path}.properties[{name}]")
    yield from _structural(schema.get("items"), f"{path}.items")
    yield from _structural(schema.get("additionalProperties"), f"{path}.additionalProperties")
    yield from _values(schema, path)


def _merging(schema: Object, path: str) -> Iterator[StatusCause]:
    """How lists and maps are told apart when they are merged."""
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    items: Object = schema["items"] if isinstance(schema.get("items"), dict) else {}
    if list_type not in (None, "atomic", "set", "map"):
        yield unsupported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "map", "set"))
    elif list_type and schema.get("type") != "array":
        yield invalid(f"{path}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified")
    if keys and list_type != "map":
        yield required(f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty")
    if list_type == "map":
        if not keys:
            yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
        if items.get("type") != "object":
            yield invalid(f"{path}.items.type", items.get("type"), "must be object if x-kubernetes-list-type is map")
        yield from _keys(items, keys or (), path)
    if list_type == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(
            f"{path}.items.x-kubernetes-map-type",
            None,
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        )
    if schema.get("x-kubernetes-map-type") not in (None, "atomic", "granular"):
        yield unsupported(f"{path}.x-kubernetes-map-type", schema["x-kubernetes-map-type"], ("atomic", "granular"))


def _keys(items: Object, keys: Any, path: str) -> Iterator[StatusCause]:
    known = items.get("properties") or {}
    for index, name in enumerate(keys):
        place = f"{path}.items.properties[{name}]"
        if name not in known:
            yield invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", name, "must be a property of the items")
        elif known[name].get("type") not in _SCALARS:
            yield invalid(
                f"{place}.type",
                known[name].get("type"),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            )
        elif name not in items.get("required", ()) and "default" not in known[name]:
            yield required(
                f"{place}.default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be required",
            )


def _parts(schema: Object, path: str) -> Iterator[StatusCause]:
    """What is put together of several schemas says there nothing but what values may be."""
    banned = _NOT_IN_PARTS if schema.get("x-kubernetes-int-or-string") else ("type", *_NOT_IN_PARTS)
    for rule in _JUNCTORS:
        parts = schema.get(rule) or ()
        for index, part in enumerate([parts] if rule == "not" and parts else parts):
            for word in banned:
                if word in part:
                    yield forbidden(f"{path}.{rule}[{index}].{word}", "must be empty to be structural")


def _values(schema: Object, path: str) -> Iterator[StatusCause]:
    """Patterns, defaults and rules can be what they are for."""
    if "pattern" in schema:
        try:
            compiled(schema["pattern"])
        except PatternError as error:
            yield invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
            )
            return
    if schema.get("default") is not None:
        for mistake in validate(schema, apply_defaults(schema, schema["default"])):
            yield invalid(f"{path}.default", schema["default"], str(mistake))
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        if not str(rule.get("rule", "")).strip():
            yield required(f"{path}.x-kubernetes-validations[{index}].rule", "rule is not specified")
