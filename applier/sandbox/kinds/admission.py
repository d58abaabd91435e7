"""Fields that the server sets on a write to a built-in kind, by strategies, allocators and admission plugins.

The server sets initial statuses, selectors, additions to Pods, and addresses of Services. Fields that the server sets
have no owner. The sandbox derives addresses from names, so every run has the same addresses.

Source: Kubernetes `pkg/registry` (`PrepareForCreate`, `PrepareForUpdate`), its allocators, and the default admission
plugins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from applier.cluster import Object
from applier.sandbox.kinds.defaults import iterate_objects, set_defaults

Change = Callable[[Object, Object | None], None]
"""Function that changes an object. The second argument is the stored object, or None at creation."""


def _complete_namespace(obj: Object, live: Object | None) -> None:
    obj["spec"] = live["spec"] if live else {"finalizers": ["kubernetes"]}


def _complete_job(obj: Object, live: Object | None) -> None:
    """Set the selector of a Job to its uid, and add the server's labels to its pod template.

    If the Job and its template share a map of labels, the Job gets the server's labels too.
    """
    spec, metadata = obj["spec"], obj["metadata"]
    if live is not None and "selector" in live["spec"]:
        spec.setdefault("selector", live["spec"]["selector"])
    elif live is None:
        spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}})
    if not spec["manualSelector"]:
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for prefix in ("batch.kubernetes.io/", ""):
            labels |= {f"{prefix}controller-uid": metadata["uid"], f"{prefix}job-name": metadata.get("name", "")}
    metadata.setdefault("labels", spec["template"]["metadata"].get("labels", {}))


_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _complete_pod(obj: Object, live: Object | None) -> None:
    spec = obj["spec"]
    tolerations = spec.get("tolerations", [])
    for key in _TOLERATED_TAINTS:
        if not any(
            toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute"
            for toleration in tolerations
        ):
            default_toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, default_toleration]
    spec["tolerations"] = tolerations
    if "priorityClassName" not in spec:
        set_defaults(spec, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})
    if live is None:
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}


def _qos_class(spec: Object) -> str:
    container_resources = [
        container["resources"] for container in iterate_objects(spec.get("initContainers"), spec.get("containers"))
    ]
    if all(
        resources.get("limits", {}).keys() >= {"cpu", "memory"} and resources.get("requests") == resources["limits"]
        for resources in container_resources
    ):
        return "Guaranteed"
    has_requirements = any(resources.get(kind) for resources in container_resources for kind in ("limits", "requests"))
    return "Burstable" if has_requirements else "BestEffort"


def _complete_claim(obj: Object, _: Object | None) -> None:
    spec = obj["spec"]
    if source := spec.get("dataSource"):
        set_defaults(spec, {"dataSourceRef": source})
    elif (reference := spec.get("dataSourceRef")) and "namespace" not in reference:
        spec["dataSource"] = dict(reference)


def _complete_volume(obj: Object, live: Object | None) -> None:
    if live is None:
        obj["status"]["lastPhaseTransitionTime"] = obj["metadata"]["creationTimestamp"]


def _complete_service(obj: Object, live: Object | None) -> None:
    spec, old_spec = obj["spec"], (live or {}).get("spec") or {"type": "ExternalName"}
    _drop_unused_fields(spec, old_spec)
    if spec["type"] == "ExternalName":
        return
    metadata = obj["metadata"]
    namespaced_name = f"{metadata['namespace']}/{metadata.get('name', '')}"
    number = int.from_bytes(hashlib.blake2b(namespaced_name.encode(), digest_size=4).digest(), "big")
    spec.setdefault("clusterIP", old_spec.get("clusterIP") or f"10.0.{number >> 8 & 255}.{number % 254 + 1}")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    is_dual_stack = spec["clusterIP"] == "None" and not spec.get("selector")
    for name, value in (
        ("ipFamilyPolicy", "RequireDualStack" if is_dual_stack else "SingleStack"),
        ("ipFamilies", ["IPv4", "IPv6"] if is_dual_stack else ["IPv4"]),
    ):
        spec.setdefault(name, old_spec.get(name, value))
    if _has_node_ports(spec) and spec.get("allocateLoadBalancerNodePorts", True):
        node_ports = {
            port.get("name"): port["nodePort"] for port in iterate_objects(old_spec.get("ports")) if "nodePort" in port
        }
        for index, port in enumerate(iterate_objects(spec.get("ports"))):
            port.setdefault("nodePort", node_ports.get(port.get("name"), 30000 + (number + index) % 2768))
    if _has_health_check(spec):
        spec.setdefault("healthCheckNodePort", old_spec.get("healthCheckNodePort", 30000 + (number >> 4) % 2768))


def _has_node_ports(spec: Object) -> bool:
    return spec["type"] in ("NodePort", "LoadBalancer")


def _has_health_check(spec: Object) -> bool:
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


_TYPE_FIELDS: tuple[tuple[Callable[[Object], bool], tuple[str, ...]], ...] = (
    (
        lambda spec: spec["type"] != "ExternalName",
        ("clusterIP", "clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"),
    ),
    (_has_node_ports, ("externalTrafficPolicy",)),
    (_has_health_check, ("healthCheckNodePort",)),
    (lambda spec: spec["type"] == "LoadBalancer", ("allocateLoadBalancerNodePorts", "loadBalancerClass")),
)
"""Fields that only some Services use, each group with the condition on the spec under which a Service uses the fields.
"""


def _drop_unused_fields(spec: Object, old_spec: Object) -> None:
    """Drop the unchanged fields of a Service that its former type used and its current type does not use."""
    for uses_fields, names in _TYPE_FIELDS:
        if uses_fields(old_spec) and not uses_fields(spec):
            for name in names:
                if spec.get(name) == old_spec.get(name):
                    spec.pop(name, None)
    if _has_node_ports(old_spec) and not _has_node_ports(spec):
        for port in iterate_objects(spec.get("ports")):
            port.pop("nodePort", None)


COMPLETERS: Mapping[str, Change] = {
    "jobs.batch": _complete_job,
    "namespaces": _complete_namespace,
    "persistentvolumeclaims": _complete_claim,
    "persistentvolumes": _complete_volume,
    "pods": _complete_pod,
    "services": _complete_service,
}
"""Functions that set the server's fields of an object, by resource."""


