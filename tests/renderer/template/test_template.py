"""Templates: scanning, compiling, evaluating, and evaluating as far as possible."""

from collections.abc import Mapping
from typing import Any

import pytest

from renderer.cel import NoSuchKey
from renderer.errors import ExpressionError
from renderer.template.expressions import Expression, parse_expression, scan
from renderer.template.template import Template, TemplateError, compile_template

SCANNED: list[tuple[str, tuple[str | Expression, ...]]] = [
    ("", ()),
    ("plain", ("plain",)),
    ("$x {y} $ {z}", ("$x {y} $ {z}",)),
    ("${a}", (Expression("a"),)),
    ("${a}\n", (Expression("a"), "\n")),
    ("x-${a}-${b}", ("x-", Expression("a"), "-", Expression("b"))),
    ("${a}${b}", (Expression("a"), Expression("b"))),
    ("${{'a': {'b': 1}}.a}", (Expression("{'a': {'b': 1}}.a"),)),
    ('${"}"}', (Expression('"}"'),)),
    ("${'}'}", (Expression("'}'"),)),
    ("${'''}'}'''}", (Expression("'''}'}'''"),)),
    ('${"""}"}"""}', (Expression('"""}"}"""'),)),
    ('${"a\\"}"}', (Expression('"a\\"}"'),)),
    ("${r'\\'}", (Expression("r'\\'"),)),
    ("${r'\\'} and '", (Expression("r'\\'"), " and '")),
    ("${bR'\\'}", (Expression("bR'\\'"),)),
    ("${for'\\'}'}", (Expression("for'\\'}'"),)),
    ('${"${X}"}', (Expression('"${X}"'),)),
    ("${'${X}'}", (Expression("'${X}'"),)),
    ("${ never closed", ("${ never closed",)),
    ("${'never closed}", ("${'never closed}",)),
    ("${a} ${ open", (Expression("a"), " ${ open")),
    ("it's ${a}, isn't it", ("it's ", Expression("a"), ", isn't it")),
    ("}${a}{", ("}", Expression("a"), "{")),
]


@pytest.mark.parametrize(("text", "parts"), SCANNED, ids=[row[0] for row in SCANNED])
def test_scan(text: str, parts: tuple[str | Expression, ...]) -> None:
    assert scan(text) == parts


def test_a_nested_opening_is_an_error_with_its_column() -> None:
    with pytest.raises(ExpressionError, match="nested") as caught:
        scan("x ${a + ${b}}")
    assert caught.value.column == 5


@pytest.mark.parametrize("text", ["a", "${a} ", " ${a}", "${a}${b}", "${a", ""])
def test_a_standalone_expression_stands_alone(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"write exactly one expression \$\{...\}"):
        parse_expression(text)


def test_parse_expression() -> None:
    assert parse_expression("${ schema.spec.n }").evaluate({"schema": {"spec": {"n": 1}}}) == 1


VARIABLES: dict[str, Any] = {
    "schema": {
        "metadata": {"name": "shop"},
        "spec": {"name": "orders", "replicas": 3, "ratio": 2.0, "labels": {"team": "a"}, "trap": "${schema.spec.name}"},
    },
    "service": {"status": {"ip": "10.0.0.1"}},
}

