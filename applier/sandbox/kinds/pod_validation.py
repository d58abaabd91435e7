"""Rules of pods and of templates for them, as people meet them who write workloads.

Source: `pkg/apis/core/validation` of Kubernetes. Fields, reasons and words are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from applier.sandbox.jsonpath import at
from applier.sandbox.kinds.names import labels, named
from applier.sandbox.wire import StatusCause, forbidden, invalid, required, shown, unsupported
from renderer import quantity

Object = dict[str, Any]

_PORT_NAME = re.compile("(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_MAPS = ("configMapRef", "secretRef")
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def template(obj: Object, path: str, *, restarts: Sequence[str] = ("Always",)) -> Iterator[StatusCause]:
    """Mistakes in the pod template at a dotted path of an object; `restarts` are the policies that its kind allows."""
    found = at(obj, path)
    yield from labels(found["metadata"].get("labels", {}), f"{path}.labels")
    claims = [claim["metadata"].get("name", "") for claim in obj["spec"].get("volumeClaimTemplates", ())]
    yield from specification(found["spec"], f"{path}.spec", restarts=restarts, claims=claims)


def specification(
    spec: Object,
    path: str,
    *,
    restarts: Sequence[str] = ("Always", "OnFailure", "Never"),
    claims: Sequence[str] = (),
) -> Iterator[StatusCause]:
    """Mistakes in what a pod is to be; `claims` are volumes that it gets beside those that it names."""
    policy = spec["restartPolicy"]
    if policy == "Always" and policy not in restarts:
        # This is the default: to leave it out is meant.
        words = ", ".join(f'"{word}"' for word in restarts)
        yield required(f"{path}.restartPolicy", f"valid values: {words}")
    elif policy not in restarts:
        yield unsupported(f"{path}.restartPolicy", policy, restarts)
    volumes = set(claims)
    for index, volume in enumerate(spec.get("volumes", ())):
        mistakes = list(_source(volume, f"{path}.volumes[{index}]"))
        yield from mistakes
        if not mistakes:
            volumes.add(volume["name"])
    yield from _told_apart(spec.get("volumes", ()), f"{path}.volumes")
    known: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            place = f"{path}.{kind}[{index}]"
            yield from _name(container.get("name"), f"{place}.name", known)
            yield from _container(container, place, volumes)


def _source(volume: Object, path: str) -> Iterator[StatusCause]:
    for source, name in (("configMap", "name"), ("secret", "secretName")):
        if source in volume and not volume[source].get(name):
            yield required(f"{path}.{source}.{name}")


def _told_apart(things: Sequence[Object], path: str) -> Iterator[StatusCause]:
    known: set[str] = set()
    for index, one in enumerate(things):
        yield from _name(one.get("name"), f"{path}[{index}].name", known)


def _name(name: str | None, path: str, known: set[str]) -> Iterator[StatusCause]:
    if name:
        yield from named(name, path, "label")
        if name in known:
            yield StatusCause(path, "FieldValueDuplicate", f"Duplicate value: {shown(name)}")
        known.add(name)


def _container(container: Object, path: str, volumes: set[str]) -> Iterator[StatusCause]:
    if not container.get("image", "").strip():
        yield required(f"{path}.image")
    for index, port in enumerate(container.get("ports", ())):
        yield from _port(port, f"{path}.ports[{index}]")
    for index, variable in enumerate(container.get("env", ())):
        yield from _variable(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom", ())):
        if not (given := [name for name in _MAPS if name in source]):
            yield invalid(f"{path}.envFrom", "", f"must specify one of: `{'` or `'.join(_MAPS)}`")
        for name in given:
            if not source[name].get("name"):
                yield required(f"{path}.envFrom[{index}].{name}.name")
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if mount["name"] and mount["name"] not in volumes:
            message = f"Not found: {shown(mount['name'])}"
            yield StatusCause(f"{path}.volumeMounts[{index}].name", "FieldValueNotFound", message)
    yield from _resources(container["resources"], f"{path}.resources")
    for name in _PROBES:
        if name in container:
            yield from _handler(container[name], f"{path}.{name}")
    for name, hook in container.get("lifecycle", {}).items():
        if isinstance(hook, dict):
            yield from _handler(hook, f"{path}.lifecycle.{name}")


def _port(port: Object, path: str) -> Iterator[StatusCause]:
    if name := port.get("name"):
        if len(name) > 15:
            yield invalid(f"{path}.name", name, "must be no more than 15 characters")
        elif not _PORT_NAME.fullmatch(name) or "--" in name:
            why = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), and at least one letter"
            yield invalid(f"{path}.name", name, why)
    for field in ("containerPort", "hostPort"):
        number = port.get(field, 0)
        if number and not 0 < number < 65536:
            yield invalid(f"{path}.{field}", number, "must be between 1 and 65535, inclusive")
    if not port["containerPort"]:
        yield required(f"{path}.containerPort")


def _variable(variable: Object, path: str) -> Iterator[StatusCause]:
    source = variable.get("valueFrom")
    if source is None:
        return
    given = [name for name in _SOURCES if name in source]
    if not given:
        words = "`, `".join(_SOURCES[:-1])
        yield invalid(f"{path}.valueFrom", "", f"must specify one of: `{words}` or `{_SOURCES[-1]}`")
    elif variable.get("value"):
        yield invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(f"{path}.valueFrom", "", "may not have more than one field specified at a time")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            yield from named(source[name].get("name", ""), f"{path}.valueFrom.{name}.name", "subdomain")


def _resources(resources: Object, path: str) -> Iterator[StatusCause]:
    limits = resources.get("limits", {})
    for field in ("limits", "requests"):
        for name, text in resources.get(field, {}).items():
            if text.startswith("-"):
                yield invalid(f"{path}.{field}[{name}]", text, "must be greater than or equal to 0")
    for name, text in resources.get("requests", {}).items():
        most = limits.get(name)
        if most is not None and (quantity.nanos(text) or 0) > (quantity.nanos(most) or 0):
            yield invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {most}")


def _handler(action: Object, path: str) -> Iterator[StatusCause]:
    given = [name for name in (*_HANDLERS, "sleep") if name in action]
    if not given:
        yield required(path, "must specify a handler type")
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
    if "exec" in action and not action["exec"].get("command"):
        yield required(f"{path}.exec.command")
    for name in ("httpGet", "tcpSocket", "grpc"):
        port = action.get(name, {}).get("port", 0)
        if name in action and isinstance(port, int) and not 0 < port < 65536:
            yield invalid(f"{path}.{name}.port", port, "must be between 1 and 65535, inclusive")
    for name in _SECONDS:
        if action.get(name, 0) < 0:
            yield invalid(f"{path}.{name}", action[name], "must be greater than or equal to 0")
