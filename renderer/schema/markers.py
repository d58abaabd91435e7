r"""Markers of a SimpleSchema field: the text after the first `|`.

    marker := key "=" value        separated by blanks
    value  := bare | "quoted with \" and \\" | bracketed {...} or [...]

If a marker is unambiguous, the parser accepts blanks around `=` and at the end. kro rejects such blanks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Final

from renderer.frozen import dataclass
from renderer.phrasing import mend_surrogates, suggestion

REPEATABLE_KEYS: Final = frozenset({"validation", "listMapKey"})
MARKER_KEYS: Final = (
    "required",
    "default",
    "description",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "listType",
    "listMapKey",
    "immutable",
    "validation",
)

# Keywords of JSON Schema and kubebuilder that SimpleSchema lacks, with what to write instead.
_UNSUPPORTED_KEYS: Final = {
    "nullable": "leave out a field that is not required",
    "format": "use pattern, or validation with a CEL rule",
    "multipleOf": 'use validation="self % 5 == 0"',
    "exclusiveMinimum": 'use validation="self > 0"',
    "exclusiveMaximum": 'use validation="self < 100"',
    "minProperties": 'use validation="size(self) >= 1"',
    "maxProperties": 'use validation="size(self) <= 8"',
    "optional": "remove the marker, because a field without required=true is optional",
    "min": "write minimum, minLength or minItems",
    "max": "write maximum, maxLength or maxItems",
    "enums": "write enum",
    "regex": "write pattern",
    "title": "write description",
}

_KEY = re.compile(r"[^\s=\"{}\[\]|]*")
_BLANKS = re.compile(r"\s*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_NEXT_MARKER = re.compile(rf"(?:{'|'.join(MARKER_KEYS)})\s*=")
_ESCAPE = re.compile(r'\\(["\\])')
# kro inserts a quoted default into JSON without escaping, so a written \n becomes a line break.
_JSON_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_CONTROL: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class MarkerError(ValueError):
    """An unreadable marker, or a marker that does not fit its field. The message contains the remedy."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker of a field: its key, and its value as written."""

    key: str
    raw: str
    """The value as written, without enclosing quotes."""
    quoted: bool

    @property
    def value(self) -> str:
        r"""Return the value without escapes.

        In a quoted value, `\"` and `\\` are escapes. Any other backslash represents itself.
        """
        return _ESCAPE.sub(r"\1", self.raw) if self.quoted else self.raw

    @property
    def text(self) -> str:
        """Return the value with its JSON escapes decoded as well. A default of type string has this form."""
        return str(mend_surrogates(_JSON_ESCAPE.sub(_unescape, self.raw))) if self.quoted else self.raw


def parse_markers(text: str) -> list[Marker]:
    """Return all markers of a field, in order. Raises: MarkerError for the first unreadable marker."""
    markers = list(_iterate_markers(text))
    if not markers:
        raise MarkerError("nothing follows '|'; write a marker such as default=1, or remove the '|'")
    seen = set[str]()
    for marker in markers:
        if marker.key in seen and marker.key not in REPEATABLE_KEYS:
            raise MarkerError(f"marker {marker.key} is given twice; keep one")
        seen.add(marker.key)
    return markers


def _unescape(match: re.Match[str]) -> str:
    if match[2]:
        return chr(int(match[2], 16))
    return _CONTROL.get(match[1], match[1])


def _iterate_markers(text: str) -> Iterator[Marker]:
    position = _skip_blanks(text, 0)
    while position < len(text):
        key, position = _read_key(text, position)
        raw, quoted, position = _read_value(text, position, key)
        yield Marker(key, raw, quoted)
        position = _skip_blanks(text, position)


def _skip_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _read_key(text: str, position: int) -> tuple[str, int]:
    """Return the key, and the position after its `=`."""
    match = _KEY.match(text, position)
    key = match[0] if match else ""
    equals = _skip_blanks(text, position + len(key))
    if text[position] == "|":
        raise MarkerError("a second '|'; separate markers by blanks")
    if not key:
        raise MarkerError(f"{text[position:].strip()!r} is not a marker; write a marker such as default=1")
    if text[equals : equals + 1] != "=":
        raise MarkerError(_describe_missing_value(key))
    if key not in MARKER_KEYS:
        raise MarkerError(_describe_unknown(key))
    return key, equals + 1


def _describe_missing_value(word: str) -> str:
    if word in MARKER_KEYS:
        return f"marker {word} has no value; write {word}=..."
    if word in _UNSUPPORTED_KEYS:
        return _describe_unknown(word)
    return f"{word!r} is neither a marker nor part of a value; put a value that contains blanks in double quotes"


def _describe_unknown(key: str) -> str:
    if key in _UNSUPPORTED_KEYS:
        return f"unknown marker {key!r}: {_UNSUPPORTED_KEYS[key]}"
    return f"unknown marker {key!r}{suggestion(key, MARKER_KEYS) or '; choose from ' + ', '.join(MARKER_KEYS)}"


def _read_value(text: str, position: int, key: str) -> tuple[str, bool, int]:
    """Return the raw value, whether the value has quotes, and the position after the value."""
    start = _skip_blanks(text, position)
    if start == len(text) or (start > position and _NEXT_MARKER.match(text, start)):
        return "", False, start
    if text[start] == '"':
        return _read_quoted(text, start, key)
    end = _find_bare_end(text, start, key)
    return text[start:end], False, end


def _read_quoted(text: str, start: int, key: str) -> tuple[str, bool, int]:
    match = _QUOTED.match(text, start)
    if match is None:
        raise MarkerError(f'the quotes of {key}={text[start:]} are not closed; write \\" for a quote inside')
    end = match.end()
    if end < len(text) and not text[end].isspace():
        raise MarkerError(f'{text[end:]!r} follows the quoted value of {key}; write \\" for a quote inside')
    return match[1], True, end


def _find_bare_end(text: str, start: int, key: str) -> int:
    """Return the end position of an unquoted value: the first blank outside brackets and quotes."""
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character == '"':
            match = _QUOTED.match(text, position)
            if match is None:
                raise MarkerError(f"{key}: the quotes of {text[position:]} are not closed; add the closing quote")
            position = match.end()
            continue
        if character.isspace() and depth == 0:
            break
        depth += (character in "{[") - (character in "}]")
        if depth < 0:
            raise MarkerError(f"{key}={text[start:]}: {character!r} closes nothing; remove the bracket")
        position += 1
    if depth:
        raise MarkerError(f"{key}={text[start:]}: close the bracket")
    return position


def parse_json(marker: Marker) -> object:
    """Return the JSON value of `marker`. Raises: MarkerError if the value is not JSON."""
    try:
        return mend_surrogates(json.loads(marker.value, parse_int=_parse_number, parse_constant=_refuse_constant))
    except ValueError as error:
        raise MarkerError(f"{marker.key}={marker.value} is not JSON ({error}); put text in double quotes") from None


def _parse_number(digits: str) -> int | float:
    """Return the integer `digits`.

    As in the API machinery, return a double for a number that does not fit into 64 bits.
    """
    if len(digits) <= 20 and -(2**63) <= (whole := int(digits)) < 2**63:
        return whole
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits[:20]}... is too large for a number")
    return number


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number in JSON")
