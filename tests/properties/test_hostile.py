"""Nothing that stands in a repository ends a pass: what is wrong costs only itself (rule 8, S1-23)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.examples import examples
from tests.support.properties.oddities import ODD, bent, places
from tests.support.properties.repositories import config_map, definition, deployment, instance, plain

DEFINITION = json.loads(
    definition(
        "Link",
        [
            config_map("a"),
            deployment("b", "a", includeWhen=["${schema.spec.on}"]),
            {"id": "e", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "given"}}},
            config_map("m", name="m-${i}", forEach=[{"i": "${['x', 'y']}"}], readyWhen=["${each.data.text != ''}"]),
            {
                "id": "s",
                "externalRef": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"selector": {"matchLabels": {"app": "${schema.spec.text}"}}, "namespace": "default"},
                },
            },
        ],
        status={
            "name": "${a.metadata.name}",
            "count": "${size(m) + size(s)}",
            "conditions": ["${runtime.newCondition({type: 'Up', status: size(m) > 0 ? 'True' : 'False'})}"],
        },
        types={"Port": {"number": "integer"}},
        metadata={"labels": {"a": "b"}, "annotations": {"a": "b"}},
        shortNames=["lk"],
        categories=["all"],
        scope="Namespaced",
        additionalPrinterColumns=[{"name": "State", "type": "string", "jsonPath": ".status.state"}],
    )
)
POD = {
    "serviceAccountName": "robot",
    "volumes": [
        {"name": "a", "configMap": {"name": "p"}},
        {"name": "b", "projected": {"sources": [{"secret": {"name": "s"}}]}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
    ],
    "containers": [
        {"name": "a", "envFrom": [{"secretRef": {"name": "s"}}]},
        {"name": "b", "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "p", "key": "x"}}}]},
    ],
}
OBJECTS: list[dict[str, Any]] = [
    json.loads(instance("Link", "x", text="two")),
    json.loads(plain("p", "q")),
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "b"}}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "d",
            "annotations": {"levelgate.dev/wait-for": "ready", "levelgate.dev/health": "ignore"},
        },
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "r"},
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    },
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {"group": "example.org", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Cluster"},
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [{"name": "w.x.y", "clientConfig": {"service": {"name": "s", "namespace": "default"}}}],
    },
]


PLACES = [(index, path) for index, obj in enumerate([DEFINITION, *OBJECTS]) for path in places(obj)]


def members_with(values: list[dict[str, Any]]) -> set[str]:
    files = {f"{index}.json": json.dumps(value) for index, value in enumerate(values)}
    with CheckedPlatform() as platform:
        platform.commit({**files, "other.json": plain("other", text="at work")})
        platform.run()
        return platform.members()


CRASHES: list[tuple[int, tuple[Any, ...], Any]] = [
    (0, ("spec", "schema", "metadata"), "text"),
    (0, ("spec", "schema", "metadata", "labels"), "text"),
    (0, ("spec", "schema", "metadata", "annotations"), 7),
    (0, ("spec", "schema", "shortNames"), 7),
    (0, ("spec", "schema", "categories"), 7),
    (0, ("spec", "schema", "scope"), []),
    (0, ("spec", "schema", "additionalPrinterColumns"), 7),
    (0, ("spec", "schema", "additionalPrinterColumns", 0), "text"),
    (0, ("spec", "resources", 0, "template", "metadata", "name"), 7),
    (0, ("spec", "resources", 0, "template", "metadata", "name"), None),
    (0, ("spec", "resources", 1, "template", "metadata", "annotations"), "text"),
    (2, ("metadata", "annotations"), "text"),
    (2, ("metadata", "annotations", "config.kubernetes.io/depends-on"), 7),
    (3, ("stringData",), "text"),
    (3, ("stringData", "a"), 7),
    (3, ("data",), "text"),
    (4, ("metadata", "labels"), "text"),
    (5, ("spec", "template", "spec", "serviceAccountName"), ["a"]),
    (7, ("spec",), "text"),
    (7, ("spec", "group"), ...),
    (7, ("spec", "group"), ["a"]),
]
"""Which of `[DEFINITION, *OBJECTS]`, where, and what stands there."""


@pytest.mark.parametrize(("index", "path", "odd"), CRASHES)
def test_a_mistake_of_form_never_ends_a_pass(index: int, path: tuple[Any, ...], odd: Any) -> None:
    """S1-23: one bad thing blocks only itself."""
    values = [DEFINITION, *OBJECTS]
    values[index] = bent(values[index], path, odd)
    assert "other" in members_with(values)


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from([..., *ODD])), min_size=1, max_size=2))
def test_odd_values_anywhere_never_end_a_pass_and_leave_the_others_at_work(
    bends: list[tuple[tuple[int, tuple[Any, ...]], Any]],
) -> None:
    """S1-23: a pass over any content ends; what is wrong is reported as a problem or as a blocked node."""
    values = [DEFINITION, *OBJECTS]
    for (index, path), odd in bends:
        if path in places(values[index]):
            values[index] = bent(values[index], path, odd)
    assert "other" in members_with(values)
