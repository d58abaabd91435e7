"""What a program tells about its expression, the cache, and how results become JSON."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from renderer.cel import NONE, OMIT, Optional, UInt, compile_expression, to_json
from renderer.cel.nanoseconds import duration_from_nanoseconds
from renderer.errors import ExpressionError

FACTS = [
    ("1 + 2", "", [], ""),
    ("schema.spec.name", "schema", ["schema.spec.name"], ""),
    ("deployment.status.conditions[0].type", "deployment", ["deployment.status.conditions.[0].type"], ""),
    ("deployment['status']['x/y'].z", "deployment", ["deployment.status.x/y.z"], ""),
    ("service.spec.ports[schema.spec.index].port", "schema service", ["schema.spec.index", "service.spec.ports"], ""),
    ("deployment.status.conditions.exists(c, c.type == schema.spec.kind)", "deployment schema",
     ["deployment.status.conditions", "schema.spec.kind"], ""),
    ("[1].map(schema, schema.x)", "", [], ""),
    ("[schema.a].map(schema, schema.x)", "schema", ["schema.a"], ""),
    ("cel.bind(x, db.status, x.host + y.port)", "db y", ["db.status", "y.port"], ""),
    ("has(a.b.c) ? a.b.c.d : a.e", "a", ["a.b.c", "a.b.c.d", "a.e"], ""),
    ("a.?b.c[?'d']", "a", ["a.b.c.d"], ""),
    ("json.marshal(json.spec)", "json", ["json.spec"], "json.marshal"),
    ("a.b.split(',').orValue(omit())", "a", ["a.b"], "split orValue omit"),
    ("type(a) == int", "a", ["a"], "type"),
    ("runtime.newCondition({type: a.b, status: 'True'})", "a", ["a.b"], "runtime.newCondition"),
    ("list.items.size()", "list", ["list.items"], "size"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names", "reads", "calls"), FACTS, ids=[row[0] for row in FACTS])
def test_facts(text: str, names: str, reads: list[str], calls: str) -> None:
    program = compile_expression(text)
    assert program.names == frozenset(names.split())
    assert [".".join(path) for path in program.reads] == reads
    assert program.calls == frozenset(calls.split())


def test_reads_that_may_lead_nowhere_are_told_apart() -> None:
    program = compile_expression("has(a.b) || a.?c == a.d || has(a.e) && a.e")
    assert program.optional_reads == {("a", "b"), ("a", "c")}


def test_a_text_is_compiled_once() -> None:
    assert compile_expression("schema.spec.name + 'x'") is compile_expression("schema.spec.name + 'x'")


def test_importing_the_package_is_cheap() -> None:
    heavy = ("lark", "celpy", "re2", "renderer.cel.parser")
    code = f"import sys, renderer.cel, renderer.template.template; sys.exit(bool({heavy!r} & sys.modules.keys()))"
    code = code.replace(repr(heavy), f"set({heavy!r})")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_celpy_itself_is_never_imported() -> None:
    code = (
        "import sys; from renderer.cel import compile_expression as c; c('a.matches(\"x\")').evaluate({'a': 'x'});"
        "sys.exit('celpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


JSON = [
    (Optional("a"), "a"),
    (NONE, None),
    ([NONE, Optional(1)], [None, 1]),
    (UInt(5), 5),
    (2.0, 2),
    (2.5, 2.5),
    (1e300, 1e300),
    (datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=1))), "2026-01-31T07:00:00Z"),
    (datetime(2026, 1, 31, 8, 0, 0, 120_000, tzinfo=UTC), "2026-01-31T08:00:00.12Z"),
    (timedelta(0), "0s"),
    (timedelta(hours=1, minutes=30), "1h30m0s"),
    (timedelta(minutes=2, seconds=1.5), "2m1.5s"),
    (timedelta(milliseconds=300), "300ms"),
    (timedelta(microseconds=1500), "1.5ms"),
    (-timedelta(microseconds=7), "-7µs"),
    (duration_from_nanoseconds(1), "1ns"),
    (duration_from_nanoseconds(-1_500), "-1.5µs"),
    (duration_from_nanoseconds(3_600_000_000_001), "1h0m0.000000001s"),
    ({"a": OMIT, "b": [1, OMIT]}, {"b": [1]}),
]


@pytest.mark.parametrize(("value", "json"), JSON, ids=[repr(row[0]) for row in JSON])
def test_results_as_json(value: object, json: object) -> None:
    assert to_json(value) == json
    assert type(to_json(value)) is type(json)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b'a'", "bytes cannot be a field; use base64.encode(...) or string(...)"),
        ("9223372036854775808u", "uint 9223372036854775808 is too large"),
        ("[0.0 / 0.0]", "nan cannot be a field"),
        ("1.0 / 0.0", "inf cannot be a field"),
        ("{1: 2}", "the keys of a map must be strings"),
        ("quantity('1')", "a quantity cannot be a field"),
        ("ip('::1')", "an ip cannot be a field"),
        ("type(1)", "a type cannot be a field"),
    ],
)
def test_results_that_are_no_json(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        to_json(compile_expression(text).evaluate({}), expression=text)
    assert caught.value.message.startswith(message)
    assert caught.value.expression == text


def test_json_shares_nothing_with_the_variables() -> None:
    variables = {"a": {"l": [1]}}
    value = to_json(compile_expression("a").evaluate(variables))
    value["l"].append(2)
    assert variables == {"a": {"l": [1]}}
