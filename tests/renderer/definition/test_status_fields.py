"""The status that a definition gives its instances."""

from typing import Any

import pytest

from renderer.definition.kind_schemas import instance_type
from renderer.definition.problem_collector import ProblemCollector
from renderer.definition.status_fields import StatusProjection, compile_status
from renderer.documents import load

INSTANCE = instance_type({"type": "object", "properties": {"n": {"type": "integer"}}}, namespaced=True)


def compiled(status: Any) -> tuple[StatusProjection, list[str]]:
    (document,), _ = load("a.yaml", b"{}")
    collector = ProblemCollector(document)
    projection = compile_status(status, [], INSTANCE, collector)
    return projection, [f"{problem.path}: {problem.message}" for problem in collector.problems]


def test_fields_have_the_types_of_their_expressions() -> None:
    projection, problems = compiled({"n": "${schema.spec.n}", "text": "n: ${string(schema.spec.n)}", "state": "X"})
    assert problems == []
    assert projection.schema == {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "text": {"type": "string"}},
    }


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ([], ""),
        ("x", "spec.schema.status: must be a mapping whose values are expressions"),
        ({"a": 1}, "spec.schema.status.a: is a constant; write an expression that reads a resource or schema"),
        ({"a": "${1}"}, "spec.schema.status.a: does not read a resource or schema; write an expression that does"),
        ({"levelgate": "${schema.spec.n}"}, "spec.schema.status.levelgate: is reserved for Levelgate's own status"),
        ({"a": "${nosuch.b}"}, "spec.schema.status.a: ${nosuch.b}: 'nosuch' is not a resource or variable in scope"),
    ],
)
def test_mistakes_are_noted(status: Any, problem: str) -> None:
    _, problems = compiled(status)
    assert [found.startswith(problem) for found in problems] == [True] * bool(problem)


def test_conditions_know_their_literal_types() -> None:
    projection, problems = compiled(
        {"conditions": ["${runtime.newCondition({type: 'Up', status: schema.spec.n > 0 ? 'True' : 'False'})}"]}
    )
    assert problems == []
    assert [entry.types for entry in projection.conditions] == [("Up",)]
