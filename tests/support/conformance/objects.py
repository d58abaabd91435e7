"""Objects of built-in kinds as people write them, beyond those of `tests.support.objects`."""

from __future__ import annotations

import json
from typing import Any

from renderer import builtin_kinds
from tests.support.cluster.http_api import Json
from tests.support.objects import builtins

SELECTOR = {"matchLabels": {"app": "x"}}
NETWORKING, RBAC = "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"
PROBES = {
    "livenessProbe": {"exec": {"command": ["true"]}},
    "readinessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 0},
    "startupProbe": {"grpc": {"port": 9000}, "failureThreshold": 30},
    "lifecycle": {"preStop": {"httpGet": {"port": "web"}}, "postStart": {"exec": {"command": ["x"]}}},
    "ports": [{"containerPort": 80, "name": "web"}],
}
ENV = [
    {"name": "A", "value": ""},
    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
]
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SOURCES = (
    {"secret": {"secretName": "s"}},
    {"emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}},
    {"hostPath": {"path": "/x"}},
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "c"}}]}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
    {"iscsi": {"targetPortal": "10.0.0.1:1", "iqn": "iqn.2001-04.com.example:x", "lun": 0}},
    {"csi": {"driver": "x.example.com"}},
    {"nfs": {"server": "s", "path": "/"}},
)


def _pod(**spec: Any) -> Json:
    containers = [{"name": "a", "image": "example.com/a:1"}]
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers, **spec}}


