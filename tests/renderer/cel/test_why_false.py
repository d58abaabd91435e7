"""The operands that made a condition not true."""

import pytest

from renderer.cel import compile_expression
from renderer.cel.why_false import find_decisive_operands

DATA = {"a": 1, "b": {"ready": False, "items": [1, 2]}, "on": True}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a > 3", ["a = 1"]),
        ("on && b.ready", ["b.ready = false"]),
        ("b.ready || a > 3", ["b.ready = false", "a = 1"]),
        ("!on", ["on = true"]),
        ("on ? b.ready : a == 1", ["on = true", "b.ready = false"]),
        ("b.items == [1]", ["b.items = list of 2"]),
        ("a > 3 && a > 5", ["a = 1"]),
        ("b.nosuch && on", ["b.nosuch = error"]),
        ("1 > 2", []),
    ],
)
def test_the_operands_that_decided(text: str, told: list[str]) -> None:
    assert [str(operand) for operand in find_decisive_operands(compile_expression(text), DATA)] == told
