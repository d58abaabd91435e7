"""What the server fills in where an author of a built-in object says nothing.

Only what people see and controllers need: kinds that are not named here are stored as they are sent. Source: `defaults.go`
of the API groups of Kubernetes, documented in its API reference.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Object = dict[str, Any]
Change = Callable[[Object, Object | None], None]
"""Changes the object that it is given; the second is the stored one, None at creation."""


def fill(obj: Object, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        obj.setdefault(name, dict(value) if isinstance(value, dict) else value)


def _pod_spec(spec: Object) -> None:
    fill(
        spec,
        {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
        },
    )
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in _objects(spec.get("initContainers"), spec.get("containers")):
        _container(container)
    for volume in _objects(spec.get("volumes")):
        for source in ("configMap", "secret", "downwardAPI", "projected"):
            if isinstance(volume.get(source), dict):
                volume[source].setdefault("defaultMode", 420)


def _container(container: Object) -> None:
    image = str(container.get("image", ""))
    tagged = "@" in image or (":" in image.rpartition("/")[2] and not image.endswith(":latest"))
    fill(
        container,
        {
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent" if tagged else "Always",
        },
    )
    for port in _objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for probe in _objects([container[name] for name in _PROBES if name in container]):
        fill(probe, {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
        if isinstance(probe.get("httpGet"), dict):
            fill(probe["httpGet"], {"path": "/", "scheme": "HTTP"})
    for variable in _objects(container.get("env")):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def _objects(*lists: Any) -> Iterable[Object]:
    return (item for found in lists if isinstance(found, list) for item in found if isinstance(item, dict))


def _template(spec: Object) -> None:
    template = spec.get("template")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        _pod_spec(template.setdefault("spec", {}))


def _deployment(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})
    _template(spec)


def _stateful_set(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"})
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    policy = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    fill(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), policy)
    for claim in _objects(spec.get("volumeClaimTemplates")):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")
    _template(spec)


def _daemon_set(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})
    _template(spec)


def _replica_set(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)


def _job_spec(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
        },
    )
    _template(spec)


def _job(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("manualSelector", False)
    _job_spec(spec)


def _select_pods(obj: Object, live: Object | None) -> None:
    """A Job finds its pods by its own uid."""
    spec, uid = obj["spec"], obj["metadata"]["uid"]
    if live is None and "selector" not in spec:
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    elif live is not None:
        spec.setdefault("selector", live["spec"].get("selector"))
    if not spec.get("manualSelector"):
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for prefix in ("batch.kubernetes.io/", ""):
            labels |= {f"{prefix}controller-uid": uid, f"{prefix}job-name": obj["metadata"]["name"]}
        if live is None:
            obj["metadata"].setdefault("labels", dict(labels))


def _cron_job(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    fill(
        spec,
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    job = spec.get("jobTemplate")
    if isinstance(job, dict):
        job.setdefault("metadata", {})
        _template(job.setdefault("spec", {}))


def _pod(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    _pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)


def _service(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    for port in _objects(spec.get("ports")):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] == "ExternalName":
        return
    fill(spec, {"internalTrafficPolicy": "Cluster", "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]})
    if spec["type"] in ("LoadBalancer", "NodePort"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _allocate(obj: Object, live: Object | None) -> None:
    """Addresses and node ports of a Service: those that it had, else some that follow from its name."""
    spec, before = obj["spec"], (live or {}).get("spec") or {}
    if spec["type"] == "ExternalName":
        return
    metadata = obj["metadata"]
    place = f"{metadata.get('namespace', '')}/{metadata['name']}"
    number = int.from_bytes(hashlib.blake2b(place.encode(), digest_size=4).digest(), "big")
    spec.setdefault("clusterIP", before.get("clusterIP") or f"10.0.{number >> 8 & 255}.{number % 254 + 1}")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if spec["type"] in ("LoadBalancer", "NodePort"):
        for index, port in enumerate(_objects(spec.get("ports"))):
            port.setdefault("nodePort", 30000 + (number + index) % 2768)


def _secret(obj: Object, _: Object | None) -> None:
    obj.setdefault("type", "Opaque")
    if texts := obj.pop("stringData", None):
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **data}


def _claim(obj: Object, _: Object | None) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _namespace(obj: Object, _: Object | None) -> None:
    name = obj["metadata"].get("name", "")
    obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}


def _activate(obj: Object, live: Object | None) -> None:
    obj["spec"] = live["spec"] if live else {"finalizers": ["kubernetes"]}


def _network_policy(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for rule in _objects(spec.get("ingress"), spec.get("egress")):
        for port in _objects(rule.get("ports")):
            port.setdefault("protocol", "TCP")


def _role_binding(obj: Object, _: Object | None) -> None:
    role = obj.get("roleRef")
    if isinstance(role, dict):
        role.setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in _objects(obj.get("subjects")):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _autoscaler(obj: Object, _: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    target = {"type": "Utilization", "averageUtilization": 80}
    spec.setdefault("metrics", [{"type": "Resource", "resource": {"name": "cpu", "target": target}}])


def _storage_class(obj: Object, _: Object | None) -> None:
    fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def _definition(obj: Object, _: Object | None) -> None:
    """A CustomResourceDefinition: names that follow from others, and no conversion."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")


DEFAULTS: Mapping[str, Change] = {
    "cronjobs.batch": _cron_job,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
    "clusterrolebindings.rbac.authorization.k8s.io": _role_binding,
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "jobs.batch": _job,
    "namespaces": _namespace,
    "networkpolicies.networking.k8s.io": _network_policy,
    "persistentvolumeclaims": _claim,
    "pods": _pod,
    "replicasets.apps": _replica_set,
    "rolebindings.rbac.authorization.k8s.io": _role_binding,
    "secrets": _secret,
    "services": _service,
    "statefulsets.apps": _stateful_set,
    "storageclasses.storage.k8s.io": _storage_class,
}
"""By resource: what whoever writes the object comes to own."""

_FIRST_STATUS: Mapping[str, Object] = {
    "cronjobs.batch": {},
    "daemonsets.apps": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "deployments.apps": {},
    "horizontalpodautoscalers.autoscaling": {"currentMetrics": None, "desiredReplicas": 0},
    "ingresses.networking.k8s.io": {"loadBalancer": {}},
    "jobs.batch": {},
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "poddisruptionbudgets.policy": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    "pods": {"phase": "Pending"},
    "replicasets.apps": {"replicas": 0},
    "services": {"loadBalancer": {}},
    "statefulsets.apps": {"availableReplicas": 0, "replicas": 0},
}


def complete(resource: str, obj: Object, live: Object | None) -> None:
    """What nobody owns: what the server makes up, and at creation a status that says nothing yet."""
    if resource in _FIRST_STATUS:
        obj["status"] = live.get("status", {}) if live else dict(_FIRST_STATUS[resource])
    if change := _COMPLETIONS.get(resource):
        change(obj, live)


_COMPLETIONS: Mapping[str, Change] = {
    "jobs.batch": _select_pods,
    "namespaces": _activate,
    "services": _allocate,
}

COMPLETED = _FIRST_STATUS.keys() | _COMPLETIONS.keys()
"""Resources that `complete` has something to add to."""
