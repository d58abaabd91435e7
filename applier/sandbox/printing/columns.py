"""Columns and rows of the tables that `kubectl get` prints.

Built-in kinds have the columns of the real server. Custom kinds declare their columns. All other kinds have the columns
name and age.

Source: Kubernetes `pkg/printers`; "Additional printer columns".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from applier.cluster import Object
from applier.sandbox import jsonpath
from applier.sandbox.kinds.registry import Column, ServedKind
from applier.sandbox.printing.cells import (
    Cell,
    access_modes_cell,
    age,
    bound_claim_cell,
    class_parameters,
    containers_cell,
    count_cell,
    elapsed_time_cell,
    endpoints,
    event_source,
    external_address,
    field_cell,
    first_value_cell,
    format_age,
    ingress_hosts,
    involved_object,
    job_completions,
    job_duration,
    job_status,
    labels_cell,
    last_schedule_age,
    metric_targets,
    phase,
    pod_ready,
    ports,
    quota_usage_cell,
    ratio_cell,
    reference_cell,
    selector_cell,
    slice_endpoints,
    slice_ports,
    storage_class_name,
    subjects_cell,
    text_cell,
)
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Column of a table, with the function that computes its cells."""

    column: Column
    cell: Cell

    @property
    def definition(self) -> dict[str, Any]:
        column = self.column
        return {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }


def _column(name: str, cell: Cell, *, kind: str = "string", value_format: str = "", priority: int = 0) -> TableColumn:
    return TableColumn(Column(name, kind, "", value_format, "", priority), cell)


NAME_COLUMN = _column("Name", field_cell("metadata.name"), value_format="name")
AGE_COLUMN = _column("Age", age)
_CREATED_COLUMN = _column("Created At", field_cell("metadata.creationTimestamp"), kind="date")
_INTEGER, _BOOLEAN = "integer", "boolean"
_NONE, _UNSET = "<none>", "<unset>"


def _pod_columns(path: str) -> tuple[TableColumn, TableColumn]:
    return (
        _column("Containers", containers_cell("name", path), priority=1),
        _column("Images", containers_cell("image", path), priority=1),
    )


_WORKLOAD_COLUMNS = _pod_columns("spec.template.spec")
_SELECTOR_COLUMN = _column("Selector", selector_cell("spec.selector"), priority=1)
_BINDING_COLUMNS = (
    NAME_COLUMN,
    _column("Role", reference_cell("roleRef")),
    AGE_COLUMN,
    _column("Users", subjects_cell("User"), priority=1),
    _column("Groups", subjects_cell("Group"), priority=1),
    _column("ServiceAccounts", subjects_cell("ServiceAccount"), priority=1),
)
_EVENT_COLUMNS = (
    _column(
        "Last Seen",
        elapsed_time_cell("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", "eventTime"),
    ),
    _column("Type", field_cell("type")),
    _column("Reason", field_cell("reason")),
    _column("Object", involved_object),
    _column("Subobject", first_value_cell("involvedObject.fieldPath", "regarding.fieldPath"), priority=1),
    _column("Source", event_source, priority=1),
    _column("Message", lambda obj, _: str(obj.get("message") or obj.get("note") or "").strip()),
    _column("First Seen", elapsed_time_cell("firstTimestamp", "deprecatedFirstTimestamp", "eventTime"), priority=1),
    _column(
        "Count",
        lambda obj, now: first_value_cell("series.count", "count", "deprecatedCount")(obj, now) or 1,
        priority=1,
    ),
    _column("Name", field_cell("metadata.name"), value_format="name", priority=1),
)
_WEBHOOK_COLUMNS = (NAME_COLUMN, _column("Webhooks", count_cell("webhooks"), kind=_INTEGER), AGE_COLUMN)

