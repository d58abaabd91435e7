"""The function `string.format(list)`."""

from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.formatting import format_text


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("%s %s %s", [None, True, 1.0], "null true 1"),
        ("%s", [[1, {"b": 2, "a": "x"}]], "[1, {a: x, b: 2}]"),
        ("%.2f %e", [1.5, 1234.5], "1.50 1.234500e+03"),
        ("%d %b %o %x %X", [7, 5, 8, 255, "hi"], "7 101 10 ff 6869"),
        ("%f %d", [float("nan"), float("inf")], "NaN Infinity"),
        ("%d %d %d %d", [1.0, 3.14, -0.5, 1e21], "1 3.14 -0.5 1000000000000000000000"),
        ("100%%", [], "100%"),
    ],
)
def test_a_verb(text: str, values: list[Any], expected: str) -> None:
    assert format_text(Meter(), text, values) == expected


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("%s", [], "format: the clause %s (number 1) has no value; add a value to the list"),
        ("%y", [1], "format: unknown clause '%y'; choose from %s %d %f %e %b %o %x %X %%"),
        ("%d", ["a"], "format: %d does not take string"),
        ("%.1001f", [1.0], "format: the precision of %.1001f is more than 1000; use a lower precision"),
    ],
)
def test_a_wrong_clause(text: str, values: list[Any], message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        format_text(Meter(), text, values)
    assert caught.value.message == message
