"""Rules of CustomResourceDefinitions. Source: apiextensions-apiserver `pkg/apis/apiextensions/validation`, and Kubernetes,
"Specifying a structural schema".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from applier.sandbox.jsonpath import at
from applier.sandbox.wire import Mistake, forbidden, immutable, invalid, required, unsupported

Object = dict[str, Any]


def definition(obj: Object, live: Object | None) -> Iterator[Mistake]:
    """CustomResourceDefinition: one stored version, unchanged identity, structural schemas."""
    spec = obj.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    if obj["metadata"].get("name") != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield invalid("metadata.name", obj["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group')
    if spec.get("scope") not in (None, "Cluster", "Namespaced"):
        yield unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", None, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        place = f"spec.versions[{index}].schema.openAPIV3Schema"
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
            yield from _structural(schema, place)
    for path in ("group", "scope", "names.kind", "names.plural"):
        if live is not None and _established(live) and at(spec, path) != at(live, f"spec.{path}"):
            yield immutable(f"spec.{path}", at(spec, path))


def _established(definition: Object) -> bool:
    conditions = at(definition, "status.conditions") or []
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _structural(schema: Any, path: str) -> Iterator[Mistake]:
    """Every node says its type, and lists and maps what is in them."""
    if not isinstance(schema, dict):
        return
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string")
    if not schema.get("type") and not open_ended:
        yield required(f"{path}.type", "must not be empty for specified object fields")
    if schema.get("type") == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in (None, "atomic", "set", "map"):
        yield unsupported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "map", "set"))
    if list_type == "map" and not schema.get("x-kubernetes-list-map-keys"):
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    properties = schema.get("properties")
    if isinstance(properties, dict):
        if "additionalProperties" in schema:
            yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        for name, node in properties.items():
            if path.endswith("openAPIV3Schema") and name == "metadata":
                continue
            yield from _structural(node, f"{path}.properties[{name}]")
    yield from _structural(schema.get("items"), f"{path}.items")
    yield from _structural(schema.get("additionalProperties"), f"{path}.additionalProperties")