BUILT_IN_COLUMNS: Mapping[str, Sequence[TableColumn]] = {
    "configmaps": (NAME_COLUMN, _column("Data", count_cell("data", "binaryData")), AGE_COLUMN),
    "secrets": (NAME_COLUMN, _column("Type", field_cell("type")), _column("Data", count_cell("data")), AGE_COLUMN),
    "namespaces": (NAME_COLUMN, _column("Status", field_cell("status.phase")), AGE_COLUMN),
    "pods": (
        NAME_COLUMN,
        _column("Ready", pod_ready),
        _column("Status", phase),
        _column("Restarts", lambda *_: "0"),
        AGE_COLUMN,
        _column("IP", field_cell("status.podIP", _NONE), priority=1),
        _column("Node", field_cell("spec.nodeName", _NONE), priority=1),
        _column("Nominated Node", field_cell("status.nominatedNodeName", _NONE), priority=1),
        _column("Readiness Gates", lambda *_: _NONE, priority=1),
    ),
    "services": (
        NAME_COLUMN,
        _column("Type", field_cell("spec.type")),
        _column("Cluster-IP", field_cell("spec.clusterIP", _NONE)),
        _column("External-IP", external_address),
        _column("Port(s)", ports),
        AGE_COLUMN,
        _column("Selector", labels_cell("spec.selector"), priority=1),
    ),
    "deployments.apps": (
        NAME_COLUMN,
        _column("Ready", ratio_cell("status.readyReplicas", "spec.replicas", otherwise=1)),
        _column("Up-to-date", field_cell("status.updatedReplicas", 0)),
        _column("Available", field_cell("status.availableReplicas", 0)),
        AGE_COLUMN,
        *_WORKLOAD_COLUMNS,
        _SELECTOR_COLUMN,
    ),
    "statefulsets.apps": (
        NAME_COLUMN,
        _column("Ready", ratio_cell("status.readyReplicas", "spec.replicas", otherwise=1)),
        AGE_COLUMN,
        *_WORKLOAD_COLUMNS,
    ),
    "daemonsets.apps": (
        NAME_COLUMN,
        _column("Desired", field_cell("status.desiredNumberScheduled", 0), kind=_INTEGER),
        _column("Current", field_cell("status.currentNumberScheduled", 0), kind=_INTEGER),
        _column("Ready", field_cell("status.numberReady", 0), kind=_INTEGER),
        _column("Up-to-date", field_cell("status.updatedNumberScheduled", 0), kind=_INTEGER),
        _column("Available", field_cell("status.numberAvailable", 0), kind=_INTEGER),
        _column("Node Selector", labels_cell("spec.template.spec.nodeSelector")),
        AGE_COLUMN,
        *_WORKLOAD_COLUMNS,
        _SELECTOR_COLUMN,
    ),
    "replicasets.apps": (
        NAME_COLUMN,
        _column("Desired", field_cell("spec.replicas", 1), kind=_INTEGER),
        _column("Current", field_cell("status.replicas", 0), kind=_INTEGER),
        _column("Ready", field_cell("status.readyReplicas", 0), kind=_INTEGER),
        AGE_COLUMN,
        *_WORKLOAD_COLUMNS,
        _SELECTOR_COLUMN,
    ),
    "scales.autoscaling": (
        NAME_COLUMN,
        _column("Desired", field_cell("spec.replicas", 0), kind=_INTEGER),
        _column("Available", field_cell("status.replicas", 0), kind=_INTEGER),
        AGE_COLUMN,
    ),
    "jobs.batch": (
        NAME_COLUMN,
        _column("Status", job_status),
        _column("Completions", job_completions),
        _column("Duration", job_duration),
        AGE_COLUMN,
        *_WORKLOAD_COLUMNS,
        _SELECTOR_COLUMN,
    ),
    "cronjobs.batch": (
        NAME_COLUMN,
        _column("Schedule", field_cell("spec.schedule")),
        _column("Timezone", field_cell("spec.timeZone", _NONE)),
        _column("Suspend", text_cell("spec.suspend", False), kind=_BOOLEAN),
        _column("Active", lambda obj, _: len((obj.get("status") or {}).get("active") or ()), kind=_INTEGER),
        _column("Last Schedule", last_schedule_age),
        AGE_COLUMN,
        *_pod_columns("spec.jobTemplate.spec.template.spec"),
        _column("Selector", selector_cell("spec.jobTemplate.spec.selector"), priority=1),
    ),
    "ingresses.networking.k8s.io": (
        NAME_COLUMN,
        _column("Class", field_cell("spec.ingressClassName", _NONE)),
        _column("Hosts", ingress_hosts),
        _column("Address", external_address),
        _column("Ports", lambda obj, _: "80, 443" if (obj.get("spec") or {}).get("tls") else "80"),
        AGE_COLUMN,
    ),
    "persistentvolumeclaims": (
        NAME_COLUMN,
        _column("Status", phase),
        _column("Volume", field_cell("spec.volumeName")),
        _column("Capacity", bound_claim_cell("spec.volumeName", field_cell("status.capacity.storage", "0"))),
        _column("Access Modes", bound_claim_cell("spec.volumeName", access_modes_cell("status.accessModes"))),
        _column("StorageClass", field_cell("spec.storageClassName")),
        _column("VolumeAttributesClass", field_cell("spec.volumeAttributesClassName", _UNSET)),
        AGE_COLUMN,
        _column("VolumeMode", field_cell("spec.volumeMode"), priority=1),
    ),
    "persistentvolumes": (
        NAME_COLUMN,
        _column("Capacity", field_cell("spec.capacity.storage")),
        _column("Access Modes", access_modes_cell("spec.accessModes")),
        _column("Reclaim Policy", field_cell("spec.persistentVolumeReclaimPolicy")),
        _column("Status", field_cell("status.phase")),
        _column("Claim", reference_cell("spec.claimRef", "namespace")),
        _column("StorageClass", field_cell("spec.storageClassName")),
        _column("VolumeAttributesClass", field_cell("spec.volumeAttributesClassName", _UNSET)),
        _column("Reason", field_cell("status.reason")),
        AGE_COLUMN,
        _column("VolumeMode", field_cell("spec.volumeMode"), priority=1),
    ),
    "horizontalpodautoscalers.autoscaling": (
        NAME_COLUMN,
        _column("Reference", reference_cell("spec.scaleTargetRef")),
        _column("Targets", metric_targets),
        _column("MinPods", text_cell("spec.minReplicas", _UNSET)),
        _column("MaxPods", field_cell("spec.maxReplicas", 0)),
        _column("Replicas", field_cell("status.currentReplicas", 0)),
        AGE_COLUMN,
    ),
    "networkpolicies.networking.k8s.io": (
        NAME_COLUMN,
        _column("Pod-Selector", selector_cell("spec.podSelector")),
        AGE_COLUMN,
    ),
    "poddisruptionbudgets.policy": (
        NAME_COLUMN,
        _column("Min Available", text_cell("spec.minAvailable", "N/A")),
        _column("Max Unavailable", text_cell("spec.maxUnavailable", "N/A")),
        _column("Allowed Disruptions", field_cell("status.disruptionsAllowed", 0), kind=_INTEGER),
        AGE_COLUMN,
    ),
    "ingressclasses.networking.k8s.io": (
        NAME_COLUMN,
        _column("Controller", field_cell("spec.controller")),
        _column("Parameters", class_parameters),
        AGE_COLUMN,
    ),
    "storageclasses.storage.k8s.io": (
        _column("Name", storage_class_name, value_format="name"),
        _column("Provisioner", field_cell("provisioner")),
        _column("ReclaimPolicy", field_cell("reclaimPolicy")),
        _column("VolumeBindingMode", field_cell("volumeBindingMode")),
        _column("AllowVolumeExpansion", field_cell("allowVolumeExpansion", False)),
        AGE_COLUMN,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME_COLUMN,
        _column("Value", field_cell("value", 0), kind=_INTEGER),
        _column("Global-Default", field_cell("globalDefault", False), kind=_BOOLEAN),
        AGE_COLUMN,
        _column("PreemptionPolicy", field_cell("preemptionPolicy")),
    ),
    "events": _EVENT_COLUMNS,
    "events.events.k8s.io": _EVENT_COLUMNS,
    "endpoints": (NAME_COLUMN, _column("Endpoints", endpoints), AGE_COLUMN),
    "endpointslices.discovery.k8s.io": (
        NAME_COLUMN,
        _column("AddressType", field_cell("addressType")),
        _column("Ports", slice_ports),
        _column("Endpoints", slice_endpoints),
        AGE_COLUMN,
    ),
    "leases.coordination.k8s.io": (NAME_COLUMN, _column("Holder", field_cell("spec.holderIdentity")), AGE_COLUMN),
    "rolebindings.rbac.authorization.k8s.io": _BINDING_COLUMNS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING_COLUMNS,
    "roles.rbac.authorization.k8s.io": (NAME_COLUMN, _CREATED_COLUMN),
    "clusterroles.rbac.authorization.k8s.io": (NAME_COLUMN, _CREATED_COLUMN),
    "limitranges": (NAME_COLUMN, _CREATED_COLUMN),
    "customresourcedefinitions.apiextensions.k8s.io": (NAME_COLUMN, _CREATED_COLUMN),
    "resourcequotas": (
        NAME_COLUMN,
        _column("Request", quota_usage_cell("requests")),
        _column("Limit", quota_usage_cell("limits")),
        AGE_COLUMN,
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (
        NAME_COLUMN,
        _column("Validations", lambda obj, _: len(obj["spec"].get("validations") or ()), kind=_INTEGER),
        _column("ParamKind", lambda obj, _: (obj["spec"].get("paramKind") or {}).get("kind", _UNSET)),
        AGE_COLUMN,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (
        NAME_COLUMN,
        _column("PolicyName", field_cell("spec.policyName")),
        _column("ParamRef", field_cell("spec.paramRef.name", _UNSET)),
        AGE_COLUMN,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOK_COLUMNS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOK_COLUMNS,
}


def build_row(columns: Iterable[TableColumn], obj: Object, now: float) -> list[Any]:
    """Return the cells of `obj` at `now`, in seconds after 1970-01-01 00:00 UTC."""
    return [column.cell(obj, now) for column in columns]


def columns_of(kind: ServedKind) -> Sequence[TableColumn]:
    """Return the columns of the table of `kind`. By default, the columns are name and age."""
    if not kind.is_custom:
        return BUILT_IN_COLUMNS.get(kind.resource, (NAME_COLUMN, AGE_COLUMN))
    return (
        (NAME_COLUMN, *(TableColumn(column, _path_cell(column)) for column in kind.columns))
        if kind.columns
        else (NAME_COLUMN, AGE_COLUMN)
    )


def _path_cell(column: Column) -> Cell:
    def cell(obj: Object, now: float) -> Any:
        values = jsonpath.find_values(column.path, obj)
        if not values or values == [None]:
            return None
        match column.type:
            case "integer":
                return values[0] if type(values[0]) is int else None
            case "number":
                return values[0] if isinstance(values[0], int | float) else None
            case "boolean":
                return values[0] if isinstance(values[0], bool) else None
            case "date":
                return format_age(values[0], now)
            case _:
                return ",".join(map(jsonpath.format_value, values))

    return cell
