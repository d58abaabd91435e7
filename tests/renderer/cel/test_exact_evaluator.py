"""CEL's semantics in full, with the cause of each error."""

from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError, MissingKeyError
from renderer.cel.exact_evaluator import evaluate_exactly, format_path
from renderer.cel.parser import parse

DATA = {"a": {"b": [{"c": 1}], "n": None}, "text": "x"}


def evaluated(text: str) -> Any:
    return evaluate_exactly(text, parse(text), DATA, Meter())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 / 0 == 1 || true", True),
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 && false", False),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("[0, 2].all(x, 1 / x == 1)", False),
        ("cel.bind(x, 1 / 0, true)", True),
    ],
)
def test_an_error_is_absorbed_where_another_operand_decides(text: str, value: bool) -> None:
    assert evaluated(text) is value


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("a.x.y", ("a", "x"), "no such key 'x' in a"),
        ("a.b[0].d", ("a", "b", "[0]", "d"), "no such key 'd' in a.b[0]"),
        ("a.b[7]", ("a", "b", "[7]"), "index 7 out of range in a.b (1 item)"),
        ("a.n.x", ("a", "n", "x"), "no such key 'x': a.n is null"),
        ("a.b.map(i, i.d)", ("a", "b", "[0]", "d"), "no such key 'd' in a.b[0]"),
        ("a.b.filter(i, true)[0].d", ("a", "b"), "no such key 'd' in a.b.filter(i, true)[0]"),
    ],
)
def test_a_missing_key_tells_its_path_from_a_variable(text: str, path: tuple[str, ...], message: str) -> None:
    with pytest.raises(MissingKeyError) as caught:
        evaluated(text)
    assert caught.value.path == path
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text + 1", "no such overload: string + int (use string(1))"),
        ("text * a", "no such overload: string * map (text is string, a is map)"),
        ("text && true", "expected bool, got string: text"),
        ("txt", "unknown name 'txt'; did you mean 'text'?"),
    ],
)
def test_an_error_quotes_its_operands(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluated(text)
    assert caught.value.message == message


def test_a_path_is_written_as_in_an_expression() -> None:
    assert format_path(("a", "b", "[0]", "c d")) == "a.b[0]['c d']"
