"""One minimal object of each built-in kind, and the path of its collection."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.cluster.http_api import Api, Json

TEMPLATE: Json = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "example.com/x:1"}]},
}
SELECTED = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Ingress": "/apis/networking.k8s.io/v1/namespaces/{}/ingresses",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
ONCE = {"metadata": {}, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
BODIES: dict[str, Json] = {
    "ConfigMap": {"data": {"a": "1"}},
    "Secret": {"stringData": {"a": "1"}},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
    "PersistentVolumeClaim": {"spec": CLAIM},
    "Deployment": {"spec": SELECTED},
    "StatefulSet": {"spec": {**SELECTED, "serviceName": "x"}},
    "DaemonSet": {"spec": SELECTED},
    "Job": {"spec": {"template": ONCE}},
    "CronJob": {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": ONCE}}}},
    "RoleBinding": {"roleRef": ROLE, "subjects": [{"kind": "User", "name": "u"}]},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}},
    "NetworkPolicy": {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}},
    "HorizontalPodAutoscaler": {
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}, "maxReplicas": 3}
    },
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}},
    "ServiceAccount": {},
}


def create(api: Api, home: str, kind: str, **changes: Any) -> Json:
    """Create the minimal object `x` of this kind, with *changes* to its fields."""
    answer = api.post(PATHS[kind].format(home), {**copy.deepcopy(BODIES[kind]), "metadata": {"name": "x"}, **changes})
    assert answer.code == 201, answer.body
    found: Json = answer.body
    return found
