"""Validation of pods and pod templates, for mistakes that authors of workloads make.

The fields, reasons and messages of the status causes are the same as those of the API server.

Source: `pkg/apis/core/validation` of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.jsonpath import get_field
from applier.sandbox.kinds.names import validate_labels, validate_name
from applier.sandbox.wire import (
    forbidden_field,
    format_json,
    invalid_value,
    required_value,
    unsupported_value,
)
from renderer import quantity

_PORT_NAME = re.compile("(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLER_TYPES = ("exec", "httpGet", "tcpSocket", "grpc")
_ENV_FROM_SOURCES = ("configMapRef", "secretRef")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBE_FIELDS = ("livenessProbe", "readinessProbe", "startupProbe")


def validate_template(
    obj: Object, path: str, *, restart_policies: Sequence[str] = ("Always",)
) -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in a pod template.

    Args:
        obj: workload with the pod template.
        path: dotted path of the pod template in `obj`.
        restart_policies: policies that the kind of `obj` allows.
    """
    pod_template = get_field(obj, path)
    yield from validate_labels(pod_template["metadata"].get("labels", {}), f"{path}.labels")
    claim_names = [
        claim_template["metadata"].get("name", "") for claim_template in obj["spec"].get("volumeClaimTemplates", ())
    ]
    yield from validate_pod_spec(
        pod_template["spec"], f"{path}.spec", restart_policies=restart_policies, claim_names=claim_names
    )


