"""`evaluate`: native values in and out, and one family of errors whatever comes in."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderer.cel import NONE, BudgetExceeded, NoSuchKey, Optional, TypeValue, UInt, evaluate
from renderer.errors import ExpressionError

VALUES: list[tuple[str, dict[str, Any], Any]] = [
    ("a + 1", {"a": 1}, 2),
    ("a + 1u", {"a": UInt(1)}, UInt(2)),
    ("a / 2.0", {"a": 1.0}, 0.5),
    ("a + 'x'", {"a": "y"}, "yx"),
    ("a + b'\\x00'", {"a": b"y"}, b"y\x00"),
    ("!a", {"a": True}, False),
    ("a == null", {"a": None}, True),
    ("a.map(x, x * 2)", {"a": [1, 2]}, [2, 4]),
    ("a + duration('1s')", {"a": datetime(2026, 1, 31, tzinfo=UTC)}, datetime(2026, 1, 31, 0, 0, 1, tzinfo=UTC)),
    ("a + a", {"a": timedelta(seconds=1)}, timedelta(seconds=2)),
    ("duration('1500ns')", {}, timedelta(microseconds=1)),
    ("timestamp('2026-01-31T00:00:00.000001999Z')", {}, datetime(2026, 1, 31, 0, 0, 0, 1, tzinfo=UTC)),
    ("a[2] + a[true] + a['k']", {"a": {2: 1, True: 10, "k": 100}}, 111),
    ("has(a.k) && !(1 in a)", {"a": {True: 1, "k": 1}}, True),
    ("{1: 'a'}", {}, {1: "a"}),
    ("a.?b", {"a": {"b": [1]}}, Optional([1])),
    ("a.?c", {"a": {}}, NONE),
    ("type(1u)", {}, TypeValue("uint")),
    ("a.b.c", {"a.b.c": 1, "a.b": {"c": 2, "d": 3}}, 1),
    ("a.b.d", {"a.b.c": 1, "a.b": {"c": 2, "d": 3}}, 3),
    ("[{'b': 2}].map(a, a.b + .a.b)", {"a.b": 1}, [3]),
    ("nowhere(1) || true", {}, True),
    ("true || a.nowhere()", {}, True),
]


@pytest.mark.parametrize(("text", "bindings", "value"), VALUES, ids=[row[0] for row in VALUES])
def test_values_are_native(text: str, bindings: dict[str, Any], value: Any) -> None:
    found = evaluate(text, bindings)
    assert found == value
    assert type(found) is type(value)


def test_the_result_is_a_copy() -> None:
    bindings = {"a": {"b": [1]}}
    evaluate("a", bindings)["b"].append(2)
    assert bindings == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a.b", NoSuchKey),
        ("1 +", ExpressionError),
        ("nowhere(1)", ExpressionError),
        ("x.nowhere()", ExpressionError),
        ("1 / 0", ExpressionError),
        ("lists.range(900000)", BudgetExceeded),
        ("cel.bind(a, lists.range(1000), a.map(x, a))", BudgetExceeded),
        ("deep == deep", ExpressionError),
        ("bytes('' + half)", ExpressionError),
        ("half.matches('a')", ExpressionError),
        ("a.b + naive", ExpressionError),
        ("naive < timestamp(0)", ExpressionError),
        ("deep", ExpressionError),
    ],
)
def test_errors_are_of_one_family(text: str, error: type[Exception]) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(error):
        evaluate(text, {"a": {}, "deep": deep, "half": "\ud800", "naive": datetime(2026, 1, 31)})
    while deep:  # so that Python need not free it recursively
        deep = deep.pop()


def test_names_that_are_no_strings_are_an_error() -> None:
    names: Any = {1: 2}
    with pytest.raises(ExpressionError, match="a name in the bindings is not a string"):
        evaluate("1", names)


TOKENS = st.sampled_from(
    "a b ' \" ` ( ) [ ] { } . ? : , + - * / % ! && || == < in 0 1 1u 1.5 9223372036854775808 'x' b'x' r'' null true "
    "map filter size matches format duration timestamp cel.bind optional.of has string bytes // \\ \ud800 é".split(" ")
)


@given(st.lists(TOKENS, max_size=25).map("".join))
def test_nonsense_is_an_error_of_the_expression(text: str) -> None:
    odd = {"a": {1: object(), "b": (1, 2)}, "b": "\ud800", "x": datetime(2026, 1, 31)}
    try:
        evaluate(text, odd)
    except ExpressionError:
        return
