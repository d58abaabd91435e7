"""A reader for protobuf's text format, as far as files of tests use it.

A message is a dict from field name to the list of its values, in order; a value is a message, a str or bytes literal
(always bytes here, since the schema decides), a number, or a bare word. The name of an extension or of the type in an
Any stands in brackets: `[type.googleapis.com/google.protobuf.Duration]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Message = dict[str, list[Any]]

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<bracketed>\[[A-Za-z0-9_./-]+\])
    |(?P<word>-?[A-Za-z0-9_.][A-Za-z0-9_.+-]*)
    |(?P<mark>[{}<>:;,\[\]])
    |(?P<wrong>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    rb"\\(?:(?P<plain>[abfnrtv?\\'\"])|(?P<octal>[0-7]{1,3})|[xX](?P<byte>[0-9a-fA-F]{1,2})"
    rb"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8}))"
)
_PLAIN = dict(zip(b"abfnrtv?\\'\"", b"\a\b\f\n\r\t\v?\\'\"", strict=True))


@dataclass(frozen=True, slots=True)
class Word:
    """A number, an enum value, `true`, `false`, `inf` or `nan`, as written."""

    text: str


class MalformedText(ValueError):
    """The text is not in the text format."""


def parse(text: str) -> Message:
    """Raises MalformedText with the line."""
    return _fields(_Tokens(text), closing=None)


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._read()
        self.kind, self.value, self._at = next(self._tokens)

    def _read(self) -> Iterator[tuple[str, str, int]]:
        for found in _TOKEN.finditer(self._text):
            if found.lastgroup:
                yield found.lastgroup, found[0], found.start()
        yield "end", "", len(self._text)

    def next(self) -> tuple[str, str]:
        taken = self.kind, self.value
        self.kind, self.value, self._at = next(self._tokens, ("end", "", len(self._text)))
        return taken

    def skip(self, *marks: str) -> bool:
        if self.kind == "mark" and self.value in marks:
            self.next()
            return True
        return False

    def fail(self, expected: str) -> MalformedText:
        line = self._text.count("\n", 0, self._at) + 1
        return MalformedText(f"line {line}: expected {expected}, found {self.value or 'the end'!r}")


def _fields(tokens: _Tokens, *, closing: str | None) -> Message:
    message: Message = {}
    while not (tokens.kind == "end" or (tokens.kind == "mark" and tokens.value == closing)):
        kind, name = tokens.next()
        if kind not in ("word", "bracketed"):
            raise tokens.fail("a field name")
        colon = tokens.skip(":")
        message.setdefault(name, []).extend(_values(tokens, colon=colon))
        tokens.skip(";", ",")
    if tokens.kind == "end" and closing is not None:
        raise tokens.fail(closing)
    tokens.next()
    return message


def _values(tokens: _Tokens, *, colon: bool) -> list[Any]:
    if not tokens.skip("["):
        return [_value(tokens, colon=colon)]
    values: list[Any] = []
    while not tokens.skip("]"):
        values.append(_value(tokens, colon=colon))
        tokens.skip(",")
    return values


def _value(tokens: _Tokens, *, colon: bool) -> Any:
    if tokens.skip("{"):
        return _fields(tokens, closing="}")
    if tokens.skip("<"):
        return _fields(tokens, closing=">")
    if not colon:
        raise tokens.fail(": or {")
    if tokens.kind == "text":
        pieces = []
        while tokens.kind == "text":  # literals that follow each other are one
            pieces.append(_unescaped(tokens.next()[1][1:-1]))
        return b"".join(pieces)
    if tokens.kind == "word":
        return Word(tokens.next()[1])
    raise tokens.fail("a value")


def _unescaped(body: str) -> bytes:
    return _ESCAPE.sub(_character, body.encode())


def _character(found: re.Match[bytes]) -> bytes:
    if plain := found["plain"]:
        return bytes([_PLAIN[plain[0]]])
    if octal := found["octal"]:
        return bytes([int(octal, 8) & 255])
    if byte := found["byte"]:
        return bytes([int(byte, 16)])
    return chr(int(found["short"] or found["long"], 16)).encode()
