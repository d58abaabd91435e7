"""The type check: finds what cannot work, and says nothing about what may."""

import re
from typing import Any

import pytest
from hypothesis import assume, given

from renderer.cel.openapi import from_openapi
from renderer.cel.type_check import check
from renderer.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    Dyn,
    Record,
    Scalar,
    StaticList,
    StaticMap,
    StaticOptional,
    Type,
)
from tests.support.cel.oracles import FAILED, SETTINGS, TYPED, ours

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "string"},
        "replicas": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "more": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "ports": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
        },
    },
}
DECLARED: dict[str, Type] = {"schema": Record({"spec": from_openapi(SCHEMA)}), "deployment": DYN}

MISTAKES = [
    ("schema.spec.sze", 1, "no field 'sze' in schema.spec; did you mean 'size'?"),
    ("schema.spec['sze']", 1, "no field 'sze' in schema.spec; did you mean 'size'?"),
    ("schema.spce.size", 1, "no field 'spce' in schema; did you mean 'spec'?"),
    ("1 + schema.spec.replcas", 5, "no field 'replcas' in schema.spec; did you mean 'replicas'?"),
    ("schema.spec.ports.map(p, p.prt)", 26, "no field 'prt' in p; did you mean 'port'?"),
    ("schema.spec.ports[0].prt", 1, "no field 'prt' in schema.spec.ports[0]; did you mean 'port'?"),
    ("schema.spec.ports.filter(p, p.port > 1)[0].prt", 1,
     "no field 'prt' in schema.spec.ports.filter(p, p.port > 1)[0]; did you mean 'port'?"),
    ("cel.bind(s, schema.spec, s.nme)", 26, "no field 'nme' in s; did you mean 'name'?"),
    ("schema.spec.name + schema.spec.replicas", 1,
     "no such overload: string + int (use string(schema.spec.replicas))"),
    ("schema.spec.replicas * 1.5", 1, "no such overload: int * double"),
    ("schema.spec.ratio * 2", 1, "no such overload: double * int"),
    ("schema.spec.tags + schema.spec.name", 1, "no such overload: list + string (use string(schema.spec.tags))"),
    ("schema.spec.on > 1", 1, "no such overload: bool > int"),
    ("schema.spec.replicas == '3'", 1, "int == string is always false"),
    ("schema.spec.tags != 'a'", 1, "list != string is always true"),
    ("schema.spec.replicas ? 1 : 2", 1, "expected bool, got int: schema.spec.replicas"),
    ("!schema.spec.name", 2, "expected bool, got string: schema.spec.name"),
    ("schema.spec.on && schema.spec.name", 19, "expected bool, got string: schema.spec.name"),
    ("schema.spec.tags.exists(t, t)", 28, "expected bool, got string: t"),
    ("schema.spec.name.map(x, x)", 1, "expected list or map, got string: schema.spec.name"),
    ("schema.spec.name.x", 1, "string has no fields: schema.spec.name"),
    ("schema.spec.replicas[0]", 1, "int has no elements: schema.spec.replicas"),
    ("schema.spec.tags['a']", 1, "no such overload: list[string]: schema.spec.tags['a']"),
    ("schema.spec.replicas.split(',')", 1, "no such overload: int.split(string): schema.spec.replicas.split(',')"),
    ("size(schema.spec.replicas)", 1, "no such overload: size(int): size(schema.spec.replicas)"),
    ("'a' in schema.spec.name", 1, "no such overload: string in string"),
    ("schema.spec.?name + 'x'", 1, "no such overload: optional + string (use string(schema.spec.?name))"),
    ("[?schema.spec.name]", 3, "expected optional after ?, got string"),
    ("schema.spec.name.splt(',')", 1, "unknown method splt(); did you mean 'split'?"),
    ("1 +", 4, "syntax error: the expression ends too early"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "message"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_told_with_its_place(text: str, column: int, message: str) -> None:
    (mistake,) = check(text, DECLARED).mistakes
    assert (mistake.column, mistake.message) == (column, message)


def test_all_mistakes_are_told() -> None:
    mistakes = check("schema.spec.nme + string(schema.spec.sze)", DECLARED).mistakes
    assert [mistake.column for mistake in mistakes] == [1, 26]


RESULTS = [
    ("schema.spec.name", STRING),
    ("schema.spec.replicas + 1", INT),
    ("schema.spec.ratio * 2.0", DOUBLE),
    ("schema.spec.ratio", DOUBLE),
    ("schema.spec.port", Dyn(frozenset(("integer", "string")))),
    ("schema.spec.port + 1", DYN),
    ("schema.spec.free.anything", DYN),
    ("schema.spec.more.b", DYN),
    ("schema.spec.more.a", INT),
    ("schema.spec.labels.any", STRING),
    ("schema.spec.labels['any']", STRING),
    ("schema.spec.tags", StaticList(STRING)),
    ("schema.spec.tags[0]", STRING),
    ("schema.spec.tags + ['x']", StaticList(STRING)),
    ("schema.spec.ports.map(p, p.port)", StaticList(INT)),
    ("schema.spec.ports.map(p, p.port > 1, p.name)", StaticList(STRING)),
    ("schema.spec.labels.map(k, k)", StaticList(STRING)),
    ("schema.spec.labels.transformMap(k, v, size(v))", StaticMap(STRING, INT)),
    ("schema.spec.tags.transformList(i, t, i)", StaticList(INT)),
    ("schema.spec.tags.sort().distinct()", StaticList(STRING)),
    ("schema.spec.tags.max()", STRING),
    ("schema.spec.?name", StaticOptional(STRING)),
    ("schema.spec.?name.orValue('')", STRING),
    ("schema.spec.?nme", StaticOptional(DYN)),
    ("schema.spec.tags[?0].orValue('')", STRING),
    ("optional.of(1).optMap(x, string(x))", StaticOptional(STRING)),
    ("has(schema.spec.nme) || schema.spec.on", BOOL),
    ("schema.spec.on ? 1 : 2", INT),
    ("schema.spec.on ? 1 : 'a'", DYN),
    ("[1, 'a']", StaticList(DYN)),
    ("{'a': 1, 'b': schema.spec.name}", Record({"a": INT, "b": STRING})),
    ("timestamp('2026-01-31T08:00:00Z') - duration('1h')", Scalar("timestamp")),
    ("schema.spec.name.size()", INT),
    ("schema.spec.name.split(',')", StaticList(DYN)),
    ("deployment.status.x.y[0].z", DYN),
    ("deployment.status.x + 1", DYN),
    ("unknown.a", DYN),
    ("null", Scalar("null")),
    ("json.unmarshal(schema.spec.name).a", DYN),
    ("schema.spec.name == null", BOOL),
    ("1 < 2.5 && 1u == 1", BOOL),
    ("cel.bind(x, schema.spec.replicas, x + x)", INT),
]


@pytest.mark.parametrize(("text", "type_"), RESULTS, ids=[row[0] for row in RESULTS])
def test_the_type_of_the_result(text: str, type_: Type) -> None:
    checked = check(text, DECLARED)
    assert checked.mistakes == ()
    assert checked.type == type_


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("byte", BYTES),
        ("date-time", Scalar("timestamp")),
        ("duration", Scalar("duration")),
        ("date", STRING),
        ("uuid", STRING),
    ],
)
def test_texts_of_some_formats_are_other_values(name: str, type_: Type) -> None:
    assert from_openapi({"type": "string", "format": name}) == type_


