"""The conformance tests of CEL in the SimpleTest format of google/cel-spec: what is in a file, and how a test is run.

A test is run through `renderer.cel.evaluate`, which parses and evaluates and does not check types. Tests about what
kro's CEL does not have are left out, each with the reason: protobuf messages and their containers, and expectations
of the type checker only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from renderer.cel import TypeValue, UInt, evaluate
from renderer.errors import ExpressionError
from tests.support.cel.textproto import Message, Word, parse

MESSAGES = "protobuf messages"
CONTAINER = "name resolution in a protobuf container"
CHECK_ONLY = "expects only the type checker"
MACROS_OFF = "parses with macros switched off"
_MESSAGES = re.compile(
    r"TestAllTypes|TestRequired|GlobalEnum|NestedEnum|proto[23]\b|protobuf\.(Any|Empty)\b|proto\.\w+Ext\b"
)


_UNQUALIFIED_MESSAGE = re.compile(r"(?<![.\w])[A-Z]\w*\{")
DEVIATIONS = {
    ("optionals", "map_null_entry_no_such_key"): "differs from cel-go, which Levelgate follows",
    ("string_ext", "map support (all key types)"): "true and 1 are the same key in Python",
}
"""Why Levelgate does not give the expected value, by the file and the name of the test; see docs/cel.md."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test. `expected` is the value, or FAILED where an error is expected; `left_out` tells why it is not run."""

    file: str
    section: str
    name: str
    expression: str
    bindings: Mapping[str, Any]
    expected: Any
    left_out: str | None

    @property
    def id(self) -> str:
        return f"{self.file}/{self.section}/{self.name}"


class FailedTest:
    """The expectation of an error: engines word them differently, so that any will do."""

    def __repr__(self) -> str:
        return "an error"


FAILED = FailedTest()


class Unsupported(Exception):
    """A value of a test that exists only in protobuf."""


def cases(folder: Path) -> Iterator[Case]:
    """All tests below a folder, sorted by file."""
    for path in sorted(folder.glob("*.textproto")):
        document = parse(path.read_text(encoding="utf-8"))
        for section in document.get("section", []):
            for test in section.get("test", []):
                yield _case(path.stem, _text(section, "name"), test)


def outcome(case: Case) -> Any:
    """The value that a test gives, or FAILED. What is raised otherwise is a fault of ours."""
    try:
        return evaluate(case.expression, case.bindings)
    except ExpressionError:
        return FAILED


def right(case: Case) -> bool:
    return same(case.expected, outcome(case))


def same(expected: Any, actual: Any) -> bool:
    """Whether two values are the same CEL value, types of numbers included."""
    if isinstance(expected, float):
        both_nan = type(actual) is float and math.isnan(expected) and math.isnan(actual)
        return both_nan or (type(actual) is float and expected == actual)
    if isinstance(expected, datetime | timedelta):
        return isinstance(actual, type(expected)) and expected == actual
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(same(one, other) for one, other in zip(expected, actual, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and {(type(key), key) for key in expected} == {(type(key), key) for key in actual}
            and all(same(value, actual[key]) for key, value in expected.items())
        )
    return type(expected) is type(actual) and expected == actual


def _case(file: str, section: str, test: Message) -> Case:
    expression = _text(test, "expr")
    left_out = DEVIATIONS.get((file, _text(test, "name"))) or _left_out(test, expression)
    bindings: dict[str, Any] = {}
    expected: Any = None
    if left_out is None:
        try:
            bindings = {_text(entry, "key"): _binding(entry) for entry in test.get("bindings", [])}
            expected = _expected(test)
        except Unsupported:
            left_out = MESSAGES
    return Case(file, section, _text(test, "name"), expression, bindings, expected, left_out)


def _left_out(test: Message, expression: str) -> str | None:
    types = repr(test.get("type_env", ()))
    if _MESSAGES.search(expression + types):
        return MESSAGES
    has_qualified_names = any(b"." in entry["key"][0] for entry in test.get("bindings", []))
    if "container" in test and (has_qualified_names or _UNQUALIFIED_MESSAGE.search(expression)):
        return CONTAINER
    if _flag(test, "check_only"):
        return CHECK_ONLY
    return MACROS_OFF if _flag(test, "disable_macros") else None


def _expected(test: Message) -> Any:
    if "value" in test:
        return _value(test["value"][0])
    if "typed_result" in test:
        result = test["typed_result"][0].get("result")
        return _value(result[0]) if result else True
    return FAILED if {"eval_error", "any_eval_errors"} & test.keys() else True


def _binding(entry: Message) -> Any:
    held = entry["value"][0]
    if "value" not in held:
        raise Unsupported("an error or unknown as input")
    return _value(held["value"][0])


def _value(message: Message) -> Any:
    ((kind, values),) = message.items()
    value = values[0]
    match kind:
        case "null_value":
            return None
        case "bool_value":
            return value.text == "true"
        case "int64_value":
            return int(value.text, 0)
        case "uint64_value":
            return UInt(int(value.text, 0))
        case "double_value":
            return _double(value)
        case "string_value":
            return value.decode()
        case "bytes_value":
            return value
        case "type_value":
            return TypeValue(value.decode())
        case "list_value":
            return [_value(item) for item in value.get("values", [])]
        case "map_value":
            return {_value(item["key"][0]): _value(item["value"][0]) for item in value.get("entries", [])}
        case "object_value":
            return _object(value)
    raise Unsupported(kind)


def _object(message: Message) -> Any:
    ((name, (held,)),) = message.items()
    match name.strip("[]").rpartition("/")[2]:
        case "google.protobuf.Duration":
            return _span(held)
        case "google.protobuf.Timestamp":
            return datetime(1970, 1, 1, tzinfo=UTC) + _span(held)
    raise Unsupported(name)


def _span(message: Message) -> timedelta:
    seconds, nanos = (int(message.get(field, [Word("0")])[0].text) for field in ("seconds", "nanos"))
    return timedelta(seconds=seconds, microseconds=nanos // 1000)


def _double(value: Word) -> float:
    return float(value.text.rstrip("fF") if value.text[-3:].lower() != "inf" else value.text)


def _text(message: Message, field: str) -> str:
    values = message.get(field)
    return values[0].decode() if values else ""


def _flag(message: Message, field: str) -> bool:
    return any(value.text == "true" for value in message.get(field, ())[:1])
