"""Manifests of many kinds, as people write them: defaults left out, quantities not canonical, keys in any order."""

from __future__ import annotations

from typing import Any

from applier.cluster import Object

Metadata = dict[str, Any]


def manifest(api_version: str, kind: str, metadata: Metadata, **content: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def pod_spec() -> Object:
    return {
        "initContainers": [{"name": "prepare", "image": "busybox", "command": ["sh", "-c", "true"]}],
        "containers": [
            {
                "name": "app",
                "image": "app:1",
                "args": ["--level", "3"],
                "ports": [
                    {"containerPort": 53, "name": "dns"},
                    {"containerPort": 53, "protocol": "UDP", "name": "dns-udp"},
                    {"name": "web", "containerPort": 8080, "protocol": "TCP"},
                ],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "EMPTY", "value": ""},
                    {"name": "FROM", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "c"}}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
                "livenessProbe": {"httpGet": {"path": "/live", "port": "web"}, "periodSeconds": 5},
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "cfg", "mountPath": "/etc/c"}],
                "securityContext": {"capabilities": {"drop": ["ALL"]}},
            },
            {"name": "sidecar", "image": "side:2"},
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "cfg", "configMap": {"name": "c", "items": [{"key": "a", "path": "a"}]}},
        ],
        "hostAliases": [{"ip": "10.1.1.1", "hostnames": ["a.example.org"]}],
        "imagePullSecrets": [{"name": "pull"}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
                ]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "securityContext": {"runAsUser": 1000, "sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
    }


def template() -> Object:
    return {"metadata": {"labels": {"app": "x"}, "annotations": {}}, "spec": pod_spec()}


SELECTOR = {"matchLabels": {"app": "x"}}


def deployment(metadata: Metadata) -> Object:
    return manifest(
        "apps/v1", "Deployment", metadata, spec={"replicas": 2, "selector": SELECTOR, "template": template()}
    )


def service(metadata: Metadata) -> Object:
    ports = [
        {"port": 53, "name": "dns-udp", "protocol": "UDP"},
        {"port": 53, "name": "dns"},
        {"name": "web", "port": 80, "targetPort": "web"},
        {"name": "tls", "port": 443, "targetPort": 8443},
    ]
    return manifest("v1", "Service", metadata, spec={"selector": {"app": "x"}, "ports": ports})


def ingress(metadata: Metadata) -> Object:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    rules = [{"host": "a.example.org", "http": {"paths": paths}}]
    tls = [{"hosts": ["a.example.org"], "secretName": "tls"}]
    return manifest("networking.k8s.io/v1", "Ingress", metadata, spec={"rules": rules, "tls": tls})


def definition(group: str) -> Object:
    """A CRD whose schema has every kind of list and map that ownership treats differently."""
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "port": {"type": "integer", "default": 80},
                "value": {"type": "string"},
            },
        },
    }
    strings = {"type": "array", "items": {"type": "string"}}
    numbers = {"type": "array", "items": {"type": "number"}}
    properties = {
        "keyed": keyed,
        "set": strings | {"x-kubernetes-list-type": "set"},
        "numbers": numbers | {"x-kubernetes-list-type": "set"},
        "atomic": strings,
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "size": {"type": "integer", "default": 3},
        "ratio": {"type": "number"},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": names,
        "versions": [version | {"subresources": {"status": {}}}],
    }
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", {"name": f"things.{group}"}, spec=spec)


def thing(group: str, metadata: Metadata) -> Object:
    spec = {
        "keyed": [{"name": "a", "value": "1"}, {"name": "a", "port": 443, "value": "2"}, {"name": "b"}],
        "set": ["x", "y"],
        "numbers": [1, 2.5],
        "atomic": ["p", "q"],
        "map": {"k": "v", "dotted.key/x": "w"},
        "whole": {"k": "v"},
        "free": {"deep": {"list": [{"a": 1}], "n": None, "empty": {}}},
        "either": "50%",
        "maybe": None,
        "ratio": 1.0,
    }
    return manifest(f"{group}/v1", "Thing", metadata, spec=spec)


