"""Edges that nobody writes: namespace, CRD, RBAC, references, `depends-on` (KEP-3659)."""

from __future__ import annotations

from typing import Any

import pytest

from renderer.graph.implied_edges import (
    DependsOnError,
    ImpliedEdgeIndex,
    edge_inputs,
    edges,
    parse_depends_on,
    serving_workloads,
    soft_edges,
)
from renderer.identity import GroupKind, ObjectKey

NAMESPACE = "Namespace/n"


def found(api_version: str, kind: str, namespace: str = "n", **fields: Any) -> set[str]:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}
    group = api_version.rpartition("/")[0]
    crd = ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.g.test")
    neighbours = ImpliedEdgeIndex({GroupKind("g.test", "Widget"): crd}, {}, {})
    return set(map(str, edges(manifest, ObjectKey(group, kind, namespace, "x"), neighbours)))


POD: dict[str, Any] = {
    "serviceAccountName": "robot",
    "priorityClassName": "high",
    "runtimeClassName": "sealed",
    "imagePullSecrets": [{"name": "s5"}],
    "volumes": [
        {"configMap": {"name": "c1"}},
        {"secret": {"secretName": "s1"}},
        {"persistentVolumeClaim": {"claimName": "p1"}},
        {
            "projected": {
                "sources": [{"configMap": {"name": "c2"}}, {"secret": {"name": "s2"}}, {"serviceAccountToken": {}}]
            }
        },
        {"emptyDir": {}},
        {"name": "share", "azureFile": {"secretName": "s6", "shareName": "x"}},
        {"name": "block", "rbd": {"secretRef": {"name": "s7"}, "image": "x"}},
        {"name": "driver", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s8"}}},
    ],
    "initContainers": [{"envFrom": [{"configMapRef": {"name": "c3"}}]}],
    "containers": [
        {
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c4", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "k"}}},
                {"name": "C", "value": "plain"},
            ],
            "envFrom": [{"secretRef": {"name": "s4"}}],
        }
    ],
}
USED = {
    NAMESPACE,
    "ServiceAccount/n/robot",
    "PersistentVolumeClaim/n/p1",
    *(f"ConfigMap/n/c{number}" for number in (1, 2, 3, 4)),
    *(f"Secret/n/s{number}" for number in range(1, 9)),
    "PriorityClass.scheduling.k8s.io/high",
    "RuntimeClass.node.k8s.io/sealed",
}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("v1", "Pod", POD),
        ("v1", "ReplicationController", {"template": {"spec": POD}}),
        *(
            ("apps/v1", kind, {"template": {"spec": POD}})
            for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
        ),
        ("batch/v1", "Job", {"template": {"spec": POD}}),
        ("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": {"spec": POD}}}}),
    ],
)
def test_a_workload_needs_what_its_pods_name(api_version: str, kind: str, spec: Any) -> None:
    assert found(api_version, kind, spec=spec) == USED


def test_a_namespaced_object_needs_its_namespace_and_a_custom_one_its_crd() -> None:
    assert found("v1", "ConfigMap") == {NAMESPACE}
    assert found("v1", "Namespace", namespace="") == set()
    assert found("g.test/v1", "Widget") == {NAMESPACE, "CustomResourceDefinition.apiextensions.k8s.io/widgets.g.test"}


@pytest.mark.parametrize(
    ("kind", "namespace", "role", "expected"),
    [
        ("RoleBinding", "n", {"kind": "Role", "name": "r"}, "Role.rbac.authorization.k8s.io/n/r"),
        ("RoleBinding", "n", {"kind": "ClusterRole", "name": "r"}, "ClusterRole.rbac.authorization.k8s.io/r"),
        ("ClusterRoleBinding", "", {"kind": "ClusterRole", "name": "r"}, "ClusterRole.rbac.authorization.k8s.io/r"),
    ],
)
def test_a_binding_needs_its_role_and_its_service_accounts(kind: str, namespace: str, role: Any, expected: str) -> None:
    subjects = [
        {"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
        {"kind": "ServiceAccount", "name": "local"},
        {"kind": "User", "name": "ada"},
    ]
    edges_found = found("rbac.authorization.k8s.io/v1", kind, namespace, roleRef=role, subjects=subjects)
    assert edges_found - {NAMESPACE} >= {expected, "ServiceAccount/other/robot"}
    assert not any("ada" in edge for edge in edges_found)


def test_webhooks_and_api_services_need_their_service() -> None:
    """Else failurePolicy=Fail blocks every later write, also ours."""
    service = {"name": "s", "namespace": "hooks"}
    webhooks = [{"clientConfig": {"service": service}}, {"clientConfig": {"url": "https://x"}}]
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        assert found("admissionregistration.k8s.io/v1", kind, "", webhooks=webhooks) == {"Service/hooks/s"}
    assert found("apiregistration.k8s.io/v1", "APIService", "", spec={"service": service}) == {"Service/hooks/s"}


@pytest.mark.parametrize("odd", [None, "", 0, [], ["a"], {}, {"a": "b"}])
@pytest.mark.parametrize("field", ["spec", "roleRef", "subjects", "webhooks"])
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ],
)
def test_content_of_any_shape_names_no_more_than_its_namespace(
    api_version: str, kind: str, field: str, odd: Any
) -> None:
    assert found(api_version, kind, **{field: odd}) <= {NAMESPACE}


def annotated(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"config.kubernetes.io/depends-on": text}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("apps/namespaces/n/Deployment/web", ["Deployment.apps/n/web"]),
        ("/namespaces/n/ConfigMap/c", ["ConfigMap/n/c"]),
        ("/Namespace/n", ["Namespace/n"]),
        ("rbac.authorization.k8s.io/ClusterRole/r", ["ClusterRole.rbac.authorization.k8s.io/r"]),
        (" /Namespace/n , apps/namespaces/n/Deployment/web ,", ["Namespace/n", "Deployment.apps/n/web"]),
    ],
)
def test_depends_on_is_read_as_cli_utils_does(text: str, expected: list[str]) -> None:
    assert list(map(str, parse_depends_on(annotated(text)))) == expected


