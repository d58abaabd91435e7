"""The runner itself: what it reads from a file, and what it counts as right."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from renderer.cel import TypeValue, UInt
from tests.support.cel.suite import FAILED, MESSAGES, Case, cases, right, same
from tests.support.cel.textproto import MalformedText, Word, parse

FILE = r"""
name: "sample"  # a comment
section {
  name: "first"
  test { name: "sum" expr: "a + 1" bindings { key: "a" value { value { int64_value: 2 } } } value { int64_value: 3 } }
  test: { name: "wrong", expr: '1 + 1', value: < int64_value: 3 > }
  test { name: "fails" expr: "1 / 0" eval_error { errors { message: "any" } } }
  test { name: "true by default" expr: "'a'" "== 'a'" }
  test { name: "typed" expr: "1u" typed_result { result { uint64_value: 1 } deduced_type { primitive: UINT64 } } }
}
section {
  name: "second"
  test { name: "message" expr: "TestAllTypes{}" value { bool_value: true } }
  test {
    name: "container" expr: "y" container: "x"
    bindings { key: "x.y" value { value { bool_value: true } } }
  }
  test { name: "constructor" expr: "Int32Value{value: 1}" container: "google.protobuf" value { int64_value: 1 } }
  test { name: "checker" expr: "1" check_only: true }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sample.textproto").write_text(FILE)
    return tmp_path


def test_cases_are_run_and_judged(folder: Path) -> None:
    assert [(case.id, right(case)) for case in cases(folder) if case.left_out is None] == [
        ("sample/first/sum", True),
        ("sample/first/wrong", False),
        ("sample/first/fails", True),
        ("sample/first/true by default", True),
        ("sample/first/typed", True),
    ]


def test_what_is_left_out_says_why(folder: Path) -> None:
    assert [(case.name, case.left_out) for case in cases(folder) if case.left_out] == [
        ("message", MESSAGES),
        ("container", "name resolution in a protobuf container"),
        ("constructor", "name resolution in a protobuf container"),
        ("checker", "expects only the type checker"),
    ]


VALUES = [
    ("null_value: NULL_VALUE", None),
    ("double_value: -inf", float("-inf")),
    ("double_value: 1e3", 1000.0),
    ('string_value: "\\303\\251\\n"', "é\n"),
    (r'bytes_value: "\x00\377"', b"\x00\xff"),
    ('type_value: "int"', TypeValue("int")),
    ("list_value { values { int64_value: 1 } values { uint64_value: 2 } }", [1, UInt(2)]),
    ("list_value {}", []),
    ("map_value { entries { key { int64_value: 1 } value { bool_value: false } } }", {1: False}),
    ("object_value { [type.googleapis.com/google.protobuf.Duration] { seconds: 1 nanos: 2000 } }",
     timedelta(seconds=1, microseconds=2)),
    ("object_value { [type.googleapis.com/google.protobuf.Timestamp] { seconds: 60 } }",
     datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_values(tmp_path: Path, text: str, value: Any) -> None:
    (tmp_path / "values.textproto").write_text(f'section {{ test {{ expr: "x" value {{ {text} }} }} }}')
    (case,) = cases(tmp_path)
    assert same(value, case.expected)


@pytest.mark.parametrize(
    ("expected", "actual"), [(1, UInt(1)), (1, 1.0), (1, True), ([1], [1.0]), ({1: 1}, {True: 1}), (1, FAILED)]
)
def test_values_of_other_types_are_not_the_same(expected: Any, actual: Any) -> None:
    assert not same(expected, actual)


def test_not_a_number_is_itself() -> None:
    assert same(float("nan"), float("nan"))
    assert right(Case("f", "s", "n", "0.0 / 0.0", {}, float("nan"), None))


def test_fields_repeat_and_lists_are_the_same() -> None:
    assert parse("a: 1 a: [2, -3] b { c: x }") == {"a": [Word("1"), Word("2"), Word("-3")], "b": [{"c": [Word("x")]}]}


@pytest.mark.parametrize("text", ["a", "a {", 'a: "', "a: }", "}", "a: {b: 1"])
def test_malformed_files_are_told_with_the_line(text: str) -> None:
    with pytest.raises(MalformedText, match=r"line \d+: expected"):
        parse(text)
