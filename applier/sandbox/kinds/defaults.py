"""Defaults of built-in kinds for fields that an author leaves out.

A default belongs to a structure, wherever this structure occurs. `DEFAULTS` contains the defaults by definition, except
for scalars with a default in the published schema.

Source: `defaults.go` of the API groups of Kubernetes, documented in its API reference.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from applier.cluster import Object

Change = Callable[[Object], None]
"""Function that sets the defaults of a structure. The nested structures already have their defaults."""


def set_defaults(obj: Object, values: Mapping[str, Any]) -> None:
    """Set the members of `values` that `obj` lacks.

    The function copies maps one level deep, so that objects do not share maps.
    """
    for name, value in values.items():
        if name not in obj:
            obj[name] = dict(value) if isinstance(value, dict) else value


def constant_defaults(**values: Any) -> Change:
    """Return a function that sets the defaults `values` on a structure."""
    return lambda obj: set_defaults(obj, values)


def iterate_objects(*lists: Any) -> Iterable[Object]:
    """Yield the items of all `lists`. A list may be None."""
    return (item for items in lists for item in items or ())


# ---- pods


def _default_pod(pod: Object) -> None:
    """Set the defaults of a Pod that do not apply to pod templates."""
    spec = pod["spec"]
    set_defaults(spec, {"enableServiceLinks": True})
    for container in iterate_objects(spec.get("initContainers"), spec.get("containers")):
        if limits := container["resources"].get("limits"):
            container["resources"]["requests"] = {**limits, **container["resources"].get("requests", {})}
        if spec.get("hostNetwork"):
            for port in iterate_objects(container.get("ports")):
                set_defaults(port, {"hostPort": port["containerPort"]})


def _default_pod_spec(spec: Object) -> None:
    set_defaults(
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
        set_defaults(spec, {"serviceAccount": spec["serviceAccountName"]})


def _default_container(container: Object) -> None:
    image = container.get("image", "")
    tagged = "@" in image or (":" in image.rpartition("/")[2] and not image.endswith(":latest"))
    set_defaults(
        container,
        {
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent" if tagged else "Always",
        },
    )


def _default_volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}


# ---- workloads


def _default_deployment(spec: Object) -> None:
    set_defaults(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    _default_strategy(spec["strategy"], {"maxUnavailable": "25%", "maxSurge": "25%"})


def _default_daemon_set(spec: Object) -> None:
    set_defaults(spec, {"revisionHistoryLimit": 10})
    _default_strategy(spec["updateStrategy"], {"maxUnavailable": 1, "maxSurge": 0})


def _default_strategy(strategy: Object, rolling_update: Object) -> None:
    set_defaults(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        set_defaults(strategy.setdefault("rollingUpdate", {}), rolling_update)


def _default_stateful_set(spec: Object) -> None:
    set_defaults(spec, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"})
    _default_strategy(spec["updateStrategy"], {"partition": 0})
    policy = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    set_defaults(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), policy)
    for claim in iterate_objects(spec.get("volumeClaimTemplates")):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}


def _default_job(job: Object) -> None:
    """Set the defaults of a Job that do not apply to job templates."""
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    set_defaults(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 6 if "backoffLimitPerIndex" not in spec else 2**31 - 1,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
            "manualSelector": False,
        },
    )


_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def _default_autoscaler(spec: Object) -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    set_defaults(
        spec, {"minReplicas": 1, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}
    )
    if "behavior" in spec:
        set_defaults(spec["behavior"].setdefault("scaleUp", {}), _SCALE_UP)
        set_defaults(spec["behavior"].setdefault("scaleDown", {}), _SCALE_DOWN)


# ---- all else


def _default_service(service: Object) -> None:
    spec = service["spec"]
    set_defaults(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif not (spec.get("sessionAffinityConfig", {}).get("clientIP") or {}).get("timeoutSeconds"):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    for port in iterate_objects(spec.get("ports")):
        port["targetPort"] = port["targetPort"] or port["port"]
    if spec["type"] in ("LoadBalancer", "NodePort"):
        set_defaults(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] != "ExternalName":
        set_defaults(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        set_defaults(spec, {"allocateLoadBalancerNodePorts": True})
        for address in iterate_objects(service["status"]["loadBalancer"].get("ingress")):
            if "ip" in address:
                set_defaults(address, {"ipMode": "VIP"})


def _default_secret(secret: Object) -> None:
    set_defaults(secret, {"type": "Opaque"})
    if texts := secret.pop("stringData", None):
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        secret["data"] = {**secret.get("data", {}), **data}


def _default_limit_range_item(item: Object) -> None:
    if item["type"] == "Container":
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        item |= {
            name: quantities for name, quantities in (("default", limits), ("defaultRequest", requests)) if quantities
        }


def _default_network_policy(spec: Object) -> None:
    set_defaults(spec, {"policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]})


def _default_subject(subject: Object) -> None:
    if subject.get("kind") in ("User", "Group"):
        set_defaults(subject, {"apiGroup": "rbac.authorization.k8s.io"})


def _default_role_reference(reference: Object) -> None:
    reference["apiGroup"] = reference.get("apiGroup") or "rbac.authorization.k8s.io"


def _default_definition(spec: Object) -> None:
    """Derive absent names of a CustomResourceDefinition from its kind, and set the conversion strategy None."""
    set_defaults(spec, {"conversion": {"strategy": "None"}})
    names = spec["names"]
    if names.get("kind"):
        names["singular"] = names.get("singular") or names["kind"].lower()
        names["listKind"] = names.get("listKind") or f"{names['kind']}List"


_MATCH_ANY = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_CORE_PREFIX, _ADMISSION_PREFIX = "io.k8s.api.core.v1", "io.k8s.api.admissionregistration.v1"

DEFAULTS: Mapping[str, Change] = {
    f"{_ADMISSION_PREFIX}.MatchResources": constant_defaults(**_MATCH_ANY),
    f"{_ADMISSION_PREFIX}.MutatingAdmissionPolicySpec": constant_defaults(failurePolicy="Fail"),
    f"{_ADMISSION_PREFIX}.MutatingWebhook": constant_defaults(
        failurePolicy="Fail", timeoutSeconds=10, reinvocationPolicy="Never", **_MATCH_ANY
    ),
    f"{_ADMISSION_PREFIX}.NamedRuleWithOperations": constant_defaults(scope="*"),
    f"{_ADMISSION_PREFIX}.RuleWithOperations": constant_defaults(scope="*"),
    f"{_ADMISSION_PREFIX}.ServiceReference": constant_defaults(port=443),
    f"{_ADMISSION_PREFIX}.ValidatingAdmissionPolicySpec": constant_defaults(failurePolicy="Fail"),
    f"{_ADMISSION_PREFIX}.ValidatingWebhook": constant_defaults(failurePolicy="Fail", timeoutSeconds=10, **_MATCH_ANY),
    "io.k8s.api.apps.v1.DaemonSetSpec": _default_daemon_set,
    "io.k8s.api.apps.v1.DeploymentSpec": _default_deployment,
    "io.k8s.api.apps.v1.ReplicaSetSpec": constant_defaults(replicas=1),
    "io.k8s.api.apps.v1.StatefulSetSpec": _default_stateful_set,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": _default_autoscaler,
    "io.k8s.api.batch.v1.CronJobSpec": constant_defaults(
        concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
    ),
    "io.k8s.api.batch.v1.Job": _default_job,
    "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern": constant_defaults(status="True"),
    f"{_CORE_PREFIX}.ConfigMapVolumeSource": constant_defaults(defaultMode=0o644),
    f"{_CORE_PREFIX}.Container": _default_container,
    f"{_CORE_PREFIX}.DownwardAPIVolumeSource": constant_defaults(defaultMode=0o644),
    f"{_CORE_PREFIX}.EndpointPort": constant_defaults(protocol="TCP"),
    f"{_CORE_PREFIX}.EphemeralContainer": _default_container,
    f"{_CORE_PREFIX}.HTTPGetAction": constant_defaults(path="/", scheme="HTTP"),
    f"{_CORE_PREFIX}.HostPathVolumeSource": constant_defaults(type=""),
    f"{_CORE_PREFIX}.LimitRangeItem": _default_limit_range_item,
    f"{_CORE_PREFIX}.ObjectFieldSelector": constant_defaults(apiVersion="v1"),
    f"{_CORE_PREFIX}.PersistentVolumeClaimSpec": constant_defaults(volumeMode="Filesystem"),
    f"{_CORE_PREFIX}.PersistentVolumeClaimStatus": constant_defaults(phase="Pending"),
    f"{_CORE_PREFIX}.PersistentVolumeSpec": constant_defaults(
        persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"
    ),
    f"{_CORE_PREFIX}.PersistentVolumeStatus": constant_defaults(phase="Pending"),
    f"{_CORE_PREFIX}.NamespaceStatus": constant_defaults(phase="Active"),
    f"{_CORE_PREFIX}.Pod": _default_pod,
    f"{_CORE_PREFIX}.PodSpec": _default_pod_spec,
    f"{_CORE_PREFIX}.Probe": constant_defaults(**_PROBE_DEFAULTS),
    f"{_CORE_PREFIX}.ProjectedVolumeSource": constant_defaults(defaultMode=0o644),
    f"{_CORE_PREFIX}.Secret": _default_secret,
    f"{_CORE_PREFIX}.SecretVolumeSource": constant_defaults(defaultMode=0o644),
    f"{_CORE_PREFIX}.Service": _default_service,
    f"{_CORE_PREFIX}.ServiceAccountTokenProjection": constant_defaults(expirationSeconds=3600),
    f"{_CORE_PREFIX}.Volume": _default_volume,
    "io.k8s.api.discovery.v1.EndpointPort": constant_defaults(name="", protocol="TCP"),
    "io.k8s.api.networking.v1.NetworkPolicyPort": constant_defaults(protocol="TCP"),
    "io.k8s.api.networking.v1.NetworkPolicySpec": _default_network_policy,
    "io.k8s.api.rbac.v1.RoleRef": _default_role_reference,
    "io.k8s.api.rbac.v1.Subject": _default_subject,
    "io.k8s.api.scheduling.v1.PriorityClass": constant_defaults(preemptionPolicy="PreemptLowerPriority"),
    "io.k8s.api.storage.v1.StorageClass": constant_defaults(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec": _default_definition,
}


def _set_namespace_label(obj: Object) -> None:
    metadata = obj["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata.get("name", "")}


def _copy_template_labels(obj: Object) -> None:
    """Make a Job without labels share the map of labels of its template.

    Later additions then reach the Job and the template.
    """
    if labels := obj["spec"]["template"]["metadata"].get("labels"):
        obj["metadata"].setdefault("labels", labels)


METADATA_DEFAULTS: Mapping[str, Change] = {"namespaces": _set_namespace_label, "jobs.batch": _copy_template_labels}
"""Functions that set defaults in the metadata of an object, by resource."""
