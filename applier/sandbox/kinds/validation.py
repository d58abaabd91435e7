"""Validation of built-in kinds beyond their types: required fields, enumerations, immutable fields.

The rules cover mistakes in ordinary workloads. The real server has thousands of further rules. The reasons and fields
of the causes are the same as those of the real server.

Source: `validation.go` of the API groups of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.jsonpath import get_field
from applier.sandbox.kinds import pod_validation
from applier.sandbox.kinds.go_types import GoType
from applier.sandbox.kinds.names import validate_labels
from applier.sandbox.kinds.structural_schema import validate_definition
from applier.sandbox.wire import (
    forbidden_field,
    format_json,
    immutable_field,
    invalid_value,
    required_value,
    unsupported_value,
)

Rule = Callable[[Object, Object | None], Iterator[StatusCause]]

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)

_UNENFORCED_REQUIRED = re.compile(
    r"spec\.limits|spec\.dataSource(Ref)?\.(kind|name)|(.+\.)?securityContext\.sysctls\[[0-9]+\]\.value"
)
"""Paths of fields that the schema requires, although the server accepts an empty value.

A LimitRange may have no limits, and a sysctl may have an empty value. The server drops an empty data source.
"""


def validate_schema(go_type: GoType, value: Any, path: str = "") -> Iterator[StatusCause]:
    """Yield a status cause for each missing required field and unknown enumeration value, according to the schema.

    The function does not check metadata and statuses.
    """
    match value:
        case dict():
            for name in go_type.schema.get("required", ()):
                field_path = f"{path}.{name}" if path else name
                if value.get(name) in (None, "", []) and not _UNENFORCED_REQUIRED.fullmatch(field_path):
                    yield required_value(field_path)
            for name, item in value.items():
                field = go_type.fields.get(name)
                inner_type = field.go_type if field else go_type.item_type
                if inner_type and name not in ("metadata", "status"):
                    yield from validate_schema(inner_type, item, f"{path}.{name}" if path else name)
        case list() if go_type.item_type:
            for index, item in enumerate(value):
                yield from validate_schema(go_type.item_type, item, f"{path}[{index}]")
        case str() if value and value not in go_type.schema.get("enum", (value,)):
            yield unsupported_value(path, value, [choice for choice in go_type.schema["enum"] if choice])


def _immutable_fields_rule(*paths: str) -> Rule:
    """Return a rule that forbids changes of the fields at the dotted `paths` after creation."""

    def rule(obj: Object, live: Object | None) -> Iterator[StatusCause]:
        if live is not None:
            for path in paths:
                if get_field(obj, path) != get_field(live, path):
                    yield immutable_field(path, get_field(obj, path))

    return rule


def _validate_configuration(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    """Yield the causes of mistakes in a ConfigMap or Secret: keys, size, and changes of an immutable object."""
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if not _CONFIG_KEY.fullmatch(key):
                yield invalid_value(f"{field}[{key}]", key, _CONFIG_KEY_RULE)
    size = sum(len(value) for field in ("data", "binaryData") for value in (obj.get(field) or {}).values())
    if size > 1024 * 1024:
        yield StatusCause("", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes")
    if live and live.get("immutable"):
        if not obj.get("immutable"):
            yield forbidden_field("immutable", "field is immutable when `immutable` is set")
        for field in ("data", "binaryData"):
            if (obj.get(field) or {}) != (live.get(field) or {}):
                yield forbidden_field(field, "field is immutable when `immutable` is set")


def _validate_workload(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    """Yield the causes of mistakes in a workload: its selector, counts and pod template.

    The selector must match the labels of the template, and must not change.
    """
    selector = get_field(obj, "spec.selector")
    template_labels = get_field(obj, "spec.template.metadata.labels") or {}
    match_labels = (selector or {}).get("matchLabels") or {}
    if isinstance(selector, dict) and not selector:
        yield invalid_value("spec.selector", selector, "empty selector is invalid for deployment")
    elif any(template_labels.get(name) != value for name, value in match_labels.items()):
        yield invalid_value(
            "spec.template.metadata.labels", template_labels, "`selector` does not match template `labels`"
        )
    if live is not None and selector != get_field(live, "spec.selector"):
        yield immutable_field("spec.selector", selector)
    yield from _validate_counts(obj)
    yield from pod_validation.validate_template(obj, "spec.template")


_MUTABLE_STATEFUL_SET_FIELDS = frozenset(
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


def _validate_stateful_set(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    yield from _validate_workload(obj, None)
    if live is not None:
        new_spec, old_spec = obj.get("spec") or {}, live.get("spec") or {}
        if any(
            new_spec.get(name) != old_spec.get(name) for name in {*new_spec, *old_spec} - _MUTABLE_STATEFUL_SET_FIELDS
        ):
            yield forbidden_field(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden",
            )


def _validate_service(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    spec = obj["spec"]
    ports, kind = spec.get("ports", ()), spec["type"]
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required_value("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        yield required_value("spec.externalName")
    yield from validate_labels(spec.get("selector", {}), "spec.selector")
    yield from _validate_service_ports(ports, kind)
    yield from _validate_cluster_ip(spec, live)


def _validate_service_ports(ports: Sequence[Object], kind: str) -> Iterator[StatusCause]:
    seen: list[Any] = []
    for index, port in enumerate(ports):
        port_path = f"spec.ports[{index}]"
        if not 0 < port["port"] < 65536:
            yield invalid_value(f"{port_path}.port", port["port"], "must be between 1 and 65535, inclusive")
        if len(ports) > 1 and not port.get("name"):
            yield required_value(f"{port_path}.name")
        if port.get("nodePort") and kind not in ("NodePort", "LoadBalancer"):
            yield forbidden_field(f"{port_path}.nodePort", f"may not be used when `type` is '{kind}'")
        for value, field in (
            (port.get("name"), f"{port_path}.name"),
            ((port["port"], port.get("protocol")), port_path),
        ):
            if value and value in seen:
                yield StatusCause(field, "FieldValueDuplicate", f"Duplicate value: {format_json(value)}")
            seen.append(value)


def _validate_cluster_ip(spec: Object, live: Object | None) -> Iterator[StatusCause]:
    old_address, new_address = get_field(live, "spec.clusterIP"), spec.get("clusterIP")
    if old_address and spec["type"] != "ExternalName" and new_address != old_address:
        yield invalid_value("spec.clusterIPs[0]", [new_address] if new_address else [], "may not change once set")
    elif new_address and new_address != "None" and not _is_address(new_address):
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid_value("spec.clusterIPs[0]", new_address, detail)


def _is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


def _validate_job(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    yield from _immutable_fields_rule("spec.selector", "spec.template", "spec.completionMode")(obj, live)
    yield from _validate_counts(obj)
    yield from pod_validation.validate_template(obj, "spec.template", restart_policies=("OnFailure", "Never"))


def _validate_cron_job(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    yield from _validate_counts(obj)
    yield from pod_validation.validate_template(
        obj, "spec.jobTemplate.spec.template", restart_policies=("OnFailure", "Never")
    )


def _validate_pod(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    yield from pod_validation.validate_pod_spec(obj["spec"], "spec")
    if live is not None and _immutable_pod_spec(obj) != _immutable_pod_spec(live):
        yield forbidden_field(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )


def _immutable_pod_spec(pod: Object) -> Object:
    """Return the part of the spec of `pod` that must not change after creation."""
    spec = {name: value for name, value in pod["spec"].items() if name not in ("activeDeadlineSeconds", "tolerations")}
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [
                {name: value for name, value in container.items() if name != "image"} for container in spec[kind]
            ]
    return spec


def _validate_role_binding(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    if live is not None and obj.get("roleRef") != live.get("roleRef"):
        yield invalid_value("roleRef", obj.get("roleRef"), "cannot change roleRef")


def _validate_role(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    for index, rule in enumerate(obj.get("rules") or ()):
        for field, label in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get("nonResourceURLs") and not rule.get(field):
                yield required_value(f"rules[{index}].{field}", f"resource rules must supply at least one {label}")


def _validate_ingress(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    spec = obj.get("spec") or {}
    rules = spec.get("rules") or ()
    if "defaultBackend" in spec:
        yield from _validate_backend(spec["defaultBackend"], "spec.defaultBackend")
    elif not rules:
        yield invalid_value("spec", rules, "either `defaultBackend` or `rules` must be specified")
    for number, rule in enumerate(rules):
        for index, path in enumerate(get_field(rule, "http.paths") or ()):
            yield from _validate_backend(path.get("backend") or {}, f"spec.rules[{number}].http.paths[{index}].backend")


def _validate_backend(backend: Object, path: str) -> Iterator[StatusCause]:
    if "service" not in backend and "resource" not in backend:
        yield invalid_value(path, "", "resource or service backend is required")
    elif "service" in backend and not {"name", "number"} & (backend["service"].get("port") or {}).keys():
        yield required_value(path, "port name or number is required")


def _validate_ingress_class(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    if not get_field(obj, "spec.controller"):
        yield required_value("spec.controller")


_COUNT_FIELDS = (
    *("replicas", "minReadySeconds", "revisionHistoryLimit", "backoffLimit", "completions", "parallelism"),
    *("activeDeadlineSeconds", "ttlSecondsAfterFinished", "startingDeadlineSeconds"),
)


def _validate_counts(obj: Object) -> Iterator[StatusCause]:
    """Yield a status cause for each negative number in the fields of `obj` that count replicas, retries or seconds."""
    for path in ("spec", "spec.jobTemplate.spec"):
        spec = get_field(obj, path)
        for name in _COUNT_FIELDS if isinstance(spec, dict) else ():
            if isinstance(number := spec.get(name), int) and number < 0:
                yield invalid_value(f"{path}.{name}", number, "must be greater than or equal to 0")


def _validate_claim(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    if live is None:
        if not get_field(obj, "spec.accessModes"):
            yield required_value("spec.accessModes", "at least 1 access mode is required")
        if not get_field(obj, "spec.resources.requests.storage"):
            yield required_value("spec.resources[storage]")
        return
    new_spec, old_spec = dict(obj.get("spec") or {}), dict(live.get("spec") or {})
    for spec in (new_spec, old_spec):
        spec.pop("resources", None)
        spec.pop("volumeAttributesClassName", None)
    if old_spec.get("volumeName") is None:
        new_spec.pop("volumeName", None)
    if new_spec != old_spec:
        yield forbidden_field(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        )


def _validate_storage_class(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if live is not None and (obj.get(field) or None) != (live.get(field) or None):
            yield forbidden_field(field, f"updates to {field} are forbidden.")


def _validate_autoscaler(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    min_replicas, max_replicas = get_field(obj, "spec.minReplicas") or 1, get_field(obj, "spec.maxReplicas") or 0
    if max_replicas < 1:
        yield invalid_value("spec.maxReplicas", max_replicas, "must be greater than 0")
    elif max_replicas < min_replicas:
        yield invalid_value("spec.maxReplicas", max_replicas, "must be greater than or equal to `minReplicas`")


def _validate_secret(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    yield from _validate_configuration(obj, live)
    yield from _immutable_fields_rule("type")(obj, live)


VALIDATION_RULES: Mapping[str, Rule] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _validate_role_binding,
    "clusterroles.rbac.authorization.k8s.io": _validate_role,
    "configmaps": _validate_configuration,
    "cronjobs.batch": _validate_cron_job,
    "customresourcedefinitions.apiextensions.k8s.io": validate_definition,
    "daemonsets.apps": _validate_workload,
    "deployments.apps": _validate_workload,
    "horizontalpodautoscalers.autoscaling": _validate_autoscaler,
    "ingressclasses.networking.k8s.io": _validate_ingress_class,
    "ingresses.networking.k8s.io": _validate_ingress,
    "jobs.batch": _validate_job,
    "persistentvolumeclaims": _validate_claim,
    "pods": _validate_pod,
    "priorityclasses.scheduling.k8s.io": _immutable_fields_rule("value", "preemptionPolicy"),
    "replicasets.apps": _validate_workload,
    "rolebindings.rbac.authorization.k8s.io": _validate_role_binding,
    "roles.rbac.authorization.k8s.io": _validate_role,
    "secrets": _validate_secret,
    "services": _validate_service,
    "statefulsets.apps": _validate_stateful_set,
    "storageclasses.storage.k8s.io": _validate_storage_class,
}
"""Functions that yield the status causes of mistakes in an object, by resource."""