def builtins(namespace: str) -> dict[str, Object]:
    """One manifest per kind; objects of cluster scope have the namespace in their names."""

    def here(name: str, **more: Any) -> Metadata:
        return {"name": name, "namespace": namespace, **more}

    def wide(name: str, **more: Any) -> Metadata:
        return {"name": f"{namespace}-{name}", **more}

    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    claim_template = {"metadata": {"name": "data"}, "spec": claim}
    job = {"template": {"spec": pod_spec() | {"restartPolicy": "Never"}}, "backoffLimit": 1}
    rbac = "rbac.authorization.k8s.io/v1"
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subjects = [{"kind": "ServiceAccount", "name": "s", "namespace": namespace}, {"kind": "User", "name": "u"}]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    # Of a kind that is not served: the garbage collector cannot tell that it is absent, and waits.
    owner = {
        "apiVersion": "no.example.org/v1",
        "kind": "No",
        "name": "o",
        "uid": "0b9e0a8a-5f3a-4a7c-8f5e-0b6f6a6f0a01",
    }
    webhook = {
        "name": "a.example.org",
        "clientConfig": {"url": "https://example.org/x"},
        "rules": [{"apiGroups": ["no.example.org"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    endpoint = {"addresses": ["10.1.2.3"], "conditions": {"ready": True}}
    return {
        "ConfigMap": manifest("v1", "ConfigMap", here("c"), data={"a": "1", "b.c": ""}, binaryData={"x": "AAE="}),
        "metadata": manifest(
            "v1",
            "ConfigMap",
            here(
                "m",
                labels={"app.kubernetes.io/name": "x"},
                annotations={"example.org/a": "b"},
                finalizers=["example.org/one", "example.org/two"],
                ownerReferences=[owner],
            ),
        ),
        "empty": manifest("v1", "ConfigMap", here("e"), data={}),
        "Secret": manifest("v1", "Secret", here("s"), type="Opaque", data={"a": "eA=="}),
        "Service": service(here("svc")),
        "headless": manifest("v1", "Service", here("hl"), spec={"clusterIP": "None", "selector": {"a": "b"}}),
        "Deployment": deployment(here("d")),
        "StatefulSet": manifest(
            "apps/v1",
            "StatefulSet",
            here("sts"),
            spec={
                "serviceName": "hl",
                "selector": SELECTOR,
                "template": template(),
                "volumeClaimTemplates": [claim_template],
            },
        ),
        "DaemonSet": manifest("apps/v1", "DaemonSet", here("ds"), spec={"selector": SELECTOR, "template": template()}),
        "Job": manifest("batch/v1", "Job", here("j"), spec=job),
        "CronJob": manifest(
            "batch/v1", "CronJob", here("cj"), spec={"schedule": "@daily", "jobTemplate": {"spec": job}}
        ),
        "Pod": manifest("v1", "Pod", here("p"), spec=pod_spec()),
        "Ingress": ingress(here("i")),
        "Role": manifest(rbac, "Role", here("r"), rules=rules),
        "RoleBinding": manifest(rbac, "RoleBinding", here("rb"), roleRef=role_ref, subjects=subjects),
        "ClusterRole": manifest(rbac, "ClusterRole", wide("cr"), rules=[{"nonResourceURLs": ["/x"], "verbs": ["get"]}]),
        "ServiceAccount": manifest(
            "v1", "ServiceAccount", here("sa"), imagePullSecrets=[{"name": "p"}], automountServiceAccountToken=False
        ),
        "PersistentVolumeClaim": manifest("v1", "PersistentVolumeClaim", here("pvc"), spec=claim),
        "PersistentVolume": manifest(
            "v1",
            "PersistentVolume",
            wide("pv"),
            spec={
                "capacity": {"storage": "1024Mi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
            },
        ),
        "StorageClass": manifest("storage.k8s.io/v1", "StorageClass", wide("sc"), provisioner="example.org/x"),
        "PodDisruptionBudget": manifest(
            "policy/v1", "PodDisruptionBudget", here("pdb"), spec={"minAvailable": "50%", "selector": SELECTOR}
        ),
        "HorizontalPodAutoscaler": manifest(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            here("hpa"),
            spec={"maxReplicas": 5, "scaleTargetRef": target, "metrics": [{"type": "Resource", "resource": cpu}]},
        ),
        "HorizontalPodAutoscaler v1": manifest(
            "autoscaling/v1",
            "HorizontalPodAutoscaler",
            here("hpa1"),
            spec={"maxReplicas": 5, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 70},
        ),
        "NetworkPolicy": manifest(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            here("np"),
            spec={"podSelector": {}, "ingress": [{"from": [{"podSelector": SELECTOR}], "ports": [{"port": 80}]}]},
        ),
        "ResourceQuota": manifest("v1", "ResourceQuota", here("rq"), spec={"hard": {"pods": 1000, "cpu": "100000m"}}),
        "LimitRange": manifest(
            "v1", "LimitRange", here("lr"), spec={"limits": [{"type": "Container", "max": {"memory": "4096Mi"}}]}
        ),
        "PriorityClass": manifest("scheduling.k8s.io/v1", "PriorityClass", wide("pc"), value=1000),
        "Namespace": manifest("v1", "Namespace", wide("ns", labels={"a": "b"})),
        "ValidatingWebhookConfiguration": manifest(
            "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", wide("wh"), webhooks=[webhook]
        ),
        "ControllerRevision": manifest(
            "apps/v1", "ControllerRevision", here("rev"), revision=1, data={"spec": {"a": [1, {"b": None}]}}
        ),
        "EndpointSlice": manifest(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            here("eps"),
            addressType="IPv4",
            endpoints=[endpoint],
            ports=[{"name": "web", "port": 80}],
        ),
        "Lease": manifest(
            "coordination.k8s.io/v1", "Lease", here("l"), spec={"holderIdentity": "me", "leaseDurationSeconds": 15}
        ),
    }