def validate_pod_spec(
    spec: Object,
    path: str,
    *,
    restart_policies: Sequence[str] = ("Always", "OnFailure", "Never"),
    claim_names: Sequence[str] = (),
) -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in the pod spec `spec`.

    Args:
        path: dotted path of `spec` in the object.
        restart_policies: policies that the kind of the object allows.
        claim_names: volumes that containers may mount besides the volumes of `spec`.
    """
    policy = spec["restartPolicy"]
    if policy == "Always" and policy not in restart_policies:
        # The author probably omitted the field, because `Always` is the default.
        quoted_policies = ", ".join(f'"{restart_policy}"' for restart_policy in restart_policies)
        yield required_value(f"{path}.restartPolicy", f"valid values: {quoted_policies}")
    elif policy not in restart_policies:
        yield unsupported_value(f"{path}.restartPolicy", policy, restart_policies)
    volume_names = set(claim_names)
    for index, volume in enumerate(spec.get("volumes", ())):
        mistakes = list(_validate_volume_source(volume, f"{path}.volumes[{index}]"))
        yield from mistakes
        if not mistakes:
            volume_names.add(volume["name"])
    yield from _validate_unique_names(spec.get("volumes", ()), f"{path}.volumes")
    container_names: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            container_path = f"{path}.{kind}[{index}]"
            yield from _validate_unique_name(container.get("name"), f"{container_path}.name", container_names)
            yield from _validate_container(container, container_path, volume_names)


def _validate_volume_source(volume: Object, path: str) -> Iterator[StatusCause]:
    for source, name in (("configMap", "name"), ("secret", "secretName")):
        if source in volume and not volume[source].get(name):
            yield required_value(f"{path}.{source}.{name}")


def _validate_unique_names(named_objects: Sequence[Object], path: str) -> Iterator[StatusCause]:
    seen_names: set[str] = set()
    for index, named_object in enumerate(named_objects):
        yield from _validate_unique_name(named_object.get("name"), f"{path}[{index}].name", seen_names)


def _validate_unique_name(name: str | None, path: str, seen_names: set[str]) -> Iterator[StatusCause]:
    if name:
        yield from validate_name(name, path, "label")
        if name in seen_names:
            yield StatusCause(path, "FieldValueDuplicate", f"Duplicate value: {format_json(name)}")
        seen_names.add(name)


def _validate_container(container: Object, path: str, volume_names: set[str]) -> Iterator[StatusCause]:
    if not container.get("image", "").strip():
        yield required_value(f"{path}.image")
    for index, port in enumerate(container.get("ports", ())):
        yield from _validate_port(port, f"{path}.ports[{index}]")
    for index, variable in enumerate(container.get("env", ())):
        yield from _validate_variable(variable, f"{path}.env[{index}]")
    yield from _validate_env_sources(container.get("envFrom", ()), f"{path}.envFrom")
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if mount["name"] and mount["name"] not in volume_names:
            message = f"Not found: {format_json(mount['name'])}"
            yield StatusCause(f"{path}.volumeMounts[{index}].name", "FieldValueNotFound", message)
    yield from _validate_resources(container["resources"], f"{path}.resources")
    yield from _validate_handlers(container, path)


def _validate_env_sources(sources: Sequence[Object], path: str) -> Iterator[StatusCause]:
    for index, source in enumerate(sources):
        if not (types := [name for name in _ENV_FROM_SOURCES if name in source]):
            yield invalid_value(path, "", f"must specify one of: `{'` or `'.join(_ENV_FROM_SOURCES)}`")
        for name in types:
            if not source[name].get("name"):
                yield required_value(f"{path}[{index}].{name}.name")


def _validate_handlers(container: Object, path: str) -> Iterator[StatusCause]:
    for name in _PROBE_FIELDS:
        if name in container:
            yield from _validate_handler(container[name], f"{path}.{name}")
    for name, hook in container.get("lifecycle", {}).items():
        if isinstance(hook, dict):
            yield from _validate_handler(hook, f"{path}.lifecycle.{name}")


def _validate_port(port: Object, path: str) -> Iterator[StatusCause]:
    if name := port.get("name"):
        if len(name) > 15:
            yield invalid_value(f"{path}.name", name, "must be no more than 15 characters")
        elif not _PORT_NAME.fullmatch(name) or "--" in name:
            detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), and at least one letter"
            yield invalid_value(f"{path}.name", name, detail)
    for field in ("containerPort", "hostPort"):
        number = port.get(field, 0)
        if number and not 0 < number < 65536:
            yield invalid_value(f"{path}.{field}", number, "must be between 1 and 65535, inclusive")
    if not port["containerPort"]:
        yield required_value(f"{path}.containerPort")


def _validate_variable(variable: Object, path: str) -> Iterator[StatusCause]:
    source = variable.get("valueFrom")
    if source is None:
        return
    sources = [name for name in _ENV_SOURCES if name in source]
    if not sources:
        quoted_sources = "`, `".join(_ENV_SOURCES[:-1])
        yield invalid_value(f"{path}.valueFrom", "", f"must specify one of: `{quoted_sources}` or `{_ENV_SOURCES[-1]}`")
    elif variable.get("value"):
        yield invalid_value(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield invalid_value(f"{path}.valueFrom", "", "may not have more than one field specified at a time")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            yield from validate_name(source[name].get("name", ""), f"{path}.valueFrom.{name}.name", "subdomain")


def _validate_resources(resources: Object, path: str) -> Iterator[StatusCause]:
    limits = resources.get("limits", {})
    for field in ("limits", "requests"):
        for name, quantity_text in resources.get(field, {}).items():
            if quantity_text.startswith("-"):
                yield invalid_value(f"{path}.{field}[{name}]", quantity_text, "must be greater than or equal to 0")
    for name, quantity_text in resources.get("requests", {}).items():
        limit = limits.get(name)
        if limit is not None and (quantity.parse_nanos(quantity_text) or 0) > (quantity.parse_nanos(limit) or 0):
            yield invalid_value(
                f"{path}.requests", quantity_text, f"must be less than or equal to {name} limit of {limit}"
            )


def _validate_handler(action: Object, path: str) -> Iterator[StatusCause]:
    handler_types = [name for name in (*_HANDLER_TYPES, "sleep") if name in action]
    if not handler_types:
        yield required_value(path, "must specify a handler type")
    for name in handler_types[1:]:
        yield forbidden_field(f"{path}.{name}", "may not specify more than 1 handler type")
    if "exec" in action and not action["exec"].get("command"):
        yield required_value(f"{path}.exec.command")
    for name in ("httpGet", "tcpSocket", "grpc"):
        port = action.get(name, {}).get("port", 0)
        if name in action and isinstance(port, int) and not 0 < port < 65536:
            yield invalid_value(f"{path}.{name}.port", port, "must be between 1 and 65535, inclusive")
    for name in _PROBE_NUMBERS:
        if action.get(name, 0) < 0:
            yield invalid_value(f"{path}.{name}", action[name], "must be greater than or equal to 0")
