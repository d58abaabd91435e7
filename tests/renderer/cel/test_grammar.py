"""The tables of the parser that are package data: they are of this grammar, and give the trees and the errors that it gives."""

from typing import Any

import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from renderer.cel import grammar
from renderer.cel.parser import _Builder, parse
from tests.support.cel.values import VALUES

WRONG = ["a b", "1 +", "'x", "a ? b", "[1, 2", "{1: }", "a..b", "x in", "1 = 2", "`a`", "!", "a.?", "\u201ca\u201d"]


def read(parser: Any, text: str) -> str:
    try:
        return repr(parser.parse(text))
    except UnexpectedInput as error:
        return f"{type(error).__name__} at {error.pos_in_stream}"


def test_the_stored_tables_are_those_of_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make grammar` was forgotten after a change of the grammar, of celpy's or of Lark, if this fails."""
    monkeypatch.setattr(grammar, "build_parser", lambda callbacks: pytest.fail("no tables of this grammar are stored"))
    assert isinstance(grammar.make_parser(_Builder()), Lark)


def test_the_stored_tables_parse_as_the_grammar_does() -> None:
    stored, fresh = grammar.make_parser(_Builder()), grammar.build_parser(_Builder())
    for text in [*(text for text, _ in VALUES), *WRONG]:
        assert read(stored, text) == read(fresh, text), text


def test_tables_of_another_grammar_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "GRAMMAR", grammar.GRAMMAR.replace("/[+-]/", "/[+~-]/"))
    assert read(grammar.make_parser(_Builder()), "1 ~ 2").startswith("Binary(")
    assert repr(parse("1 + 2")).startswith("Binary(")