EVALUATED = [
    ("${schema.spec.replicas}", 3),
    ("${schema.spec.ratio}", 2),
    ("${schema.spec.labels}", {"team": "a"}),
    ("${schema.spec.name}-db", "orders-db"),
    ("${schema.spec.name}${schema.metadata.name}", "ordersshop"),
    ("${schema.spec.name}\n", "orders\n"),
    ('${"${X}"}', "${X}"),
    ("a ${'}'} b", "a } b"),
    ("${ unfinished", "${ unfinished"),
    ("${schema.spec.trap}", "${schema.spec.name}"),
    ("${schema.spec.trap}!", "${schema.spec.name}!"),
    ("${schema.?spec.missing}", None),
    ("${timestamp('2026-01-31T00:00:00Z')}", "2026-01-31T00:00:00Z"),
    ("${duration('90m')}", "1h30m0s"),
    ("${string(schema.spec.replicas)}/3", "3/3"),
    (None, None),
    (1.5, 1.5),
    ({"a": [1, {"b": None, "c": True}]}, {"a": [1, {"b": None, "c": True}]}),
    ({"${schema.spec.name}": 1}, {"${schema.spec.name}": 1}),
    ({"a": "${omit()}", "b": 1}, {"b": 1}),
    ({"a": "${schema.spec.replicas > 5 ? 'x' : omit()}", "b": "${schema.spec.replicas > 1 ? 'y' : omit()}"}, {"b": "y"}),
    (["${omit()}", 1, "${omit()}"], [1]),
    ({"a": {"b": "${omit()}"}}, {"a": {}}),
    ({"z": 1, "a": "${schema.spec.name}", "m": {"x": ["${schema.spec.name}-${schema.metadata.name}"]}},
     {"z": 1, "a": "orders", "m": {"x": ["orders-shop"]}}),
    ("${" + " + ".join(["schema.spec.name"] * 100) + "}", "orders" * 100),
]  # fmt: skip


def evaluated(template: Template, variables: Mapping[str, Any]) -> Any:
    """The finished value. Raises TemplateError."""
    value, _ = template.evaluate_partially(variables, lambda _: False)
    return value


@pytest.mark.parametrize(("template", "value"), EVALUATED, ids=[str(row[0])[:60] for row in EVALUATED])
def test_evaluate(template: Any, value: object) -> None:
    compiled = compile_template(template)
    result = evaluated(compiled, VARIABLES)
    assert result == value
    assert type(result) is type(value)
    assert compiled.evaluate_partially(VARIABLES, lambda _: True) == (value, [])
    if isinstance(value, dict) and isinstance(result, dict):
        assert list(result) == list(value)


HOSTILE = ["'", '"', "\\", "'''", "\n", "{}", "'+__import__('os').abort()+'", "é\u2028", "e0", "m", "v", "\x00"]


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text) for text in HOSTILE])
def test_text_never_becomes_code(text: str) -> None:
    template = {text: text, "xx": f"{text}${{a}}", "yy": "${a}"}
    assert evaluated(compile_template(template), {"a": text}) == {text: text, "xx": text + text, "yy": text}


def test_what_is_known_of_a_template() -> None:
    template = compile_template({"a": "${schema.spec.name}-${b.c[0]}", "d": ["${size(b.c)}"], "e": 1})
    assert template.names == {"schema", "b"}
    assert [(path, program.text) for path, program in template.expressions] == [
        ("a", "schema.spec.name"),
        ("a", "b.c[0]"),
        ("d[0]", "size(b.c)"),
    ]
    assert template.source == {"a": "${schema.spec.name}-${b.c[0]}", "d": ["${size(b.c)}"], "e": 1}
    assert compile_template({"a": ["x", 1]}).names == frozenset()


def test_values_are_fresh_each_time() -> None:
    template = compile_template({"static": {"l": [1]}, "labels": "${schema.spec.labels}"})
    first = evaluated(template, VARIABLES)
    first["static"]["l"].append(2)
    first["labels"]["team"] = "b"
    assert evaluated(template, VARIABLES) == {"static": {"l": [1]}, "labels": {"team": "a"}}
    assert VARIABLES["schema"]["spec"]["labels"] == {"team": "a"}
    assert template.source["static"] == {"l": [1]}


def test_compiling_finds_all_mistakes() -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(
            {
                "spec": {"containers": [{"image": "${a +}"}, {"image": "x-${foo(1)}"}]},
                "metadata": {"labels": {"app.kubernetes.io/name": "${a ${b}}"}},
            }
        )
    assert [str(error) for error in caught.value.errors] == [
        "spec.containers[0].image: ${a +}: syntax error: the expression ends too early",
        "spec.containers[1].image: ${foo(1)}: unknown function foo()",
        'metadata.labels["app.kubernetes.io/name"]: ${a ${b}}}: nested ${ in an expression; remove the inner ${ and }',
    ]
    assert caught.value.path == "spec.containers[0].image"


