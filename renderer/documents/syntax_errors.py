"""Syntax errors of the YAML parser, in words for a person who edits manifests."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from yaml.error import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError


class YamlSyntaxError(NamedTuple):
    """The line of a syntax error, from 1, and its message."""

    line: int
    message: str


TEMPLATED_MESSAGE: Final = (
    "'{{' begins a Helm template, which Levelgate does not run; commit the output of `helm template`, or put text in "
    "quotes"
)

_INDENTED_BY_TAB = re.compile(rb" *\t")

# Messages of libyaml without advice for an author.
_HINTS = {
    "mapping values are not allowed in this context": (
        "a second ':' on the line, or a line that is indented differently from those above; "
        "put text that contains ': ' in quotes and align the keys"
    ),
    "found character that cannot start any token": (
        "a value cannot start with this character; put the value in quotes"
    ),
    "found unexpected end of stream": "the file ends inside a quoted text; add the closing quote",
    "found unexpected document indicator": "'---' or '...' inside a quoted text; add the closing quote above",
    "did not find expected ',' or '}'": (
        "a '{' is not closed, or a comma is missing; put text that contains '{', '}' or ',' (such as ${...}) in quotes"
    ),
    "did not find expected ',' or ']'": (
        "a '[' is not closed, or a comma is missing; put text that contains '[', ']' or ',' in quotes"
    ),
    "did not find expected key": "this line does not belong to the block above it; check its indentation",
    "could not find expected ':'": "a key without ':', or a text without indentation; add ':' or indent the text",
    "did not find expected '-' indicator": "this line continues a list but has no '-'; check the indentation",
    "found invalid Unicode character escape code": (
        "this escape is half of a character (YAML has no surrogate pairs); write the character itself"
    ),
    "block sequence entries are not allowed in this context": "a list cannot start here; put the list on its own line",
    "did not find expected <document start>": (
        "more content after the end of the document; separate documents with '---'"
    ),
}


def to_syntax_error(error: YAMLError, data: bytes) -> YamlSyntaxError:
    """Return the place and the message of a parser error."""
    if isinstance(error, ReaderError):
        return _control_character(error, data)
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return YamlSyntaxError(1, f"not valid YAML: {error}")
    line, column = error.problem_mark.line + 1, error.problem_mark.column + 1
    if _INDENTED_BY_TAB.match(_line(data, line)):
        return YamlSyntaxError(line, "a tab in the indentation; replace the tab with spaces")
    for mark in filter(None, (error.context_mark, error.problem_mark)):
        if is_templated(data, mark.line + 1):
            return YamlSyntaxError(mark.line + 1, TEMPLATED_MESSAGE)
    return YamlSyntaxError(line, f"not valid YAML at column {column}: {_reason(error)}{_describe_opening(error, line)}")


def is_templated(data: bytes, line: int) -> bool:
    """Return whether a line contains `{{`, and is therefore most probably part of a Helm template."""
    return b"{{" in _line(data, line)


def _reason(error: MarkedYAMLError) -> str:
    problem = error.problem or "unknown error"
    return _HINTS.get(problem, problem)


def _describe_opening(error: MarkedYAMLError, line: int) -> str:
    """Return a text with the place where an unfinished construct begins. That place usually contains the cause."""
    if error.context_mark is None or error.context_mark.line + 1 == line:
        return ""
    return f" (it began at line {error.context_mark.line + 1}, column {error.context_mark.column + 1})"


def _control_character(error: ReaderError, data: bytes) -> YamlSyntaxError:
    position = error.position or 0
    character_text = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
    line = data.count(b"\n", 0, position) + 1
    return YamlSyntaxError(
        line, f"the control character {character_text} is not valid in YAML; remove the character or write an escape"
    )


def _line(data: bytes, number: int) -> bytes:
    lines = data.splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else b""
