"""Expressions inside a string: `${...}`. As in kro, the number of open braces determines the end of an expression."""

from __future__ import annotations

import re
from typing import Final

from renderer.cel import Program, compile_expression
from renderer.errors import ExpressionError
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression in a string: the text between `${` and `}`."""

    text: str


Part = str | Expression

_QUOTES: Final = re.compile(r"'''|\"\"\"|'|\"")
_PREFIX: Final = re.compile(r"(?<![A-Za-z0-9_])[rRbB]{1,2}\Z")


def scan(text: str) -> tuple[Part, ...]:
    """Return the literal texts and the expressions in `text`, in order, without empty texts.

    The function counts braces except inside string literals of the expression. As in kro, an unclosed `${` is literal
    text.

    Raises: ExpressionError for `${` inside an expression.
    """
    parts: list[Part] = []
    position = 0
    while (start := text.find("${", position)) >= 0 and (end := _find_closing(text, start)) is not None:
        if start > position:
            parts.append(text[position:start])
        parts.append(Expression(text[start + 2 : end]))
        position = end + 1
    if position < len(text):
        parts.append(text[position:])
    return tuple(parts)


def parse_expression(text: str) -> Program:
    """Return the program of a standalone `${...}`.

    Raises: ExpressionError if `text` is not exactly one `${...}`, or if the expression does not compile.
    """
    match scan(text):
        case (Expression(text=inner),):
            return compile_expression(inner.strip())
    raise ExpressionError(text, "the value is not a single expression; write exactly one expression ${...}")


def _find_closing(text: str, start: int) -> int | None:
    """Return the position of the brace that closes the `${` at `start`, or None if no brace closes the `${`."""
    depth, position = 1, start + 2
    while position < len(text):
        character = text[position]
        if character in "'\"":
            string_end = _find_string_end(text, position)
            if string_end is None:
                return None
            position = string_end
            continue
        if text.startswith("${", position):
            raise ExpressionError(
                text[start + 2 :],
                "nested ${ in an expression; remove the inner ${ and }",
                column=position - start - 1,
            )
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return position
        position += 1
    return None


def _find_string_end(text: str, start: int) -> int | None:
    """Return the position after the string literal that begins at `start`, or None if the literal is not closed."""
    opening = _QUOTES.match(text, start)
    assert opening is not None
    quote = opening[0]
    prefix = _PREFIX.search(text[max(0, start - 3) : start])
    raw = prefix is not None and "r" in prefix[0].lower()
    position = start + len(quote)
    while position < len(text):
        if text.startswith(quote, position):
            return position + len(quote)
        position += 2 if text[position] == "\\" and not raw else 1
    return None
