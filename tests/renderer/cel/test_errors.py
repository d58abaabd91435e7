"""What the author of an expression is told, and what callers learn from an error."""

from typing import Any

import pytest

from renderer.cel import NoSuchKey, compile_expression
from renderer.errors import ExpressionError

VARIABLES: dict[str, Any] = {
    "schema": {
        "spec": {"size": "small", "replicas": 3, "tags": ["a"], "owner": None},
        "metadata": {"labels": {"a/b": "c"}},
    },
    "deployment": {
        "status": {"conditions": [{"type": "Ready"}], "ports": [{"name": "http"}]},
        "data": {"config": "{}"},
    },
}

SYNTAX = [
    ("", "the expression is empty", None),
    ("1 +", "syntax error: the expression ends too early", 4),
    ("a = b", "syntax error: unexpected =; compare with ==", 3),
    ("a & b", "syntax error: unexpected &; write && for and", 3),
    ("a and b", "syntax error: unexpected and; write && for and", 3),
    ("not a", "syntax error: unexpected a; write ! for not", 5),
    ("a ${b}", "syntax error: unexpected $; remove ${ and }", 3),
    ("“a”", 'syntax error: unexpected “; use plain quotes "', 1),
    ("'abc", "syntax error: the string is not closed", 1),
    ("a.in", "syntax error: in is a keyword; write ['in']", 3),
    ("a.true", "syntax error: true is a keyword; write ['true']", 3),
    ("namespace + 'x'", "namespace is a reserved word and cannot be a variable", 1),
    ("9223372036854775808", "9223372036854775808 does not fit into an int (64 bits)", 1),
    ("'\\d'", "invalid escape sequence \\d in a string", 1),
    ("Foo{a: 1}", "unknown message type Foo; a map is {'key': value}", 4),
    ("a.b.Foo{}", "unknown message type a.b.Foo; a map is {'key': value}", 8),
    ("'x'{a: 1}", "syntax error: unexpected {; a map is {'key': value}", 4),
    ("has(a)", "has() takes a field selection", 1),
    ("has(a['b'])", "has() takes a field selection", 1),
    ("[1].map(1, x)", "the first argument of map() must be a variable name", 9),
    ("[1].all(x, x, true)", "all() needs two different variables", 5),
    ("1 + foo(2)", "unknown function foo()", 5),
    ("'a'.splt('b')", "unknown method splt(); did you mean 'split'?", 1),
    ("'a'.filtr(x, x)", "unknown method filtr(); did you mean 'filter'?", 1),
    ("'a'.string()", "unknown method string(); write string(x)", 1),
    ("startsWith('a', 'b')", "unknown function startsWith(); write x.startsWith(...)", 1),
    ("[1].map(x)", "unknown method map(); the macro takes 2 or 3 arguments, on a list or map", 1),
    ("'a'.split()", "split() takes 1 or 2 arguments, not 0", 1),
    ("size()", "size() takes 1 argument, not 0", 1),
    ("[" * 300 + "]" * 300, "the expression is nested deeper than 250 levels", None),
    ("!" * 300 + "true", "the expression is nested deeper than 250 levels", None),
    ("'" + "a" * 40_000 + "'", "the expression is longer than 32,768 characters", None),
]


@pytest.mark.parametrize(("text", "message", "column"), SYNTAX, ids=[text[:30] for text, _, _ in SYNTAX])
def test_an_expression_that_does_not_compile(text: str, message: str, column: int | None) -> None:
    for _ in range(2):  # the second time from the cache
        with pytest.raises(ExpressionError) as caught:
            compile_expression(text)
        assert caught.value.message.startswith(message)
        assert column is None or caught.value.column == column


