"""What the server fills in where an author of a built-in object says nothing.

Defaults belong to structures, wherever those are: `DEFAULTS` by the definition of each. Scalars that the published schema
gives a default need no mention here. Source: `defaults.go` of the API groups of Kubernetes, documented in its API
reference.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Object = dict[str, Any]
Change = Callable[[Object], None]
"""Changes the structure that it is given; those in it are filled in already."""


def fill(obj: Object, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name not in obj:
            obj[name] = dict(value) if isinstance(value, dict) else value


def filled(**values: Any) -> Change:
    """A change that does no more than that."""
    return lambda obj: fill(obj, values)


def objects(*lists: Any) -> Iterable[Object]:
    """The structures in lists that may be absent."""
    return (item for found in lists for item in found or ())


# ---- pods


def _pod(pod: Object) -> None:
    """A Pod by itself; templates of pods do not get these."""
    spec = pod["spec"]
    fill(spec, {"enableServiceLinks": True})
    for container in objects(spec.get("initContainers"), spec.get("containers")):
        if limits := container["resources"].get("limits"):
            container["resources"]["requests"] = {**limits, **container["resources"].get("requests", {})}
        if spec.get("hostNetwork"):
            for port in objects(container.get("ports")):
                fill(port, {"hostPort": port["containerPort"]})


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
        fill(spec, {"serviceAccount": spec["serviceAccountName"]})


def _container(container: Object) -> None:
    image = container.get("image", "")
    tagged = "@" in image or (":" in image.rpartition("/")[2] and not image.endswith(":latest"))
    fill(
        container,
        {
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent" if tagged else "Always",
        },
    )


def _volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}


# ---- workloads


def _deployment(spec: Object) -> None:
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    _strategy(spec["strategy"], {"maxUnavailable": "25%", "maxSurge": "25%"})


def _daemon_set(spec: Object) -> None:
    fill(spec, {"revisionHistoryLimit": 10})
    _strategy(spec["updateStrategy"], {"maxUnavailable": 1, "maxSurge": 0})


def _strategy(strategy: Object, rolling: Object) -> None:
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), rolling)


def _stateful_set(spec: Object) -> None:
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"})
    _strategy(spec["updateStrategy"], {"partition": 0})
    policy = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    fill(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), policy)
    for claim in objects(spec.get("volumeClaimTemplates")):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}


def _job(job: Object) -> None:
    """A Job by itself; templates of jobs do not get these."""
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(
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


def _autoscaler(spec: Object) -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    fill(spec, {"minReplicas": 1, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})
    if "behavior" in spec:
        fill(spec["behavior"].setdefault("scaleUp", {}), _SCALE_UP)
        fill(spec["behavior"].setdefault("scaleDown", {}), _SCALE_DOWN)


# ---- all else


def _service(service: Object) -> None:
    spec = service["spec"]
    fill(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif not (spec.get("sessionAffinityConfig", {}).get("clientIP") or {}).get("timeoutSeconds"):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    for port in objects(spec.get("ports")):
        port["targetPort"] = port["targetPort"] or port["port"]
    if spec["type"] in ("LoadBalancer", "NodePort"):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})
        for address in objects(service["status"]["loadBalancer"].get("ingress")):
            if "ip" in address:
                fill(address, {"ipMode": "VIP"})


def _secret(secret: Object) -> None:
    fill(secret, {"type": "Opaque"})
    if texts := secret.pop("stringData", None):
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        secret["data"] = {**secret.get("data", {}), **data}


def _limits(item: Object) -> None:
    if item["type"] == "Container":
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        item |= {name: found for name, found in (("default", limits), ("defaultRequest", requests)) if found}


def _network_policy(spec: Object) -> None:
    fill(spec, {"policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]})


def _subject(subject: Object) -> None:
    if subject.get("kind") in ("User", "Group"):
        fill(subject, {"apiGroup": "rbac.authorization.k8s.io"})


def _role_reference(reference: Object) -> None:
    reference["apiGroup"] = reference.get("apiGroup") or "rbac.authorization.k8s.io"


def _definition(spec: Object) -> None:
    """A CustomResourceDefinition: names that follow from others, and no conversion."""
    fill(spec, {"conversion": {"strategy": "None"}})
    names = spec["names"]
    if names.get("kind"):
        names["singular"] = names.get("singular") or names["kind"].lower()
        names["listKind"] = names.get("listKind") or f"{names['kind']}List"


_ANY = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_CORE, _ADMISSION = "io.k8s.api.core.v1", "io.k8s.api.admissionregistration.v1"

DEFAULTS: Mapping[str, Change] = {
    f"{_ADMISSION}.MatchResources": filled(**_ANY),
    f"{_ADMISSION}.MutatingAdmissionPolicySpec": filled(failurePolicy="Fail"),
    f"{_ADMISSION}.MutatingWebhook": filled(
        failurePolicy="Fail", timeoutSeconds=10, reinvocationPolicy="Never", **_ANY
    ),
    f"{_ADMISSION}.NamedRuleWithOperations": filled(scope="*"),
    f"{_ADMISSION}.RuleWithOperations": filled(scope="*"),
    f"{_ADMISSION}.ServiceReference": filled(port=443),
    f"{_ADMISSION}.ValidatingAdmissionPolicySpec": filled(failurePolicy="Fail"),
    f"{_ADMISSION}.ValidatingWebhook": filled(failurePolicy="Fail", timeoutSeconds=10, **_ANY),
    "io.k8s.api.apps.v1.DaemonSetSpec": _daemon_set,
    "io.k8s.api.apps.v1.DeploymentSpec": _deployment,
    "io.k8s.api.apps.v1.ReplicaSetSpec": filled(replicas=1),
    "io.k8s.api.apps.v1.StatefulSetSpec": _stateful_set,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": _autoscaler,
    "io.k8s.api.batch.v1.CronJobSpec": filled(
        concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
    ),
    "io.k8s.api.batch.v1.Job": _job,
    "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern": filled(status="True"),
    f"{_CORE}.ConfigMapVolumeSource": filled(defaultMode=0o644),
    f"{_CORE}.Container": _container,
    f"{_CORE}.DownwardAPIVolumeSource": filled(defaultMode=0o644),
    f"{_CORE}.EndpointPort": filled(protocol="TCP"),
    f"{_CORE}.EphemeralContainer": _container,
    f"{_CORE}.HTTPGetAction": filled(path="/", scheme="HTTP"),
    f"{_CORE}.HostPathVolumeSource": filled(type=""),
    f"{_CORE}.LimitRangeItem": _limits,
    f"{_CORE}.ObjectFieldSelector": filled(apiVersion="v1"),
    f"{_CORE}.PersistentVolumeClaimSpec": filled(volumeMode="Filesystem"),
    f"{_CORE}.PersistentVolumeClaimStatus": filled(phase="Pending"),
    f"{_CORE}.PersistentVolumeSpec": filled(persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"),
    f"{_CORE}.PersistentVolumeStatus": filled(phase="Pending"),
    f"{_CORE}.NamespaceStatus": filled(phase="Active"),
    f"{_CORE}.Pod": _pod,
    f"{_CORE}.PodSpec": _pod_spec,
    f"{_CORE}.Probe": filled(**_PROBE),
    f"{_CORE}.ProjectedVolumeSource": filled(defaultMode=0o644),
    f"{_CORE}.Secret": _secret,
    f"{_CORE}.SecretVolumeSource": filled(defaultMode=0o644),
    f"{_CORE}.Service": _service,
    f"{_CORE}.ServiceAccountTokenProjection": filled(expirationSeconds=3600),
    f"{_CORE}.Volume": _volume,
    "io.k8s.api.discovery.v1.EndpointPort": filled(name="", protocol="TCP"),
    "io.k8s.api.networking.v1.NetworkPolicyPort": filled(protocol="TCP"),
    "io.k8s.api.networking.v1.NetworkPolicySpec": _network_policy,
    "io.k8s.api.rbac.v1.RoleRef": _role_reference,
    "io.k8s.api.rbac.v1.Subject": _subject,
    "io.k8s.api.scheduling.v1.PriorityClass": filled(preemptionPolicy="PreemptLowerPriority"),
    "io.k8s.api.storage.v1.StorageClass": filled(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec": _definition,
}


def _namespace_label(obj: Object) -> None:
    metadata = obj["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata.get("name", "")}


def _job_labels(obj: Object) -> None:
    """The very labels of its template, so that what the server adds to those it adds to these."""
    if labels := obj["spec"]["template"]["metadata"].get("labels"):
        obj["metadata"].setdefault("labels", labels)


OF_METADATA: Mapping[str, Change] = {"namespaces": _namespace_label, "jobs.batch": _job_labels}
"""Defaults of the metadata of objects, by resource."""
