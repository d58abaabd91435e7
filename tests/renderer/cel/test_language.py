"""The core language: each row is an expression and its value, evaluated by the fast code and by the exact evaluator."""

from typing import Any

import pytest

from renderer.cel import Optional, Program, compile_expression
from renderer.errors import ExpressionError
from tests.support.cel.values import VALUES

VARIABLES: dict[str, Any] = {
    "schema": {
        "metadata": {"name": "orders", "namespace": "shop", "labels": {"app.kubernetes.io/name": "orders"}},
        "spec": {"name": "orders", "replicas": 3, "ratio": 0.5, "on": True, "nothing": None, "tags": ["a", "b"]},
    },
    "list": {"status": "a resource may be called list"},
}


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present is right.present and same(left.value, right.value)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_value(text: str, value: object) -> None:
    program = compile_expression(text)
    assert same(program.evaluate(VARIABLES), value)
    assert same(program.evaluate_exactly(VARIABLES), value)


FAILURES = [
    ("9223372036854775807 + 1", "integer overflow"),
    ("-9223372036854775808 - 1", "integer overflow"),
    ("-(-9223372036854775808)", "integer overflow"),
    ("9223372036854775807 * 2", "integer overflow"),
    ("-9223372036854775808 / -1", "integer overflow"),
    ("1u - 2u", "unsigned integer overflow"),
    ("1 / 0", "division by zero"),
    ("1 % 0", "modulus by zero"),
    ("1u + 1", "no such overload: uint + int"),
    ("1 + 1.0", "no such overload: int + double"),
    ("1 < 'a'", "no such overload: int < string"),
    ("true + true", "no such overload: bool + bool"),
    ("null < null", "no such overload: null < null"),
    ("1.0 % 2.0", "no such overload: double % double"),
    ("!1", "no such overload: !int"),
    ("-'a'", "no such overload: -string"),
    ("1 in 2", "no such overload: int in int"),
    ("[1, 2][2]", "index 2 out of range in [1, 2] (2 items)"),
    ("[1, 2][-1]", "index -1 out of range in [1, 2] (2 items)"),
    ("[1][true]", "no such overload: list[bool]"),
    ("[1][0.5]", "no such overload: list[double]"),
    ("'abc'[0]", "no such overload: string[int]"),
    ("'abc'.x", "no such overload: string.x"),
    ("{'a': 1}.b", "no such key 'b' in {'a': 1}"),
    ("{1: 'a'}[true]", "no such key True"),
    ("{'a': 1, 'a': 2}", "the map literal has the key 'a' twice"),
    ("{1.0: 2}", "double cannot be the key of a map"),
    ("has(schema.missing.x)", "no such key 'missing' in schema"),
    ("schema.spec.name && true", "expected bool, got string: schema.spec.name"),
    ("false || 1 / 0 == 1", "division by zero"),
    ("schema.spec.replicas ? 1 : 2", "expected bool, got int: schema.spec.replicas"),
    ("[1, 0].map(x, 1 / x)", "division by zero"),
    ("[0, 1].exists_one(x, 1 / x == 1)", "division by zero"),
    ("[1].all(x, x)", "expected bool, got int: x"),
    ("schema.spec.name.map(x, x)", "expected list or map, got string"),
    ("[?1]", "expected optional after ?, got int"),
    ("optional.none().value()", "the optional has no value"),
    ("[1, 'a'].sortBy(x, x)", "cannot sort by int and string"),
    ("timestamp('9999-12-31T00:00:00Z') + duration('48h')", "timestamp out of range"),
]


@pytest.mark.parametrize(("text", "message"), FAILURES, ids=[text for text, _ in FAILURES])
def test_failure(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text).evaluate(VARIABLES)
    assert caught.value.message.startswith(message)
    assert str(caught.value) == f"${{{text}}}: {caught.value.message}"


def test_long_chains_are_left_to_the_exact_evaluator() -> None:
    assert compile_expression(" + ".join(["'x'"] * 200)).evaluate({}) == "x" * 200
    assert compile_expression(" || ".join(["false"] * 1000 + ["true"])).evaluate({}) is True
    assert compile_expression("(" * 100 + "1" + ")" * 100).evaluate({}) == 1
    nested: Any = 1
    for _ in range(200):
        nested = [nested]
    assert compile_expression("[" * 200 + "1" + "]" * 200).evaluate({}) == nested


def test_a_value_is_the_same_on_each_evaluation() -> None:
    program: Program = compile_expression("{'b': schema.spec.tags, 'a': schema.spec.tags.map(x, x + '!')}")
    assert repr(program.evaluate(VARIABLES)) == repr(program.evaluate(VARIABLES))
    assert list(program.evaluate(VARIABLES)) == ["b", "a"]
