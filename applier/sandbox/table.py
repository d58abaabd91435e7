"""Rows for people: what `kubectl get` prints.

Custom kinds say their columns themselves. Those of the built-in kinds that people deploy are written here as the real
server has them; all others show name and age. Source: Kubernetes `pkg/printers`, and "Additional printer columns".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from applier.sandbox import jsonpath
from applier.sandbox.durations import human
from applier.sandbox.kinds import Column, Kind

Object = dict[str, Any]
Cell = Callable[[Object, float], Any]
"""From an object and the time now (seconds since 1970)."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column and how its cells are made."""

    column: Column
    cell: Cell

    @property
    def definition(self) -> dict[str, Any]:
        one = self.column
        return {
            "name": one.name,
            "type": one.type,
            "format": one.format,
            "description": one.description,
            "priority": one.priority,
        }


def row(columns: Iterable[TableColumn], obj: Object, now: float) -> list[Any]:
    return [column.cell(obj, now) for column in columns]


def columns_of(kind: Kind) -> Sequence[TableColumn]:
    if not kind.custom:
        return _BUILT_IN.get(kind.resource, (_NAME, _AGE))
    return (
        (_NAME, *(TableColumn(column, _by_path(column)) for column in kind.columns)) if kind.columns else (_NAME, _AGE)
    )


def _by_path(column: Column) -> Cell:
    def cell(obj: Object, now: float) -> Any:
        found = jsonpath.find(column.path, obj)
        if not found or found == [None]:
            return None
        match column.type:
            case "integer":
                return found[0] if type(found[0]) is int else None
            case "number":
                return found[0] if isinstance(found[0], int | float) else None
            case "boolean":
                return found[0] if isinstance(found[0], bool) else None
            case "date":
                return _since(found[0], now)
            case _:
                return ",".join(map(_shown, found))

    return cell


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _since(time: Any, now: float) -> str:
    try:
        return human(now - datetime.fromisoformat(time).timestamp())
    except (TypeError, ValueError):
        return "<unknown>"


def _column(name: str, cell: Cell, *, kind: str = "string", form: str = "", priority: int = 0) -> TableColumn:
    return TableColumn(Column(name, kind, "", form, "", priority), cell)


def _at(path: str, default: Any = "") -> Cell:
    """The value at a dotted path."""
    names = path.split(".")

    def cell(obj: Object, _: float) -> Any:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


def _count(*fields: str) -> Cell:
    return lambda obj, _: sum(len(obj.get(field) or ()) for field in fields)


def _of(path: str, total: str, *, otherwise: int = 0) -> Cell:
    """`2/3`."""
    part, whole = _at(path, 0), _at(total, otherwise)
    return lambda obj, now: f"{part(obj, now)}/{whole(obj, now)}"


def _labels(path: str) -> Cell:
    found = _at(path, {})
    return lambda obj, now: ",".join(f"{key}={value}" for key, value in sorted(found(obj, now).items())) or "<none>"


def _containers(field: str) -> Cell:
    found = _at("spec.template.spec.containers", [])
    return lambda obj, now: ",".join(str(one.get(field, "")) for one in found(obj, now))


def _age(obj: Object, now: float) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def _ports(obj: Object, _: float) -> str:
    ports = (obj.get("spec") or {}).get("ports") or ()
    words = []
    for port in ports:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        words.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(words) or "<none>"


def _address(obj: Object, _: float) -> str:
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    found = [str(one.get("ip") or one.get("hostname")) for one in ingress]
    return ",".join(found) or ("<pending>" if spec.get("type") == "LoadBalancer" else "<none>")


def _job_status(obj: Object, _: float) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    held = [one["type"] for one in conditions if one.get("status") == "True"]
    return next((word for word in ("Complete", "Failed", "Suspended") if word in held), "Running")


def _job_duration(obj: Object, now: float) -> str:
    status = obj.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    return _since(status["startTime"], datetime.fromisoformat(end).timestamp() if end else now)


def _hosts(obj: Object, _: float) -> str:
    rules = (obj.get("spec") or {}).get("rules") or ()
    return ",".join(str(rule.get("host") or "*") for rule in rules) or "*"


def _pod_ready(obj: Object, _: float) -> str:
    states = (obj.get("status") or {}).get("containerStatuses") or ()
    total = len((obj.get("spec") or {}).get("containers") or ())
    return f"{sum(bool(one.get('ready')) for one in states)}/{total}"


def _bound(path: str) -> Cell:
    return lambda obj, now: ",".join(_at(path, [])(obj, now))


_NAME = _column("Name", _at("metadata.name"), form="name")
_AGE = _column("Age", _age)
_INTEGER = "integer"
_NONE = "<none>"

