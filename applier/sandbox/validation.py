"""Rules of built-in kinds beyond their types: required fields, enumerations, and what may not change.

Only what a person meets who deploys ordinary things; the real server has thousands of rules more. Source: `validation.go`
of the API groups of Kubernetes. Reasons and fields of the causes are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from applier.sandbox.decoding import Decoder
from applier.sandbox.wire import Mistake, forbidden, invalid, required, unsupported

Object = dict[str, Any]
Schema = Mapping[str, Any]
Rule = Callable[[Object, Object | None], Iterator[Mistake]]

IMMUTABLE = "field is immutable"
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def by_schema(decoder: Decoder, schema: Schema, value: Any, path: str = "") -> Iterator[Mistake]:
    """Required fields and enumerations that the published schema names, but for those of statuses."""
    schema = decoder.resolve(schema)
    match value:
        case dict():
            properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
            for name in schema.get("required", ()):
                if value.get(name) in (None, "", []):
                    yield required(f"{path}.{name}" if path else name)
            for name, item in value.items():
                field = properties.get(name, rest)
                if isinstance(field, Mapping) and name not in ("metadata", "status"):
                    yield from by_schema(decoder, field, item, f"{path}.{name}" if path else name)
        case list():
            items: Schema = schema.get("items") or {}
            for index, item in enumerate(value if items else ()):
                yield from by_schema(decoder, items, item, f"{path}[{index}]")
        case str() if value and "enum" in schema and value not in schema["enum"]:
            yield unsupported(path, value, [word for word in schema["enum"] if word])


def _at(obj: Object | None, path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _unchanged(*paths: str) -> Rule:
    """These fields keep the value that they got at creation."""

    def rule(obj: Object, live: Object | None) -> Iterator[Mistake]:
        if live is not None:
            for path in paths:
                if _at(obj, path) != _at(live, path):
                    yield invalid(path, _at(obj, path), IMMUTABLE)

    return rule


def _configuration(obj: Object, live: Object | None) -> Iterator[Mistake]:
    """ConfigMap and Secret: valid keys, not too much, and nothing changes once it is immutable."""
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if not _CONFIG_KEY.fullmatch(key):
                yield invalid(f"{field}[{key}]", key, _CONFIG_KEY_RULE)
    size = sum(len(value) for field in ("data", "binaryData") for value in (obj.get(field) or {}).values())
    if size > 1024 * 1024:
        yield Mistake("", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes")
    if live and live.get("immutable"):
        if not obj.get("immutable"):
            yield forbidden("immutable", "field is immutable when `immutable` is set")
        for field in ("data", "binaryData"):
            if (obj.get(field) or {}) != (live.get(field) or {}):
                yield forbidden(field, "field is immutable when `immutable` is set")


def _selected(obj: Object, live: Object | None) -> Iterator[Mistake]:
    """Workloads: the selector finds the pods of the template, and stays."""
    selector = _at(obj, "spec.selector")
    labels = _at(obj, "spec.template.metadata.labels") or {}
    wanted = (selector or {}).get("matchLabels") or {}
    if isinstance(selector, dict) and not selector:
        yield invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif any(labels.get(name) != value for name, value in wanted.items()):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if live is not None and selector != _at(live, "spec.selector"):
        yield invalid("spec.selector", selector, IMMUTABLE)


_STATEFUL_FREE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def _stateful_set(obj: Object, live: Object | None) -> Iterator[Mistake]:
    yield from _selected(obj, None)
    if live is not None:
        after, before = obj.get("spec") or {}, live.get("spec") or {}
        if any(after.get(name) != before.get(name) for name in {*after, *before} - _STATEFUL_FREE):
            yield forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden",
            )


def _service(obj: Object, live: Object | None) -> Iterator[Mistake]:
    spec = obj.get("spec") or {}
    if not spec.get("ports") and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(spec.get("ports") or ()):
        if not 0 < port.get("port", 0) < 65536:
            yield invalid(f"spec.ports[{index}].port", port.get("port", 0), "must be between 1 and 65535, inclusive")
        if len(spec["ports"]) > 1 and not port.get("name"):
            yield required(f"spec.ports[{index}].name")
    before, after = _at(live, "spec.clusterIP"), spec.get("clusterIP")
    if before and spec.get("type") != "ExternalName" and after != before:
        yield invalid("spec.clusterIPs[0]", [after] if after else [], "may not change once set")


def _role_binding(obj: Object, live: Object | None) -> Iterator[Mistake]:
    if live is not None and obj.get("roleRef") != live.get("roleRef"):
        yield invalid("roleRef", obj.get("roleRef"), "cannot change roleRef")


def _claim(obj: Object, live: Object | None) -> Iterator[Mistake]:
    if live is None:
        if not _at(obj, "spec.accessModes"):
            yield required("spec.accessModes", "at least 1 access mode is required")
        if not _at(obj, "spec.resources.requests.storage"):
            yield required("spec.resources[storage]")
        return
    after, before = dict(obj.get("spec") or {}), dict(live.get("spec") or {})
    for spec in (after, before):
        spec.pop("resources", None)
        spec.pop("volumeAttributesClassName", None)
    if before.get("volumeName") is None:
        after.pop("volumeName", None)
    if after != before:
        yield forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        )


def _storage_class(obj: Object, live: Object | None) -> Iterator[Mistake]:
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if live is not None and (obj.get(field) or None) != (live.get(field) or None):
            yield forbidden(field, f"updates to {field} are forbidden.")


def _autoscaler(obj: Object, live: Object | None) -> Iterator[Mistake]:
    low, high = _at(obj, "spec.minReplicas") or 1, _at(obj, "spec.maxReplicas") or 0
    if high < 1:
        yield invalid("spec.maxReplicas", high, "must be greater than 0")
    elif high < low:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")


def _definition(obj: Object, live: Object | None) -> Iterator[Mistake]:
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
        schema = _at(version, "schema.openAPIV3Schema")
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
        if live is not None and _established(live) and _at(spec, path) != _at(live, f"spec.{path}"):
            yield invalid(f"spec.{path}", _at(spec, path), IMMUTABLE)


def _established(definition: Object) -> bool:
    conditions = _at(definition, "status.conditions") or []
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


def _secret(obj: Object, live: Object | None) -> Iterator[Mistake]:
    yield from _configuration(obj, live)
    yield from _unchanged("type")(obj, live)


RULES: Mapping[str, Rule] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _role_binding,
    "configmaps": _configuration,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
    "daemonsets.apps": _selected,
    "deployments.apps": _selected,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "jobs.batch": _unchanged("spec.selector", "spec.template", "spec.completionMode"),
    "persistentvolumeclaims": _claim,
    "priorityclasses.scheduling.k8s.io": _unchanged("value", "preemptionPolicy"),
    "replicasets.apps": _selected,
    "rolebindings.rbac.authorization.k8s.io": _role_binding,
    "secrets": _secret,
    "services": _service,
    "statefulsets.apps": _stateful_set,
    "storageclasses.storage.k8s.io": _storage_class,
}
"""By resource."""
