"""What no commit may have is refused when it is rendered, wherever it stands; its neighbours go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog.catalog import load
from renderer.catalog.forbidden_objects import find_protection_mistake
from renderer.render.render import render
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

RBAC = "rbac.authorization.k8s.io/v1"
PROTECTED: list[tuple[str, str, str, str]] = [
    ("v1", "Namespace", "", "levelgate-system"),
    ("v1", "ConfigMap", "levelgate-system", "source-platform"),
    ("coordination.k8s.io/v1", "Lease", "levelgate-system", "levelgate"),
    ("apps/v1", "ControllerRevision", "levelgate-system", "applied-1"),
    ("v1", "Namespace", "", "kube-system"),
    ("v1", "ConfigMap", "kube-system", "coredns"),
    ("v1", "ConfigMap", "kube-public", "cluster-info"),
    ("coordination.k8s.io/v1", "Lease", "kube-node-lease", "node-1"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "propagationwindows.levelgate.dev"),
    (RBAC, "ClusterRole", "", "system:node"),
    (RBAC, "ClusterRoleBinding", "", "system:masters"),
    (RBAC, "Role", "team", "system:controller"),
    (RBAC, "ClusterRole", "", "levelgate"),
    (RBAC, "ClusterRoleBinding", "", "levelgate-controller"),
]


def manifest(api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


@pytest.mark.parametrize("target", PROTECTED, ids=lambda target: "-".join(filter(None, target[1:])))
def test_a_protected_object_is_refused_and_its_neighbours_are_not(target: tuple[str, str, str, str]) -> None:
    """Threat 11, with the place in the file."""
    files = {"a.json": plain("a").encode(), "bad.json": json.dumps(manifest(*target)).encode()}
    bundle = render([load(files, source="platform")])
    found = {node.origin.file: node.error for node in bundle.sources["platform"].nodes}
    assert found["a.json"] == ""
    assert found["bad.json"]
    assert find_protection_mistake(manifest(*target), *target[2:])
    assert [problem.file for problem in bundle.problems] == ["bad.json"]


@pytest.mark.parametrize("target", PROTECTED[:2], ids=lambda target: target[1])
def test_a_node_of_a_definition_is_refused_too(target: tuple[str, str, str, str]) -> None:
    """Threat 11: also where the name comes from the instance."""
    bad = manifest(*target)
    place = "namespace" if "namespace" in bad["metadata"] else "name"
    bad["metadata"][place] = "${schema.spec.text}"
    files = {
        "d.json": definition("Link", [config_map("a"), {"id": "bad", "template": bad}]),
        "x.json": instance("Link", "x", text="levelgate-system"),
        "y.json": instance("Link", "y", text="elsewhere"),
    }
    bundle = render([load({name: text.encode() for name, text in files.items()}, source="platform")])
    errors = {
        key.name: {node.id: node.error for node in one.nodes}
        for key, one in bundle.instances.items()
        if key.group == GROUP
    }
    assert errors["x"]["a"] == ""
    assert "levelgate-system contains Levelgate's own records" in errors["x"]["bad"]
    assert errors["y"] == {"a": "", "bad": ""}


@pytest.mark.parametrize(
    "target",
    [
        (RBAC, "ClusterRole", "", "levelgates"),
        (RBAC, "Role", "team", "levelgate"),
        ("v1", "Namespace", "", "kube-system-addons"),
        ("v1", "ConfigMap", "levelgate", "kube-system"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.levelgate.dev.example.com"),
    ],
    ids=lambda target: "-".join(filter(None, target[1:])),
)
def test_what_only_looks_like_it_is_not(target: tuple[str, str, str, str]) -> None:
    bundle = render([load({"a.json": json.dumps(manifest(*target)).encode()}, source="platform")])
    assert not [problem for problem in bundle.problems if "metadata" in problem.path]


EVERYTHING: dict[str, Any] = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
NAME = "kubernetes.io/metadata.name"


def webhook(rules: list[dict[str, Any]], *, kind: str = "Validating", **more: Any) -> str:
    body = manifest("admissionregistration.k8s.io/v1", f"{kind}WebhookConfiguration", "", "guard")
    body["webhooks"] = [
        {"name": "first.example.com", "rules": []},
        {"name": "guard.example.com", "rules": rules, **more},
    ]
    return json.dumps(body)


def complaint(text: str) -> str:
    problems = render([load({"hook.json": text.encode()}, source="platform")]).problems
    return "; ".join(map(str, problems))


def selecting(operator: str, *values: str, key: str = NAME) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("rules", "more", "about"),
    [
        ([EVERYTHING], {}, "configmaps in levelgate-system"),
        ([EVERYTHING | {"resources": ["*/*"]}], {"kind": "Mutating"}, "configmaps in levelgate-system"),
        ([EVERYTHING | {"resources": ["leases"], "operations": ["UPDATE"]}], {}, "leases in levelgate-system"),
        ([EVERYTHING | {"apiGroups": ["apps"], "scope": "Namespaced"}], {}, "controllerrevisions in levelgate-system"),
        ([EVERYTHING], {"namespaceSelector": selecting("In", "levelgate-system")}, "configmaps in levelgate-system"),
        ([EVERYTHING], {"namespaceSelector": selecting("NotIn", "levelgate-system")}, "leases in kube-node-lease"),
        ([EVERYTHING], {"objectSelector": selecting("DoesNotExist", key="team")}, "configmaps in levelgate-system"),
        ([EVERYTHING], {"objectSelector": {"matchLabels": {"applyset.kubernetes.io/id": "x"}}}, "configmaps"),
        ([EVERYTHING], {"matchConditions": [{"name": "x", "expression": "false"}]}, "configmaps in levelgate-system"),
    ],
    ids=lambda value: None,
)
def test_a_webhook_that_would_be_asked_about_our_records_is_refused(
    rules: list[dict[str, Any]], more: dict[str, Any], about: str
) -> None:
    """Threat 11: with the line of the webhook, and what to do."""
    found = complaint(webhook(rules, **more))
    assert "hook.json:1: webhooks[1]: would be called for " + about in found
    assert "namespaceSelector" in found


@pytest.mark.parametrize(
    ("rules", "more"),
    [
        ([EVERYTHING | {"resources": ["deployments"]}], {}),
        ([EVERYTHING | {"resources": ["configmaps/status"]}], {}),
        ([EVERYTHING | {"operations": ["CONNECT"]}], {}),
        ([EVERYTHING | {"scope": "Cluster"}], {}),
        ([EVERYTHING | {"apiGroups": ["cert-manager.io"]}], {}),
        (
            [EVERYTHING],
            {
                "namespaceSelector": selecting(
                    "NotIn", "levelgate-system", "kube-system", "kube-public", "kube-node-lease"
                )
            },
        ),
        ([EVERYTHING], {"namespaceSelector": {"matchLabels": {"team": "payments"}}}),
        ([EVERYTHING], {"namespaceSelector": selecting("Exists", key="team")}),
        ([EVERYTHING], {"objectSelector": {"matchLabels": {"app": "shop"}}}),
        ([EVERYTHING], {"namespaceSelector": selecting("In")}),
        ([{"resources": None, "apiGroups": 1, "operations": [[]]}], {"namespaceSelector": {"matchLabels": []}}),
    ],
    ids=lambda value: None,
)
def test_a_webhook_that_is_asked_about_other_things_is_not(rules: list[dict[str, Any]], more: dict[str, Any]) -> None:
    assert complaint(webhook(rules, **more)) == ""


def test_a_webhook_of_a_definition_is_refused_too() -> None:
    """Threat 11: as a node of an instance, with the instance's values filled in."""
    template = json.loads(webhook([EVERYTHING]))
    template["webhooks"][1]["rules"][0]["resources"] = ["${schema.spec.text}"]
    files = {
        "d.json": definition("Link", [{"id": "hook", "template": template}]),
        "x.json": instance("Link", "x", text="leases"),
        "y.json": instance("Link", "y", text="pods"),
    }
    bundle = render([load({name: text.encode() for name, text in files.items()}, source="platform")])
    errors = {key.name: one.nodes[0].error for key, one in bundle.instances.items()}
    assert "webhooks[1]: would be called for leases in levelgate-system" in errors["x"]
    assert errors["y"] == ""
