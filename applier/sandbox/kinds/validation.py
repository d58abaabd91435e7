"""Rules of built-in kinds beyond their types: required fields, enumerations, and what may not change.

Only what a person meets who deploys ordinary things; the real server has thousands of rules more. Source: `validation.go`
of the API groups of Kubernetes. Reasons and fields of the causes are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from applier.sandbox.jsonpath import at
from applier.sandbox.kinds import pod_validation
from applier.sandbox.kinds.go_types import GoType
from applier.sandbox.kinds.names import labels
from applier.sandbox.kinds.structural_schema import definition
from applier.sandbox.wire import StatusCause, forbidden, immutable, invalid, required, shown, unsupported

Object = dict[str, Any]
Rule = Callable[[Object, Object | None], Iterator[StatusCause]]

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)

_NOT_HELD = re.compile(
    r"spec\.limits|spec\.dataSource(Ref)?\.(kind|name)|(.+\.)?securityContext\.sysctls\[[0-9]+\]\.value"
)
"""Fields that the schema calls required and the server takes without: an empty LimitRange is one, a sysctl may be set to
nothing, and a source of data that is none is dropped.
"""


def by_schema(form: GoType, value: Any, path: str = "") -> Iterator[StatusCause]:
    """Required fields and enumerations that the published schema names, but for those of statuses."""
    match value:
        case dict():
            for name in form.schema.get("required", ()):
                place = f"{path}.{name}" if path else name
                if value.get(name) in (None, "", []) and not _NOT_HELD.fullmatch(place):
                    yield required(place)
            for name, item in value.items():
                field = form.fields.get(name)
                inner = field.form if field else form.items
                if inner and name not in ("metadata", "status"):
                    yield from by_schema(inner, item, f"{path}.{name}" if path else name)
        case list() if form.items:
            for index, item in enumerate(value):
                yield from by_schema(form.items, item, f"{path}[{index}]")
        case str() if value and value not in form.schema.get("enum", (value,)):
            yield unsupported(path, value, [word for word in form.schema["enum"] if word])


def _unchanged(*paths: str) -> Rule:
    """These fields keep the value that they got at creation."""

    def rule(obj: Object, live: Object | None) -> Iterator[StatusCause]:
        if live is not None:
            for path in paths:
                if at(obj, path) != at(live, path):
                    yield immutable(path, at(obj, path))

    return rule


def _configuration(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    """ConfigMap and Secret: valid keys, not too much, and nothing changes once it is immutable."""
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if not _CONFIG_KEY.fullmatch(key):
                yield invalid(f"{field}[{key}]", key, _CONFIG_KEY_RULE)
    size = sum(len(value) for field in ("data", "binaryData") for value in (obj.get(field) or {}).values())
    if size > 1024 * 1024:
        yield StatusCause("", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes")
    if live and live.get("immutable"):
        if not obj.get("immutable"):
            yield forbidden("immutable", "field is immutable when `immutable` is set")
        for field in ("data", "binaryData"):
            if (obj.get(field) or {}) != (live.get(field) or {}):
                yield forbidden(field, "field is immutable when `immutable` is set")


def _selected(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    """Workloads: the selector finds the pods of the template, and stays."""
    selector = at(obj, "spec.selector")
    labels = at(obj, "spec.template.metadata.labels") or {}
    wanted = (selector or {}).get("matchLabels") or {}
    if isinstance(selector, dict) and not selector:
        yield invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif any(labels.get(name) != value for name, value in wanted.items()):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if live is not None and selector != at(live, "spec.selector"):
        yield immutable("spec.selector", selector)
    yield from _counts(obj)
    yield from pod_validation.template(obj, "spec.template")


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


def _stateful_set(obj: Object, live: Object | None) -> Iterator[StatusCause]:
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


def _service(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    spec = obj["spec"]
    ports, kind = spec.get("ports", ()), spec["type"]
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        yield required("spec.externalName")
    yield from labels(spec.get("selector", {}), "spec.selector")
    known: list[Any] = []
    for index, port in enumerate(ports):
        place = f"spec.ports[{index}]"
        if not 0 < port["port"] < 65536:
            yield invalid(f"{place}.port", port["port"], "must be between 1 and 65535, inclusive")
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{place}.name")
        if port.get("nodePort") and kind not in ("NodePort", "LoadBalancer"):
            yield forbidden(f"{place}.nodePort", f"may not be used when `type` is '{kind}'")
        for value, field in ((port.get("name"), f"{place}.name"), ((port["port"], port.get("protocol")), place)):
            if value and value in known:
                yield StatusCause(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")
            known.append(value)
    before, after = at(live, "spec.clusterIP"), spec.get("clusterIP")
    if before and kind != "ExternalName" and after != before:
        yield invalid("spec.clusterIPs[0]", [after] if after else [], "may not change once set")
    elif after and after != "None" and not _is_address(after):
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid("spec.clusterIPs[0]", after, why)


def _is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


def _job(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    yield from _unchanged("spec.selector", "spec.template", "spec.completionMode")(obj, live)
    yield from _counts(obj)
    yield from pod_validation.template(obj, "spec.template", restarts=("OnFailure", "Never"))


def _cron_job(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    yield from _counts(obj)
    yield from pod_validation.template(obj, "spec.jobTemplate.spec.template", restarts=("OnFailure", "Never"))


def _pod(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    yield from pod_validation.specification(obj["spec"], "spec")
    if live is not None and _fixed(obj) != _fixed(live):
        yield forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )


def _fixed(pod: Object) -> Object:
    """What of a pod stays as it was created."""
    spec = {name: value for name, value in pod["spec"].items() if name not in ("activeDeadlineSeconds", "tolerations")}
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [{name: value for name, value in one.items() if name != "image"} for one in spec[kind]]
    return spec


def _role_binding(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    if live is not None and obj.get("roleRef") != live.get("roleRef"):
        yield invalid("roleRef", obj.get("roleRef"), "cannot change roleRef")


def _role(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    for index, rule in enumerate(obj.get("rules") or ()):
        for field, word in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get("nonResourceURLs") and not rule.get(field):
                yield required(f"rules[{index}].{field}", f"resource rules must supply at least one {word}")


def _ingress(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    spec = obj.get("spec") or {}
    rules = spec.get("rules") or ()
    if "defaultBackend" in spec:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    elif not rules:
        yield invalid("spec", rules, "either `defaultBackend` or `rules` must be specified")
    for number, rule in enumerate(rules):
        for index, path in enumerate(at(rule, "http.paths") or ()):
            yield from _backend(path.get("backend") or {}, f"spec.rules[{number}].http.paths[{index}].backend")


def _backend(backend: Object, path: str) -> Iterator[StatusCause]:
    if "service" not in backend and "resource" not in backend:
        yield invalid(path, "", "resource or service backend is required")
    elif "service" in backend and not {"name", "number"} & (backend["service"].get("port") or {}).keys():
        yield required(path, "port name or number is required")


def _ingress_class(obj: Object, _: Object | None) -> Iterator[StatusCause]:
    if not at(obj, "spec.controller"):
        yield required("spec.controller")


_COUNTS = (
    *("replicas", "minReadySeconds", "revisionHistoryLimit", "backoffLimit", "completions", "parallelism"),
    *("activeDeadlineSeconds", "ttlSecondsAfterFinished", "startingDeadlineSeconds"),
)


def _counts(obj: Object) -> Iterator[StatusCause]:
    """Numbers of a workload that are not negative."""
    for path in ("spec", "spec.jobTemplate.spec"):
        found = at(obj, path)
        for name in _COUNTS if isinstance(found, dict) else ():
            if isinstance(number := found.get(name), int) and number < 0:
                yield invalid(f"{path}.{name}", number, "must be greater than or equal to 0")


def _claim(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    if live is None:
        if not at(obj, "spec.accessModes"):
            yield required("spec.accessModes", "at least 1 access mode is required")
        if not at(obj, "spec.resources.requests.storage"):
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


def _storage_class(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if live is not None and (obj.get(field) or None) != (live.get(field) or None):
            yield forbidden(field, f"updates to {field} are forbidden.")


def _autoscaler(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    low, high = at(obj, "spec.minReplicas") or 1, at(obj, "spec.maxReplicas") or 0
    if high < 1:
        yield invalid("spec.maxReplicas", high, "must be greater than 0")
    elif high < low:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")


def _secret(obj: Object, live: Object | None) -> Iterator[StatusCause]:
    yield from _configuration(obj, live)
    yield from _unchanged("type")(obj, live)


RULES: Mapping[str, Rule] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _role_binding,
    "clusterroles.rbac.authorization.k8s.io": _role,
    "configmaps": _configuration,
    "cronjobs.batch": _cron_job,
    "customresourcedefinitions.apiextensions.k8s.io": definition,
    "daemonsets.apps": _selected,
    "deployments.apps": _selected,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "ingressclasses.networking.k8s.io": _ingress_class,
    "ingresses.networking.k8s.io": _ingress,
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "pods": _pod,
    "priorityclasses.scheduling.k8s.io": _unchanged("value", "preemptionPolicy"),
    "replicasets.apps": _selected,
    "rolebindings.rbac.authorization.k8s.io": _role_binding,
    "roles.rbac.authorization.k8s.io": _role,
    "secrets": _secret,
    "services": _service,
    "statefulsets.apps": _stateful_set,
    "storageclasses.storage.k8s.io": _storage_class,
}
"""By resource."""
