"""What the server makes up of a built-in object by itself, so that nobody owns it: first statuses, selectors, what
admission adds to pods, the addresses of Services. Those follow from names, so that they are the same every time.

Source: the strategies of Kubernetes' registry (`PrepareForCreate`, `PrepareForUpdate`), its allocators, and the admission
plugins that are on by default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from applier.sandbox.kinds.defaults import fill, objects

Object = dict[str, Any]
Change = Callable[[Object, Object | None], None]
"""Changes the object that it is given; the second is the stored one, None at creation."""


def _namespace(obj: Object, live: Object | None) -> None:
    obj["spec"] = live["spec"] if live else {"finalizers": ["kubernetes"]}


def _job(obj: Object, live: Object | None) -> None:
    """A Job finds its pods by its own uid. Labels that it has from its template stay those of the template."""
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


_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _pod(obj: Object, live: Object | None) -> None:
    spec = obj["spec"]
    tolerations = spec.get("tolerations", [])
    for key in _TOLERATED:
        if not any(one.get("key", key) == key and one.get("effect", "NoExecute") == "NoExecute" for one in tolerations):
            more = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, more]
    spec["tolerations"] = tolerations
    if "priorityClassName" not in spec:
        fill(spec, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})
    if live is None:
        obj["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def _quality(spec: Object) -> str:
    found = [one["resources"] for one in objects(spec.get("initContainers"), spec.get("containers"))]
    if all(one.get("limits", {}).keys() >= {"cpu", "memory"} and one.get("requests") == one["limits"] for one in found):
        return "Guaranteed"
    asked = any(one.get(kind) for one in found for kind in ("limits", "requests"))
    return "Burstable" if asked else "BestEffort"


def _claim(obj: Object, _: Object | None) -> None:
    spec = obj["spec"]
    if source := spec.get("dataSource"):
        fill(spec, {"dataSourceRef": source})
    elif (reference := spec.get("dataSourceRef")) and "namespace" not in reference:
        spec["dataSource"] = dict(reference)


def _volume(obj: Object, live: Object | None) -> None:
    if live is None:
        obj["status"]["lastPhaseTransitionTime"] = obj["metadata"]["creationTimestamp"]


def _service(obj: Object, live: Object | None) -> None:
    spec, before = obj["spec"], (live or {}).get("spec") or {"type": "ExternalName"}
    _drop(spec, before)
    if spec["type"] == "ExternalName":
        return
    metadata = obj["metadata"]
    place = f"{metadata['namespace']}/{metadata.get('name', '')}"
    number = int.from_bytes(hashlib.blake2b(place.encode(), digest_size=4).digest(), "big")
    spec.setdefault("clusterIP", before.get("clusterIP") or f"10.0.{number >> 8 & 255}.{number % 254 + 1}")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    everywhere = spec["clusterIP"] == "None" and not spec.get("selector")
    for name, value in (
        ("ipFamilyPolicy", "RequireDualStack" if everywhere else "SingleStack"),
        ("ipFamilies", ["IPv4", "IPv6"] if everywhere else ["IPv4"]),
    ):
        spec.setdefault(name, before.get(name, value))
    if _has_node_ports(spec) and spec.get("allocateLoadBalancerNodePorts", True):
        known = {port.get("name"): port["nodePort"] for port in objects(before.get("ports")) if "nodePort" in port}
        for index, port in enumerate(objects(spec.get("ports"))):
            port.setdefault("nodePort", known.get(port.get("name"), 30000 + (number + index) % 2768))
    if _checks_health(spec):
        spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort", 30000 + (number >> 4) % 2768))


def _has_node_ports(spec: Object) -> bool:
    return spec["type"] in ("NodePort", "LoadBalancer")


def _checks_health(spec: Object) -> bool:
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


_OF_TYPE: tuple[tuple[Callable[[Object], bool], tuple[str, ...]], ...] = (
    (
        lambda spec: spec["type"] != "ExternalName",
        ("clusterIP", "clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"),
    ),
    (_has_node_ports, ("externalTrafficPolicy",)),
    (_checks_health, ("healthCheckNodePort",)),
    (lambda spec: spec["type"] == "LoadBalancer", ("allocateLoadBalancerNodePorts", "loadBalancerClass")),
)
"""Fields that only some Services have."""


def _drop(spec: Object, before: Object) -> None:
    """A Service that changes its type leaves behind what it no longer needs and did not change."""
    for needs, names in _OF_TYPE:
        if needs(before) and not needs(spec):
            for name in names:
                if spec.get(name) == before.get(name):
                    spec.pop(name, None)
    if _has_node_ports(before) and not _has_node_ports(spec):
        for port in objects(spec.get("ports")):
            port.pop("nodePort", None)


COMPLETIONS: Mapping[str, Change] = {
    "jobs.batch": _job,
    "namespaces": _namespace,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "pods": _pod,
    "services": _service,
}
"""By resource."""