NAME_RULES: Final[Mapping[str, str]] = {
    "namespaces": "label",
    "services": "label",
    "statefulsets.apps": "label",
    "cronjobs.batch": "short",
    "poddisruptionbudgets.policy": "segment",
    "roles.rbac.authorization.k8s.io": "segment",
    "rolebindings.rbac.authorization.k8s.io": "segment",
    "clusterroles.rbac.authorization.k8s.io": "segment",
    "clusterrolebindings.rbac.authorization.k8s.io": "segment",
}
"""Rules for the names of objects, by resource. For every other resource, the rule is `subdomain`.

Each rule is a rule of the module `names`, or `segment` for any segment of a path.
"""

REQUIRES_RESOURCE_VERSION: Final = frozenset(
    "customresourcedefinitions.apiextensions.k8s.io leases.coordination.k8s.io poddisruptionbudgets.policy"
    " runtimeclasses.node.k8s.io csidrivers.storage.k8s.io"
    " mutatingwebhookconfigurations.admissionregistration.k8s.io"
    " validatingwebhookconfigurations.admissionregistration.k8s.io"
    " validatingadmissionpolicies.admissionregistration.k8s.io"
    " validatingadmissionpolicybindings.admissionregistration.k8s.io"
    " mutatingadmissionpolicies.admissionregistration.k8s.io"
    " mutatingadmissionpolicybindings.admissionregistration.k8s.io".split()
)
"""Built-in kinds whose updates must have a resourceVersion. Updates of custom kinds must always have a resourceVersion.

Source: `AllowUnconditionalUpdate` of Kubernetes.
"""

ALLOWS_CREATE_ON_UPDATE: Final = frozenset(
    "endpoints events events.events.k8s.io leases.coordination.k8s.io limitranges runtimeclasses.node.k8s.io services"
    " clusterrolebindings.rbac.authorization.k8s.io clusterroles.rbac.authorization.k8s.io"
    " rolebindings.rbac.authorization.k8s.io roles.rbac.authorization.k8s.io".split()
)
"""Built-in kinds for which an update of an absent object creates the object, whatever resourceVersion the update has.

Source: `AllowCreateOnUpdate` of Kubernetes.
"""

HAS_GENERATION: Final = frozenset(
    "cronjobs.batch customresourcedefinitions.apiextensions.k8s.io daemonsets.apps deployments.apps "
    "deviceclasses.resource.k8s.io devicetaintrules.resource.k8s.io endpointslices.discovery.k8s.io "
    "flowschemas.flowcontrol.apiserver.k8s.io ingressclasses.networking.k8s.io ingresses.networking.k8s.io jobs.batch "
    "mutatingadmissionpolicies.admissionregistration.k8s.io "
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io "
    "mutatingwebhookconfigurations.admissionregistration.k8s.io networkpolicies.networking.k8s.io "
    "poddisruptionbudgets.policy pods podtemplates priorityclasses.scheduling.k8s.io "
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io replicasets.apps replicationcontrollers "
    "resourceslices.resource.k8s.io statefulsets.apps validatingadmissionpolicies.admissionregistration.k8s.io "
    "validatingadmissionpolicybindings.admissionregistration.k8s.io "
    "validatingwebhookconfigurations.admissionregistration.k8s.io".split()
)
"""Built-in kinds whose objects have metadata.generation."""

GENERATION_METADATA: Final[Mapping[str, tuple[str, ...]]] = {
    "deployments.apps": ("annotations",),
    "endpointslices.discovery.k8s.io": ("annotations", "labels"),
}
"""Fields of metadata whose changes increment the generation, by resource."""
