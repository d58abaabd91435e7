"""Errors of the YAML parser, worded for a person who edits manifests."""

import pytest

from renderer.documents import load
from renderer.documents.syntax_errors import is_templated


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: b: c\n", 1, "a second ':' on the line"),
        ("a:\n\tb: 1\n", 2, "a tab in the indentation; replace the tab with spaces"),
        ('a: "x\n', 2, "add the closing quote"),
        ("a: {b: 1\n", 2, "a '{' is not closed, or a comma is missing"),
        ("a: {{ .Values.a }}\n", 1, "begins a Helm template"),
        ("a: \x07\n", 1, "the control character U+0007 is not valid in YAML"),
    ],
)
def test_the_message_tells_line_and_remedy(text: str, line: int, words: str) -> None:
    documents, (problem, *_) = load("a.yaml", text.encode())
    assert documents == []
    assert problem.line == line
    assert words in problem.message


def test_a_template_of_a_chart_is_known_by_its_braces() -> None:
    assert is_templated(b"a: 1\nb: {{ x }}\n", 2)
    assert not is_templated(b"a: 1\nb: {{ x }}\n", 1)
    assert not is_templated(b"a: 1\n", 9)