@pytest.mark.parametrize("text", ["web", "a/b", "apps/namespaces/n/Deployment", "a/namespaces//K/x", "a/b/c/d", "//"])
def test_a_depends_on_that_cannot_be_read_says_how_to_write_it(text: str) -> None:
    with pytest.raises(DependsOnError, match=r"write GROUP/namespaces/NAMESPACE/KIND/NAME or GROUP/KIND/NAME"):
        parse_depends_on(annotated(text))


def test_crds_of_a_set_provide_their_kinds() -> None:
    key = ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.g.test")
    crd = {"spec": {"group": "g.test", "names": {"kind": "Widget"}}}
    other = (ObjectKey("", "ConfigMap", "n", "x"), {"spec": crd["spec"]})
    assert ImpliedEdgeIndex.from_manifests([(key, crd), other]).crds == {GroupKind("g.test", "Widget"): key}
    assert ImpliedEdgeIndex.from_manifests([(key, {"spec": {"group": "g.test"}})]).crds == {}


WORKLOAD = ObjectKey("apps", "Deployment", "hooks", "server")
SERVICE = ObjectKey("", "Service", "hooks", "s")
HOOK = ObjectKey("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "", "h")
CALLS = {"webhooks": [{"clientConfig": {"service": {"name": "s", "namespace": "hooks"}}}]}


@pytest.mark.parametrize(
    ("selector", "labels", "workload", "expected"),
    [
        ({"app": "x"}, {"app": "x", "tier": "a"}, WORKLOAD, [WORKLOAD]),
        ({"app": "x", "tier": "b"}, {"app": "x", "tier": "a"}, WORKLOAD, []),
        ({}, {"app": "x"}, WORKLOAD, []),
        ({"app": "x"}, {"app": "x"}, WORKLOAD._replace(namespace="other"), []),
    ],
    ids=["selected", "another tier", "no selector", "another namespace"],
)
def test_what_the_server_calls_needs_the_healthy_pods_behind_the_service(
    selector: Any, labels: Any, workload: ObjectKey, expected: list[ObjectKey]
) -> None:
    """A webhook that nobody answers refuses every write, also those that would bring up what answers."""
    template = {"spec": {"template": {"metadata": {"labels": labels}, "spec": {}}}}
    neighbours = ImpliedEdgeIndex.from_manifests(
        [(workload, template), (SERVICE, {"spec": {"selector": selector}}), (HOOK, CALLS)]
    )
    assert list(soft_edges(CALLS, HOOK, neighbours)) == expected
    assert list(serving_workloads(CALLS, HOOK, neighbours)) == expected
    assert list(soft_edges({"spec": {"selector": selector}}, SERVICE, neighbours)) == []


@pytest.mark.parametrize(("account", "subject"), [("robot", "robot"), ("", "default")])
def test_a_workload_needs_the_rights_of_its_service_account(account: str, subject: str) -> None:
    """Its rights are there before it starts, and until it is gone: a controller finishes its work with them."""
    binding = ObjectKey("rbac.authorization.k8s.io", "ClusterRoleBinding", "", "b")
    subjects = {"subjects": [{"kind": "ServiceAccount", "name": subject, "namespace": "hooks"}]}
    neighbours = ImpliedEdgeIndex.from_manifests([(binding, subjects)])
    spec = {"serviceAccountName": account} if account else {}
    manifest = {"spec": {"template": {"spec": spec}}}
    assert list(soft_edges(manifest, WORKLOAD, neighbours)) == [binding]
    assert list(soft_edges(manifest, WORKLOAD._replace(namespace="other"), neighbours)) == []
    assert list(serving_workloads(manifest, WORKLOAD, neighbours)) == []


def pod_template(labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"template": {"metadata": {"labels": labels}, "spec": {**spec, "containers": [{"image": "one"}]}}}


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("apps/Deployment", {"spec": pod_template({"app": "a"})}, {"spec": pod_template({"app": "b"})}),
        ("apps/Deployment", {"spec": pod_template({})}, {"spec": pod_template({}, serviceAccountName="robot")}),
        ("apps/Deployment", {"spec": pod_template({})}, {"spec": pod_template({}, volumes=POD["volumes"])}),
        ("/Service", {"spec": {"selector": {"app": "a"}}}, {"spec": {"selector": {"app": "b"}}}),
        ("rbac.authorization.k8s.io/RoleBinding", {}, {"subjects": [{"kind": "ServiceAccount", "name": "robot"}]}),
        (
            "/ConfigMap",
            {},
            {"metadata": {"annotations": {"config.kubernetes.io/depends-on": "/namespaces/n/Secret/s"}}},
        ),
        (
            "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
            {"webhooks": [{"clientConfig": {"service": {"name": "a", "namespace": "n"}}}]},
            {"webhooks": [{"clientConfig": {"service": {"name": "b", "namespace": "n"}}}]},
        ),
    ],
)
def test_an_outline_is_what_edges_are_made_of(key: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Of the object itself and of others: who is selected, who answers for whom, who has which rights."""
    group, _, kind = key.partition("/")
    place = ObjectKey(group, kind, "n", "x")
    assert edge_inputs(before, place) != edge_inputs(after, place)
    content = {"metadata": {"labels": {"some": "label"}}, "data": {"text": "two"}}
    assert edge_inputs({"metadata": {}, **before}, place) == edge_inputs({**content, **before}, place)