OPERANDS = [
    ("schema.spec.size + schema.spec.replicas", "no such overload: string + int (use string(schema.spec.replicas))"),
    ("1 + schema.spec.size", "no such overload: int + string (use string(1))"),
    ("schema.spec.replicas < schema.spec.size",
     "no such overload: int < string (schema.spec.replicas is int, schema.spec.size is string)"),
    ("schema.spec.owner + 'x'", "no such overload: null + string (use string(schema.spec.owner))"),
    ("schema.spec.replicas.split(',')", "no such overload: int.split(string) (schema.spec.replicas is int)"),
    ("schema.spec.size ? 1 : 2", "expected bool, got string: schema.spec.size"),
    ("schema.spec.tags.x", "no such overload: list.x (schema.spec.tags is list)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), OPERANDS, ids=[text for text, _ in OPERANDS])
def test_operands_are_named_with_their_types(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text).evaluate(VARIABLES)
    assert caught.value.message == message
    assert not isinstance(caught.value, NoSuchKey)


MISSING = [
    ("schema.spec.sze", "no such key 'sze' in schema.spec; did you mean 'size'?", "schema spec sze", 1),
    ("shcema.spec", "unknown name 'shcema'; did you mean 'schema'?", "shcema", 1),
    ("service.status.ip", "unknown name 'service'", "service", 1),
    ("1 + deployment.status.replicas", "no such key 'replicas' in deployment.status", "deployment status replicas", 5),
    ("deployment.status['replicas']", "no such key 'replicas' in deployment.status", "deployment status replicas", 1),
    ("schema.spec.tags[1]", "index 1 out of range in schema.spec.tags (1 item)", "schema spec tags [1]", 1),
    ("schema.spec.owner.name", "no such key 'name': schema.spec.owner is null", "schema spec owner name", 1),
    ("schema.metadata.labels['x/y']", "no such key 'x/y' in schema.metadata.labels", "schema metadata labels x/y", 1),
    ("deployment.status.conditions[0].status == 'True'", "no such key 'status' in deployment.status.conditions[0]",
     "deployment status conditions [0] status", 1),
    ("deployment.status.conditions.exists(c, c.status == 'True')",
     "no such key 'status' in deployment.status.conditions[0]", "deployment status conditions [0] status", 40),
    ("deployment.status.map(k, deployment.status[k][7])", "index 7 out of range in deployment.status.conditions (1 item)",
     "deployment status conditions [7]", 26),
    ("deployment.status.ports.filter(p, p.name == 'x')[0].port",
     "index 0 out of range in deployment.status.ports.filter(p, p.name == 'x') (0 items)", "deployment status ports", 1),
    ("json.unmarshal(deployment.data.config).key", "no such key 'key' in json.unmarshal(deployment.data.config)",
     "deployment data config", 1),
    ("cel.bind(d, deployment.status, d.replicas)", "no such key 'replicas' in deployment.status",
     "deployment status replicas", 32),
    ("(true ? deployment : schema).x", "no such key 'x' in deployment", "deployment x", 2),
    ("has(deployment.spec.x)", "no such key 'spec' in deployment", "deployment spec", 5),
    ("deployment.status.replicas == 1 || false", "no such key 'replicas' in deployment.status",
     "deployment status replicas", 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "path", "column"), MISSING, ids=[row[0] for row in MISSING])
def test_missing_data_is_told_with_its_path(text: str, message: str, path: str, column: int) -> None:
    with pytest.raises(NoSuchKey) as caught:
        compile_expression(text).evaluate(VARIABLES)
    assert caught.value.message == message
    assert caught.value.path == tuple(path.split())
    assert caught.value.column == column


def test_a_key_missing_from_a_literal_is_nobodys_data() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("{'a': schema.spec.size}[schema.spec.size]").evaluate(VARIABLES)
    assert not isinstance(caught.value, NoSuchKey)


def test_the_cached_mistake_is_a_new_error_each_time() -> None:
    errors = []
    for _ in range(2):
        with pytest.raises(ExpressionError) as caught:
            compile_expression("a +* b")
        errors.append(caught.value)
    assert errors[0] is not errors[1]


def test_data_nested_deeper_than_python_can_compare_is_an_error_of_the_expression() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ExpressionError, match="nested too deeply"):
        compile_expression("a == b").evaluate({"a": deep, "b": [deep[0]]})
