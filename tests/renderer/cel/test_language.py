"""The core language: each row is an expression and its value, evaluated by the fast code and by the exact evaluator."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.cel import NONE, Optional, Program, UInt, compile_expression
from renderer.errors import ExpressionError

VARIABLES: dict[str, Any] = {
    "schema": {
        "metadata": {"name": "orders", "namespace": "shop", "labels": {"app.kubernetes.io/name": "orders"}},
        "spec": {"name": "orders", "replicas": 3, "ratio": 0.5, "on": True, "nothing": None, "tags": ["a", "b"]},
    },
    "list": {"status": "a resource may be called list"},
}

VALUES = [
    # literals
    ("1", 1),
    ("-9223372036854775808", -(2**63)),
    ("0x1F", 31),
    ("7u", UInt(7)),
    ("0xAu", UInt(10)),
    ("1.5", 1.5),
    (".5e1", 5.0),
    ("1e3", 1000.0),
    ("true", True),
    ("null", None),
    ("'a'", "a"),
    ('"a"', "a"),
    ("'''a'b\n'''", "a'b\n"),
    ('"""a"b"""', 'a"b'),
    (r"'\n\t\\\'\"\?\`'", "\n\t\\'\"?`"),
    (r"'\x41\101\u00e9\U0001F600'", "AAé😀"),
    (r"r'\d'", r"\d"),
    (r"R'''\d'''", r"\d"),
    (r"r'a\' + 'b'", "a\\b"),
    ("b'abc'", b"abc"),
    (r"b'\xff\101é'", b"\xffA\xc3\xa9"),
    (r"br'\x'", rb"\x"),
    ("1 // a comment", 1),
    ("[1, 2,]", [1, 2]),
    ("{'a': 1,}", {"a": 1}),
    # arithmetic
    ("1 + 2 * 3 - 4", 3),
    ("2-1", 1),
    ("2 - -1", 3),
    ("(1 + 2) * 3", 9),
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 / -2", -3),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("7u / 2u", UInt(3)),
    ("7.0 / 2.0", 3.5),
    ("1.0 / 0.0 > 1e300", True),
    ("-(3)", -3),
    ("--3", 3),
    ("'a' + 'b'", "ab"),
    ("b'a' + b'b'", b"ab"),
    ("[1] + ['a']", [1, "a"]),
    ("duration('1h') + duration('30m')", timedelta(hours=1, minutes=30)),
    ("timestamp('2026-01-31T00:00:00Z') + duration('24h')", datetime(2026, 2, 1, tzinfo=UTC)),
    ("timestamp('2026-02-01T00:00:00Z') - timestamp('2026-01-31T00:00:00Z')", timedelta(days=1)),
    # equality: never an error; numbers across types; bool is no number
    ("1 == 1.0", True),
    ("1u == 1", True),
    ("1 != 2.0", True),
    ("1 == 'a'", False),
    ("1 != 'a'", True),
    ("true == 1", False),
    ("1 == true", False),
    ("null == 0", False),
    ("null == null", True),
    ("[1, 2.0] == [1.0, 2]", True),
    ("[1] == [true]", False),
    ("{'a': 1} == {'a': 1.0}", True),
    ("{'a': 1} == {'b': 1}", False),
    ("{1: 'a'} == {1u: 'a'}", True),
    ("double('NaN') == double('NaN')", False),
    ("type(1) == int", True),
    ("type(1u) == type(1)", False),
    ("type(type(1)) == type", True),
    ("optional.of(1) == optional.of(1.0)", True),
    ("optional.none() == optional.of(1)", False),
    # order
    ("1 < 1.5", True),
    ("2u > 1", True),
    ("'a' < 'b'", True),
    ("false < true", True),
    ("duration('1m') < duration('1h')", True),
    ("b'a' <= b'a'", True),
    # containers
    ("1 in [1.0, 2]", True),
    ("1 in ['a']", False),
    ("'a' in {'a': 1}", True),
    ("1 in {'a': 1}", False),
    ("[1, 2][1]", 2),
    ("[1, 2][1.0]", 2),
    ("{'a': 1}.a", 1),
    ("{'a': 1}['a']", 1),
    ("{1: 'a'}[1u]", "a"),
    ("{1: 'a'}[1.0]", "a"),
    ("{true: 'a'}[true]", "a"),
    # logic: errors are absorbed in either order
    ("true || 1 / 0 == 1", True),
    ("1 / 0 == 1 || true", True),
    ("false && 1 / 0 == 1", False),
    ("1 / 0 == 1 && false", False),
    ("'a' && false", False),
    ("schema.spec.missing == 1 || schema.spec.on", True),
    ("true ? 1 : 1 / 0", 1),
    ("!false && !(true && false)", True),
    # variables and fields
    ("schema.spec.name", "orders"),
    (".schema.spec.name", "orders"),
    ("schema['spec']['name']", "orders"),
    ("schema.metadata.namespace", "shop"),
    ("schema.metadata.labels.`app.kubernetes.io/name`", "orders"),
    ("schema.metadata.labels['app.kubernetes.io/name']", "orders"),
    ("list.status", "a resource may be called list"),
    ("has(schema.spec.name)", True),
    ("has(schema.spec.missing)", False),
    ("has(schema.spec.nothing)", True),
    ("has(schema.metadata.labels.`app.kubernetes.io/name`)", True),
    # optionals
    ("schema.?spec.name", Optional("orders")),
    ("schema.?missing.name.deeper", NONE),
    ("schema.spec.nothing.?x", NONE),
    ("schema.spec[?'name']", Optional("orders")),
    ("schema.spec.tags[?5]", NONE),
    ("schema.spec[?[1]]", NONE),
    ("schema.spec.?tags[?0].orValue('x')", "a"),
    ("schema.spec.?tags[0].orValue('x')", "a"),
    ("schema.?missing.orValue('none')", "none"),
    ("schema.spec.?name.orValue(1 / 0)", "orders"),
    ("has(schema.?missing.x)", False),
    ("[?schema.?missing, 1, ?schema.spec.?replicas]", [1, 3]),
    ("{?'a': schema.?missing, ?'b': schema.spec.?name, 'c': 1}", {"b": "orders", "c": 1}),
    ("optional.none().or(optional.of(1)).value()", 1),
    ("optional.of(1).or(optional.of(1 / 0)).value()", 1),
    ("optional.ofNonZeroValue('').hasValue()", False),
    ("optional.ofNonZeroValue(5)", Optional(5)),
    ("optional.of(2).optMap(x, x * 2)", Optional(4)),
    ("optional.none().optMap(x, 1 / 0)", NONE),
    ("optional.of({'a': 1}).optFlatMap(x, x.?b)", NONE),
    # macros
    ("[1, 2].all(x, x > 0)", True),
    ("[].all(x, 1 / 0 > 0)", True),
    ("[0, 2].all(x, 1 / x > 5)", False),
    ("[0, 1].exists(x, 1 / x > 0)", True),
    ("{'a': 1}.exists(k, k == 'a')", True),
    ("[1, 2, 2].exists_one(x, x == 1)", True),
    ("[1, 2, 2].existsOne(x, x == 2)", False),
    ("[1, 2].map(x, x * 2)", [2, 4]),
    ("[1, 2].map(x, x > 1, x * 2)", [4]),
    ("{'a': 1}.map(k, k + '!')", ["a!"]),
    ("[1, 2, 3].filter(x, x > 1)", [2, 3]),
    ("[[1, 2], [3]].map(x, x.map(y, y + x[0]))", [[2, 3], [6]]),
    ("[1].map(schema, schema + 1)", [2]),
    ("cel.bind(x, 3, x * x)", 9),
    ("cel.bind(x, 'a', cel.bind(y, x + x, y + y))", "aaaa"),
    ("[1, 2].all(i, v, i < v)", True),
    ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", True),
    ("{'a': 1, 'b': 1}.existsOne(k, v, v == 1)", False),
    ("['a', 'b'].transformList(i, v, string(i) + v)", ["0a", "1b"]),
    ("['a', 'b'].transformList(i, v, i > 0, v)", ["b"]),
    ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
    ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, k)", {"b": "b"}),
    ("{'a': 'x'}.transformMapEntry(k, v, {v: k})", {"x": "a"}),
    ("['b', 'a'].sortBy(x, x)", ["a", "b"]),
    ("[{'n': 2}, {'n': 1}].sortBy(x, x.n)", [{"n": 1}, {"n": 2}]),
]


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