@pytest.mark.parametrize("schema", [None, {}, {"anyOf": []}, {"type": "nonsense"}, True])
def test_a_schema_that_says_nothing_is_dyn(schema: Any) -> None:
    assert from_openapi(schema) == DYN


M = Record({"a": INT, "b": STRING, "c": StaticList(INT), "d": DYN, "e": BOOL, "f": DOUBLE})
VARIABLES: dict[str, Type] = {"m": M, "l": StaticList(INT), "s": STRING, "n": INT, "t": BOOL}
_SKIPS = re.compile(r"&&|\|\||\?|\.(all|exists|exists_one|filter|map|optMap|optFlatMap)\(|orValue|cel\.bind")
"""What may leave a part unevaluated, so that its mistake does no harm."""


@SETTINGS
@given(TYPED.filter(lambda text: not _SKIPS.search(text) and len(text) < 300))
def test_there_are_no_false_alarms(text: str) -> None:
    """An expression that has a value has no mistake, except comparisons that are always false."""
    assume(ours(text) != FAILED)
    assert [one.message for one in check(text, VARIABLES).mistakes if "is always" not in one.message] == []


@SETTINGS
@given(TYPED.filter(lambda text: len(text) < 300))
def test_a_value_has_the_type_that_was_found(text: str) -> None:
    value = ours(text)
    assume(value != FAILED and isinstance(value, tuple))
    found = check(text, VARIABLES).type
    names = {"str": "string", "NoneType": "null", "datetime": "timestamp", "timedelta": "duration"}
    actual = names.get(value[0], value[0])
    assert found == DYN or str(found) == actual or str(found) == "uint"


def test_mistakes_of_one_column_come_in_the_order_in_which_they_are_found() -> None:
    """Not by the hash seed of the process: equal files give equal reports."""
    found = check("a.b.split(',').orValue(omit())", {"a": INT}).mistakes
    assert [(mistake.column, mistake.message.partition(":")[0]) for mistake in found] == [
        (1, "int has no fields"),
        (1, "no such overload"),
    ]