_WORKLOAD = (
    _column("Containers", _containers("name"), priority=1),
    _column("Images", _containers("image"), priority=1),
)
_SELECTOR = _column("Selector", _labels("spec.selector.matchLabels"), priority=1)

_BUILT_IN: Mapping[str, Sequence[TableColumn]] = {
    "configmaps": (_NAME, _column("Data", _count("data", "binaryData"), kind=_INTEGER), _AGE),
    "secrets": (_NAME, _column("Type", _at("type")), _column("Data", _count("data"), kind=_INTEGER), _AGE),
    "namespaces": (_NAME, _column("Status", _at("status.phase")), _AGE),
    "serviceaccounts": (_NAME, _column("Secrets", _count("secrets"), kind=_INTEGER), _AGE),
    "pods": (
        _NAME,
        _column("Ready", _pod_ready),
        _column("Status", _at("status.phase", "Pending")),
        _column("Restarts", lambda *_: "0"),
        _AGE,
    ),
    "services": (
        _NAME,
        _column("Type", _at("spec.type")),
        _column("Cluster-IP", _at("spec.clusterIP", _NONE)),
        _column("External-IP", _address),
        _column("Port(s)", _ports),
        _AGE,
        _column("Selector", _labels("spec.selector"), priority=1),
    ),
    "deployments.apps": (
        _NAME,
        _column("Ready", _of("status.readyReplicas", "spec.replicas", otherwise=1)),
        _column("Up-to-date", _at("status.updatedReplicas", 0)),
        _column("Available", _at("status.availableReplicas", 0)),
        _AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "statefulsets.apps": (
        _NAME,
        _column("Ready", _of("status.readyReplicas", "spec.replicas", otherwise=1)),
        _AGE,
        *_WORKLOAD,
    ),
    "daemonsets.apps": (
        _NAME,
        _column("Desired", _at("status.desiredNumberScheduled", 0), kind=_INTEGER),
        _column("Current", _at("status.currentNumberScheduled", 0), kind=_INTEGER),
        _column("Ready", _at("status.numberReady", 0), kind=_INTEGER),
        _column("Up-to-date", _at("status.updatedNumberScheduled", 0), kind=_INTEGER),
        _column("Available", _at("status.numberAvailable", 0), kind=_INTEGER),
        _column("Node Selector", _labels("spec.template.spec.nodeSelector")),
        _AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "replicasets.apps": (
        _NAME,
        _column("Desired", _at("spec.replicas", 1), kind=_INTEGER),
        _column("Current", _at("status.replicas", 0), kind=_INTEGER),
        _column("Ready", _at("status.readyReplicas", 0), kind=_INTEGER),
        _AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "scales.autoscaling": (
        _NAME,
        _column("Desired", _at("spec.replicas", 0), kind=_INTEGER),
        _column("Available", _at("status.replicas", 0), kind=_INTEGER),
        _AGE,
    ),
    "jobs.batch": (
        _NAME,
        _column("Status", _job_status),
        _column("Completions", _of("status.succeeded", "spec.completions", otherwise=1)),
        _column("Duration", _job_duration),
        _AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "cronjobs.batch": (
        _NAME,
        _column("Schedule", _at("spec.schedule")),
        _column("Timezone", _at("spec.timeZone", _NONE)),
        _column("Suspend", lambda obj, now: _shown(_at("spec.suspend", False)(obj, now))),
        _column("Active", lambda obj, _: len((obj.get("status") or {}).get("active") or ()), kind=_INTEGER),
        _column("Last Schedule", lambda *_: _NONE),
        _AGE,
    ),
    "ingresses.networking.k8s.io": (
        _NAME,
        _column("Class", _at("spec.ingressClassName", _NONE)),
        _column("Hosts", _hosts),
        _column("Address", _address),
        _column("Ports", lambda obj, _: "80, 443" if (obj.get("spec") or {}).get("tls") else "80"),
        _AGE,
    ),
    "persistentvolumeclaims": (
        _NAME,
        _column("Status", _at("status.phase")),
        _column("Volume", _at("spec.volumeName")),
        _column("Capacity", _at("status.capacity.storage")),
        _column("Access Modes", _bound("status.accessModes")),
        _column("StorageClass", _at("spec.storageClassName")),
        _column("VolumeAttributesClass", _at("spec.volumeAttributesClassName", "<unset>")),
        _AGE,
        _column("VolumeMode", _at("spec.volumeMode"), priority=1),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        _NAME,
        _column("Created At", _at("metadata.creationTimestamp"), kind="date"),
    ),
}
