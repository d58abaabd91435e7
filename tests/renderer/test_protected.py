"""What no commit may have is refused when it is rendered, wherever it stands; its neighbours go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog import load
from renderer.render import render
from tests.properties.repositories import GROUP, config_map, definition, instance, plain

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
    assert "levelgate-system holds what Levelgate itself knows" in errors["x"]["bad"]
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