JOB = {"template": _pod(restartPolicy="Never")}
METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1500m"}}},
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": 10}}},
]
BEHAVIOR = {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
WEBHOOK = {
    "name": "a.example.org",
    "clientConfig": {"service": {"namespace": "default", "name": "s"}},
    "rules": [{"apiGroups": ["no.example.org"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
POLICY = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": ["no.example.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
        ]
    },
    "validations": [{"expression": "true"}],
}
INGRESS_PATH = {"pathType": "ImplementationSpecific", "backend": {"service": {"name": "s", "port": {"name": "web"}}}}


def _with(**container: Any) -> Json:
    return {"template": _pod(containers=[{"name": "a", "image": "example.com/a", **container}]), "selector": SELECTOR}


def _volumes(*sources: Json) -> Json:
    return {"selector": SELECTOR, "template": _pod(volumes=[{"name": f"v{i}", **one} for i, one in enumerate(sources)])}


def _service(**spec: Any) -> Json:
    return {"spec": {"selector": {"app": "x"}, "ports": [{"port": 80}], **spec}}


OBJECTS: dict[str, tuple[str, str, Json]] = {
    "zero values": ("apps/v1", "Deployment", {"spec": {"paused": False, "minReadySeconds": 0, **_with()}}),
    "no replicas": ("apps/v1", "Deployment", {"spec": {"replicas": 0, "revisionHistoryLimit": 0, **_with()}}),
    "recreate": ("apps/v1", "Deployment", {"spec": {"strategy": {"type": "Recreate"}, **_with()}}),
    "surge": (
        "apps/v1",
        "Deployment",
        {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, **_with()}},
    ),
    "probes": ("apps/v1", "Deployment", {"spec": _with(**PROBES)}),
    "env": ("apps/v1", "Deployment", {"spec": _with(env=ENV, envFrom=[{"secretRef": {"name": "s"}, "prefix": ""}])}),
    "images": ("apps/v1", "Deployment", {"spec": _with(image="localhost:5000/a@sha256:" + "0" * 64)}),
    "latest": ("apps/v1", "Deployment", {"spec": _with(image="a:latest", stdin=False, tty=True, command=[])}),
    "resources": (
        "apps/v1",
        "Deployment",
        {"spec": _with(resources={"limits": {"cpu": "0.5", "memory": "2048Ki", "example.com/x": 1}})},
    ),
    "limits only": ("apps/v1", "Deployment", {"spec": _with(resources={"requests": {}, "limits": {"cpu": 2}})}),
    "security": (
        "apps/v1",
        "Deployment",
        {"spec": _with(securityContext={"runAsNonRoot": False, "privileged": False, "runAsUser": 0})},
    ),
    "volumes": ("apps/v1", "Deployment", {"spec": _volumes(*SOURCES)}),
    "pod fields": (
        "apps/v1",
        "Deployment",
        {
            "spec": {
                "selector": SELECTOR,
                "template": _pod(
                    hostNetwork=False,
                    serviceAccountName="sa",
                    automountServiceAccountToken=False,
                    terminationGracePeriodSeconds=0,
                    enableServiceLinks=False,
                    tolerations=[{"operator": "Exists", "tolerationSeconds": 0, "effect": "NoExecute"}],
                    dnsConfig={"options": [{"name": "ndots", "value": "1"}]},
                    nodeSelector={},
                ),
            }
        },
    ),
    "template metadata": (
        "apps/v1",
        "Deployment",
        {
            "spec": {
                "selector": SELECTOR,
                "template": {**_pod(), "metadata": {"labels": {"app": "x"}, "creationTimestamp": None, "name": ""}},
            }
        },
    ),
    "host network": (
        "apps/v1",
        "DaemonSet",
        {
            "spec": {
                "selector": SELECTOR,
                "template": _pod(
                    hostNetwork=True,
                    containers=[{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}],
                ),
            }
        },
    ),
    "on delete": (
        "apps/v1",
        "DaemonSet",
        {"spec": {"updateStrategy": {"type": "OnDelete"}, "selector": SELECTOR, "template": _pod()}},
    ),
    "claims": (
        "apps/v1",
        "StatefulSet",
        {
            "spec": {
                "serviceName": "x",
                "replicas": 3,
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "OnDelete"},
                "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": CLAIM}],
                **_with(volumeMounts=[{"name": "d", "mountPath": "/d"}]),
            }
        },
    ),
    "replicas": ("apps/v1", "ReplicaSet", {"spec": {"minReadySeconds": 5, **_with()}}),
    "pod": ("v1", "Pod", _pod(containers=[{"name": "a", "image": "a", **PROBES, "env": ENV}])),
    "bare pod": ("v1", "Pod", {"spec": {"containers": [{"name": "a", "image": "a:1"}], "restartPolicy": "Never"}}),
    "job": ("batch/v1", "Job", {"spec": {**JOB, "completions": 3, "parallelism": 2, "completionMode": "Indexed"}}),
    "work queue": ("batch/v1", "Job", {"spec": {**JOB, "parallelism": 2, "ttlSecondsAfterFinished": 0}}),
    "suspended job": ("batch/v1", "Job", {"spec": {**JOB, "suspend": True, "activeDeadlineSeconds": 10}}),
    "cron job": (
        "batch/v1",
        "CronJob",
        {
            "spec": {
                "schedule": "*/5 * * * *",
                "timeZone": "Europe/Berlin",
                "concurrencyPolicy": "Forbid",
                "startingDeadlineSeconds": 0,
                "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": JOB},
            }
        },
    ),
    "node port": ("v1", "Service", _service(type="NodePort")),
    "chosen port": ("v1", "Service", _service(type="NodePort", ports=[{"port": 80, "nodePort": 0, "name": ""}])),
    "load balancer": ("v1", "Service", _service(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8"])),
    "local": ("v1", "Service", _service(type="NodePort", externalTrafficPolicy="Local")),
    "affinity": ("v1", "Service", _service(sessionAffinity="ClientIP")),
    "external": ("v1", "Service", {"spec": {"type": "ExternalName", "externalName": "example.com"}}),
    "headless": ("v1", "Service", _service(clusterIP="None", publishNotReadyAddresses=False)),
    "headless without selector": ("v1", "Service", {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
    "dual": ("v1", "Service", _service(ipFamilyPolicy="PreferDualStack")),
    "app protocol": (
        "v1",
        "Service",
        _service(ports=[{"name": "a", "port": 1, "appProtocol": "http"}, {"name": "b", "port": 2, "protocol": "UDP"}]),
    ),
    "tls": ("v1", "Secret", {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "", "tls.key": ""}}),
    "both": ("v1", "Secret", {"data": {"a": "eA==", "b": "eA=="}, "stringData": {"a": "y", "c": ""}}),
    "immutable": ("v1", "ConfigMap", {"immutable": False, "data": {"a": "\n"}}),
    "binary": ("v1", "ConfigMap", {"binaryData": {"a": "AAE="}}),
    "claim": (
        "v1",
        "PersistentVolumeClaim",
        {"spec": {**CLAIM, "storageClassName": "", "dataSource": {"kind": "PersistentVolumeClaim", "name": "y"}}},
    ),
    "account": ("v1", "ServiceAccount", {"automountServiceAccountToken": False, "secrets": [{"name": "s"}]}),
    "quota": ("v1", "ResourceQuota", {"spec": {"hard": {"requests.memory": "4096Mi", "pods": 10}, "scopes": []}}),
    "range": (
        "v1",
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": 1}}]}},
    ),
    "role": (RBAC, "Role", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    "empty role": (RBAC, "Role", {}),
    "aggregated": (
        RBAC,
        "ClusterRole",
        {"aggregationRule": {"clusterRoleSelectors": [SELECTOR]}},
    ),
    "no subjects": (
        RBAC,
        "RoleBinding",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}},
    ),
    "default backend": (
        NETWORKING,
        "Ingress",
        {"spec": {"ingressClassName": "n", "rules": [{"host": "*.example.org", "http": {"paths": [INGRESS_PATH]}}]}},
    ),
    "no rules": (NETWORKING, "Ingress", {"spec": {"tls": [{}], "rules": [{"host": "a.example.org"}]}}),
    "class": (NETWORKING, "IngressClass", {"spec": {"controller": "example.com/c"}}),
    "policy": (
        NETWORKING,
        "NetworkPolicy",
        {
            "spec": {
                "podSelector": {},
                "policyTypes": ["Egress"],
                "egress": [
                    {
                        "to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                        "ports": [{"port": "dns"}],
                    },
                    {},
                ],
            }
        },
    ),
    "deny": (NETWORKING, "NetworkPolicy", {"spec": {"podSelector": SELECTOR}}),
    "autoscaler": (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
                "minReplicas": 2,
                "maxReplicas": 4,
                "metrics": METRICS,
                "behavior": BEHAVIOR,
            }
        },
    ),
    "budget": ("policy/v1", "PodDisruptionBudget", {"spec": {"maxUnavailable": 0, "selector": {}}}),
    "storage": (
        "storage.k8s.io/v1",
        "StorageClass",
        {"provisioner": "x.example.com", "allowVolumeExpansion": False, "volumeBindingMode": "WaitForFirstConsumer"},
    ),
    "volume": (
        "v1",
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "1.5Gi"},
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Delete",
                "nfs": {"server": "s", "path": "/", "readOnly": False},
            }
        },
    ),
    "priority": ("scheduling.k8s.io/v1", "PriorityClass", {"value": 0, "globalDefault": False}),
    "mutating": (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        {"webhooks": [WEBHOOK]},
    ),
    "admission policy": ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", {"spec": POLICY}),
    "admission binding": (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        {"spec": {"policyName": "p", "validationActions": ["Deny"], "matchResources": {}}},
    ),
    "lease": (
        "coordination.k8s.io/v1",
        "Lease",
        {"spec": {"leaseTransitions": 0, "renewTime": "2030-01-02T03:04:05.600000+02:00"}},
    ),
    "namespace": ("v1", "Namespace", {"metadata": {"annotations": {"a": ""}}}),
    "endpoints": (
        "v1",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    ),
}
"""By a word for what is special: apiVersion, kind, content."""
_SPECIAL = frozenset({"HorizontalPodAutoscaler v1", "ControllerRevision"})
"""What the sandbox does not serve; and what the real server lets nobody patch: it takes its data for changed."""


def objects(namespace: str) -> dict[str, Json]:
    """Objects of both collections, with names that no other test uses."""
    found = {name: obj for name, obj in builtins(namespace).items() if name not in _SPECIAL}
    for name, (api_version, kind, content) in OBJECTS.items():
        metadata = {"name": f"{namespace}-{name}".replace(" ", "-"), **content.get("metadata", {})}
        found[name] = {**content, "apiVersion": api_version, "kind": kind, "metadata": metadata}
    return found


def collection(obj: Json, namespace: str) -> str:
    """The path of the objects of a kind."""
    group, _, version = obj["apiVersion"].rpartition("/")
    for one in builtin_kinds.load_builtin_schemas().discovery:
        for served in one["versions"]:
            if (one["metadata"]["name"], served["version"]) == (group, version):
                for entry in served["resources"]:
                    if entry["responseKind"]["kind"] == obj["kind"]:
                        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
                        inside = f"/namespaces/{namespace}" if entry["scope"] == "Namespaced" else ""
                        return f"{root}{inside}/{entry['resource']}"
    raise AssertionError(obj)


def lines(value: Any) -> list[str]:
    """So that pytest shows what differs."""
    return json.dumps(value, indent=1, sort_keys=True).splitlines()
