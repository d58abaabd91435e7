"""The columns of built-in kinds in what `kubectl get` prints, as the real server has them; kinds that are not here show
name and age. Source: Kubernetes `pkg/printers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from applier.sandbox.kinds.registry import Column
from applier.sandbox.printing.cells import (
    Cell,
    address,
    age,
    at,
    bound,
    completions,
    containers,
    count,
    elapsed,
    endpoints,
    first,
    hosts,
    job_duration,
    job_status,
    labels,
    last_scheduled,
    modes,
    of,
    parameters,
    phase,
    pod_ready,
    ports,
    reference,
    regarding,
    selector,
    slice_endpoints,
    slice_ports,
    storage_class,
    subjects,
    targets,
    teller,
    text,
    used,
)
from renderer.frozen import dataclass


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


def _column(name: str, cell: Cell, *, kind: str = "string", form: str = "", priority: int = 0) -> TableColumn:
    return TableColumn(Column(name, kind, "", form, "", priority), cell)


NAME = _column("Name", at("metadata.name"), form="name")
AGE = _column("Age", age)
_CREATED = _column("Created At", at("metadata.creationTimestamp"), kind="date")
_INTEGER, _BOOLEAN = "integer", "boolean"
_NONE, _UNSET = "<none>", "<unset>"


def _of_pods(path: str) -> tuple[TableColumn, TableColumn]:
    return (
        _column("Containers", containers("name", path), priority=1),
        _column("Images", containers("image", path), priority=1),
    )


_WORKLOAD = _of_pods("spec.template.spec")
_SELECTOR = _column("Selector", selector("spec.selector"), priority=1)
_BINDING = (
    NAME,
    _column("Role", reference("roleRef")),
    AGE,
    _column("Users", subjects("User"), priority=1),
    _column("Groups", subjects("Group"), priority=1),
    _column("ServiceAccounts", subjects("ServiceAccount"), priority=1),
)
_EVENT = (
    _column("Last Seen", elapsed("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", "eventTime")),
    _column("Type", at("type")),
    _column("Reason", at("reason")),
    _column("Object", regarding),
    _column("Subobject", first("involvedObject.fieldPath", "regarding.fieldPath"), priority=1),
    _column("Source", teller, priority=1),
    _column("Message", lambda obj, _: str(obj.get("message") or obj.get("note") or "").strip()),
    _column("First Seen", elapsed("firstTimestamp", "deprecatedFirstTimestamp", "eventTime"), priority=1),
    _column("Count", lambda obj, now: first("series.count", "count", "deprecatedCount")(obj, now) or 1, priority=1),
    _column("Name", at("metadata.name"), form="name", priority=1),
)
_WEBHOOKS = (NAME, _column("Webhooks", count("webhooks"), kind=_INTEGER), AGE)

BUILT_IN: Mapping[str, Sequence[TableColumn]] = {
    "configmaps": (NAME, _column("Data", count("data", "binaryData")), AGE),
    "secrets": (NAME, _column("Type", at("type")), _column("Data", count("data")), AGE),
    "namespaces": (NAME, _column("Status", at("status.phase")), AGE),
    "pods": (
        NAME,
        _column("Ready", pod_ready),
        _column("Status", phase),
        _column("Restarts", lambda *_: "0"),
        AGE,
        _column("IP", at("status.podIP", _NONE), priority=1),
        _column("Node", at("spec.nodeName", _NONE), priority=1),
        _column("Nominated Node", at("status.nominatedNodeName", _NONE), priority=1),
        _column("Readiness Gates", lambda *_: _NONE, priority=1),
    ),
    "services": (
        NAME,
        _column("Type", at("spec.type")),
        _column("Cluster-IP", at("spec.clusterIP", _NONE)),
        _column("External-IP", address),
        _column("Port(s)", ports),
        AGE,
        _column("Selector", labels("spec.selector"), priority=1),
    ),
    "deployments.apps": (
        NAME,
        _column("Ready", of("status.readyReplicas", "spec.replicas", otherwise=1)),
        _column("Up-to-date", at("status.updatedReplicas", 0)),
        _column("Available", at("status.availableReplicas", 0)),
        AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "statefulsets.apps": (
        NAME,
        _column("Ready", of("status.readyReplicas", "spec.replicas", otherwise=1)),
        AGE,
        *_WORKLOAD,
    ),
    "daemonsets.apps": (
        NAME,
        _column("Desired", at("status.desiredNumberScheduled", 0), kind=_INTEGER),
        _column("Current", at("status.currentNumberScheduled", 0), kind=_INTEGER),
        _column("Ready", at("status.numberReady", 0), kind=_INTEGER),
        _column("Up-to-date", at("status.updatedNumberScheduled", 0), kind=_INTEGER),
        _column("Available", at("status.numberAvailable", 0), kind=_INTEGER),
        _column("Node Selector", labels("spec.template.spec.nodeSelector")),
        AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "replicasets.apps": (
        NAME,
        _column("Desired", at("spec.replicas", 1), kind=_INTEGER),
        _column("Current", at("status.replicas", 0), kind=_INTEGER),
        _column("Ready", at("status.readyReplicas", 0), kind=_INTEGER),
        AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "scales.autoscaling": (
        NAME,
        _column("Desired", at("spec.replicas", 0), kind=_INTEGER),
        _column("Available", at("status.replicas", 0), kind=_INTEGER),
        AGE,
    ),
    "jobs.batch": (
        NAME,
        _column("Status", job_status),
        _column("Completions", completions),
        _column("Duration", job_duration),
        AGE,
        *_WORKLOAD,
        _SELECTOR,
    ),
    "cronjobs.batch": (
        NAME,
        _column("Schedule", at("spec.schedule")),
        _column("Timezone", at("spec.timeZone", _NONE)),
        _column("Suspend", text("spec.suspend", False), kind=_BOOLEAN),
        _column("Active", lambda obj, _: len((obj.get("status") or {}).get("active") or ()), kind=_INTEGER),
        _column("Last Schedule", last_scheduled),
        AGE,
        *_of_pods("spec.jobTemplate.spec.template.spec"),
        _column("Selector", selector("spec.jobTemplate.spec.selector"), priority=1),
    ),
    "ingresses.networking.k8s.io": (
        NAME,
        _column("Class", at("spec.ingressClassName", _NONE)),
        _column("Hosts", hosts),
        _column("Address", address),
        _column("Ports", lambda obj, _: "80, 443" if (obj.get("spec") or {}).get("tls") else "80"),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        _column("Status", phase),
        _column("Volume", at("spec.volumeName")),
        _column("Capacity", bound("spec.volumeName", at("status.capacity.storage", "0"))),
        _column("Access Modes", bound("spec.volumeName", modes("status.accessModes"))),
        _column("StorageClass", at("spec.storageClassName")),
        _column("VolumeAttributesClass", at("spec.volumeAttributesClassName", _UNSET)),
        AGE,
        _column("VolumeMode", at("spec.volumeMode"), priority=1),
    ),
    "persistentvolumes": (
        NAME,
        _column("Capacity", at("spec.capacity.storage")),
        _column("Access Modes", modes("spec.accessModes")),
        _column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
        _column("Status", at("status.phase")),
        _column("Claim", reference("spec.claimRef", "namespace")),
        _column("StorageClass", at("spec.storageClassName")),
        _column("VolumeAttributesClass", at("spec.volumeAttributesClassName", _UNSET)),
        _column("Reason", at("status.reason")),
        AGE,
        _column("VolumeMode", at("spec.volumeMode"), priority=1),
    ),
    "horizontalpodautoscalers.autoscaling": (
        NAME,
        _column("Reference", reference("spec.scaleTargetRef")),
        _column("Targets", targets),
        _column("MinPods", text("spec.minReplicas", _UNSET)),
        _column("MaxPods", at("spec.maxReplicas", 0)),
        _column("Replicas", at("status.currentReplicas", 0)),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": (
        NAME,
        _column("Pod-Selector", selector("spec.podSelector")),
        AGE,
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        _column("Min Available", text("spec.minAvailable", "N/A")),
        _column("Max Unavailable", text("spec.maxUnavailable", "N/A")),
        _column("Allowed Disruptions", at("status.disruptionsAllowed", 0), kind=_INTEGER),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": (
        NAME,
        _column("Controller", at("spec.controller")),
        _column("Parameters", parameters),
        AGE,
    ),
    "storageclasses.storage.k8s.io": (
        _column("Name", storage_class, form="name"),
        _column("Provisioner", at("provisioner")),
        _column("ReclaimPolicy", at("reclaimPolicy")),
        _column("VolumeBindingMode", at("volumeBindingMode")),
        _column("AllowVolumeExpansion", at("allowVolumeExpansion", False)),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        _column("Value", at("value", 0), kind=_INTEGER),
        _column("Global-Default", at("globalDefault", False), kind=_BOOLEAN),
        AGE,
        _column("PreemptionPolicy", at("preemptionPolicy")),
    ),
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
    "endpoints": (NAME, _column("Endpoints", endpoints), AGE),
    "endpointslices.discovery.k8s.io": (
        NAME,
        _column("AddressType", at("addressType")),
        _column("Ports", slice_ports),
        _column("Endpoints", slice_endpoints),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, _column("Holder", at("spec.holderIdentity")), AGE),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "roles.rbac.authorization.k8s.io": (NAME, _CREATED),
    "clusterroles.rbac.authorization.k8s.io": (NAME, _CREATED),
    "limitranges": (NAME, _CREATED),
    "customresourcedefinitions.apiextensions.k8s.io": (NAME, _CREATED),
    "resourcequotas": (NAME, _column("Request", used("requests")), _column("Limit", used("limits")), AGE),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (
        NAME,
        _column("Validations", lambda obj, _: len(obj["spec"].get("validations") or ()), kind=_INTEGER),
        _column("ParamKind", lambda obj, _: (obj["spec"].get("paramKind") or {}).get("kind", _UNSET)),
        AGE,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (
        NAME,
        _column("PolicyName", at("spec.policyName")),
        _column("ParamRef", at("spec.paramRef.name", _UNSET)),
        AGE,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
}