FAILING = [
    ({"a": "x${schema.spec.replicas}"}, "a: ${schema.spec.replicas}: expected string inside a text, got int; use string(schema.spec.replicas)"),
    ({"a": "x${schema.?spec.x}"}, "a: ${schema.?spec.x}: expected string inside a text, got optional; use schema.?spec.x.orValue('')"),
    ({"a": "${omit() == 'x'}"}, "a: ${omit() == 'x'}: omit() drops a whole field; do not compare omit()"),
    ({"a": "${[omit()] == [omit()]}"}, "a: ${[omit()] == [omit()]}: omit() drops a whole field; do not compare omit()"),
    ({"a": "${optional.of(omit())}"},
     "a: ${optional.of(omit())}: omit() drops a whole field; do not use omit() inside another value"),
    ({"a": "x${omit()}"}, "a: ${omit()}: omit() drops a whole field; do not use omit() inside a text"),
    ({"a": ["${schema.spec.sze}"]}, "a[0]: ${schema.spec.sze}: no such key 'sze' in schema.spec"),
    ({"a": "${b'x'}"}, "a: ${b'x'}: bytes cannot be a field; use base64.encode(...) or string(...)"),
    ({"a": "${[0.0 / 0.0]}"}, "a: ${[0.0 / 0.0]}: nan cannot be a field: JSON has no such number"),
    ("${omit()}", "${${omit()}}: omit() has no field to drop; write omit() as the value of a field"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "message"), FAILING, ids=[str(row[0]) for row in FAILING])
def test_evaluating_names_the_path(template: Any, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        evaluated(compile_template(template), VARIABLES)
    assert str(caught.value) == message


def test_evaluating_reports_all_errors_together() -> None:
    with pytest.raises(TemplateError) as caught:
        evaluated(compile_template({"a": "${schema.x}", "b": "${schema.spec.name}", "c": "${1 / 0}"}), VARIABLES)
    assert [error.path for error in caught.value.errors] == ["a", "c"]
    assert isinstance(caught.value.error, NoSuchKey)
    assert caught.value.error.path == ("schema", "x")


def waits_for_service(error: ExpressionError) -> bool:
    return isinstance(error, NoSuchKey) and error.path[0] == "service"


def test_partial_leaves_what_is_pending_as_written() -> None:
    template = compile_template(
        {
            "a": "${service.status.ip}",
            "b": "http://${service.status.ip}/${schema.spec.name}",
            "c": "${schema.spec.name}",
        }
    )
    variables = {"schema": VARIABLES["schema"], "service": {}}
    value, waiting = template.evaluate_partially(variables, waits_for_service)
    assert value == {
        "a": "${service.status.ip}",
        "b": "http://${service.status.ip}/${schema.spec.name}",
        "c": "orders",
    }
    assert [(path, error.message) for path, error in waiting] == [
        ("a", "no such key 'status' in service"),
        ("b", "no such key 'status' in service"),
    ]


def test_partial_raises_what_cannot_come_right() -> None:
    template = compile_template({"a": "${service.status.ip}", "b": "${schema.spec.sze}"})
    with pytest.raises(TemplateError, match="b: ") as caught:
        template.evaluate_partially({"schema": VARIABLES["schema"]}, waits_for_service)
    assert len(caught.value.errors) == 1


def test_each_expression_has_its_own_budget_and_all_share_one() -> None:
    greedy = "${lists.range(900000).size()}"
    assert evaluated(compile_template([greedy] * 5), {}) == [900000] * 5
    with pytest.raises(TemplateError, match="stopped: the expressions of this object together") as caught:
        evaluated(compile_template([greedy] * 15), {})
    assert caught.value.path == "[11]"


def test_a_template_nested_too_deeply_is_refused() -> None:
    value: Any = "${a}"
    for _ in range(100):
        value = [value]
    with pytest.raises(TemplateError, match="nested deeper than 80 levels"):
        compile_template(value)
    value = "${a}"
    for _ in range(75):
        value = {"x": value}
    assert evaluated(compile_template(value), {"a": 1})["x"]["x"]
