"""Rules for the body of a resource before it is compiled."""

from typing import Any

import pytest

from renderer.definition.problem_collector import ProblemCollector
from renderer.definition.resource_rules import check_reference, check_template, find_forbidden_keys
from renderer.documents import load
from renderer.identity import GroupKind

CONFIG_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def checked(check: Any, body: Any) -> tuple[GroupKind | None, list[str]]:
    (document,), _ = load("a.yaml", b"{}")
    collector = ProblemCollector(document)
    kind = check(body, "template", collector)
    return kind, [f"{problem.path}: {problem.message}" for problem in collector.problems]


def test_a_plain_template_has_its_kind() -> None:
    assert checked(check_template, CONFIG_MAP) == (GroupKind("", "ConfigMap"), [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kind": "${schema.spec.kind}"},
            "template.kind: contains an expression; write a fixed value",
        ),
        ({"apiVersion": None}, "template.apiVersion: missing; write a fixed value"),
        ({"metadata": {}}, "template.metadata.name: missing"),
        ({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}, "template.kind: a definition cannot"),
    ],
)
def test_mistakes_are_noted(changes: dict[str, Any], message: str) -> None:
    _, problems = checked(check_template, CONFIG_MAP | changes)
    assert [problem for problem in problems if problem.startswith(message)]


def test_a_crd_holds_expressions_under_metadata_only() -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "${schema.spec.name}"},
        "spec": {"names": {"kind": "${schema.spec.kind}"}},
    }
    _, problems = checked(check_template, crd)
    assert problems == [
        "template.spec.names.kind: a CustomResourceDefinition may contain expressions under metadata only; "
        "write a fixed value"
    ]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "must have exactly one of name and selector"),
        ({"name": "a", "selector": {}}, "must have exactly one of name and selector"),
        ({"name": "a", "labels": {}}, "no such field"),
        ({"selector": {"matchExpressions": [{"operator": "Near"}]}}, "must be one of In, NotIn, Exists, DoesNotExist"),
    ],
)
def test_a_reference_names_or_selects_and_nothing_else(metadata: dict[str, Any], message: str) -> None:
    _, problems = checked(check_reference, CONFIG_MAP | {"metadata": metadata})
    assert message in problems[0]


def test_keys_of_the_program_are_forbidden() -> None:
    metadata = {
        "labels": {"kro.run/x": "", "app": "a"},
        "annotations": {"levelgate.dev/prune": "disabled", "levelgate.dev/commit": "1", "levelgate.dev/conflicts": "x"},
    }
    assert [place for place, _ in find_forbidden_keys(metadata)] == [
        "metadata.labels[kro.run/x]",
        "metadata.annotations[levelgate.dev/commit]",
        "metadata.annotations[levelgate.dev/conflicts]",
    ]
