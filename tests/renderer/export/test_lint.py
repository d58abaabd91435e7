"""Errors and warnings of a commit."""

import pytest

from renderer.catalog.catalog import load
from renderer.errors import Problem
from renderer.export.lint import LintFinding, Severity, lint
from renderer.render.render import render

HEAD = """apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shops}
spec:
  schema: {kind: Shop, apiVersion: v1, spec: {name: string, unused: string}, types: {Size: {width: integer}}}
  resources:
"""
CONFIG_MAP = """  - id: config
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}"}DATA}
"""


def findings(text: str, **more: str) -> list[str]:
    files = {"a.yaml": text.encode(), **{f"{name}.yaml": value.encode() for name, value in more.items()}}
    catalog = load(files)
    return [str(finding) for finding in lint(files, catalog, render([catalog]))]


def test_fields_and_types_that_nothing_uses_are_told() -> None:
    assert findings(HEAD + CONFIG_MAP.replace("DATA", "")) == [
        "a.yaml:5: warning: spec.schema.spec.unused: no expression reads schema.spec.unused; remove the field",
        "a.yaml:5: warning: spec.schema.types.Size: no field has the type Size; remove the type",
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (', data: {"${schema.spec.unused}": x}', "Levelgate does not evaluate an expression in a key"),
        (', data: {a: "${schema.spec.unused}\\n"}', "blanks or a line end surround the expression"),
        (', data: {a: "x ${schema"}', "is not closed, so Levelgate reads the value as text"),
    ],
)
def test_text_that_looks_like_an_expression_is_told(data: str, words: str) -> None:
    assert any(words in finding for finding in findings(HEAD + CONFIG_MAP.replace("DATA", data)))


def test_a_workload_without_a_condition_is_told() -> None:
    text = HEAD + CONFIG_MAP.replace("v1, kind: ConfigMap", "apps/v1, kind: Deployment").replace("DATA", "")
    assert any(
        "config: no readyWhen, so Ready means only that the object exists; add readyWhen" in found
        for found in findings(text)
    )


def test_a_plain_object_that_its_schema_refuses_is_an_error() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {count: 1, text: '${x}'}\n"
    (finding,) = findings(text)
    assert finding.startswith("a.yaml:4: data.count: 1 is an integer, where a string is needed")


def test_a_strict_run_fails_for_what_is_certain() -> None:
    problem = Problem("a.yaml", 1, "", "x")
    assert LintFinding(problem, Severity.ERROR).fails_strict
    assert LintFinding(problem, Severity.WARNING).fails_strict
    assert not LintFinding(problem, Severity.WARNING, is_certain=False).fails_strict
