"""docs/cel.md: its examples give the values that it says, and it leaves no function out."""

import re
from pathlib import Path

import pytest

from renderer.cel import evaluate
from renderer.cel.functions import FUNCTIONS
from renderer.cel.macro_expansion import NAMES

PAGE = (Path(__file__).parents[3] / "docs" / "cel.md").read_text(encoding="utf-8")
EXAMPLES = [
    (text.replace("\\|", "|").strip(), value.replace("\\|", "|"))
    for _, text, value in re.findall(r"^\| (`+)(.+?)\1 \| `([^`]+)` \|$", PAGE, re.MULTILINE)
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 120


@pytest.mark.parametrize(("text", "value"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_an_example(text: str, value: str) -> None:
    found, expected = evaluate(text, {}), evaluate(value, {})
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("name", sorted({name for name, _ in FUNCTIONS} | NAMES))
def test_no_function_is_left_out(name: str) -> None:
    """As code: most are words of the page's prose as well."""
    assert re.search(rf"\b{re.escape(name.rstrip('{}').removeprefix('format.'))}[({{`]", PAGE)
