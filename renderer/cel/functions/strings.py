"""Strings: CEL core and cel-go's strings extension.

Positions and sizes count code points. Every function pays for its result before building the result.
"""

from __future__ import annotations

from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.values import type_name

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UPPER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TO_LOWER: Final = str.maketrans(_UPPER, _UPPER.lower())
_TO_UPPER: Final = str.maketrans(_UPPER.lower(), _UPPER)
_QUOTE_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_TO_QUOTED: Final = str.maketrans(_QUOTE_ESCAPES)


@overload("string.startsWith(string): bool")
def starts_with(meter: Meter, text: str, prefix: str) -> bool:
    """Return whether `text` starts with `prefix`."""
    meter.read(prefix)
    return text.startswith(prefix)


@overload("string.endsWith(string): bool")
def ends_with(meter: Meter, text: str, suffix: str) -> bool:
    """Return whether `text` ends with `suffix`."""
    meter.read(suffix)
    return text.endswith(suffix)


@overload("string.contains(string): bool")
def contains(meter: Meter, text: str, part: str) -> bool:
    """Return whether `text` contains `part`."""
    meter.read(text)
    return part in text


@overload("string.lowerAscii(): string")
def lower_ascii(meter: Meter, text: str) -> str:
    """Return `text` with its ASCII letters in lower case."""
    meter.produce(len(text))
    return text.translate(_TO_LOWER)


@overload("string.upperAscii(): string")
def upper_ascii(meter: Meter, text: str) -> str:
    """Return `text` with its ASCII letters in upper case."""
    meter.produce(len(text))
    return text.translate(_TO_UPPER)


@overload("string.trim(): string")
def trim(meter: Meter, text: str) -> str:
    """Return `text` without the Unicode white space at its ends."""
    meter.produce(len(text))
    return text.strip(_SPACE)


@overload("string.reverse(): string")
def reverse(meter: Meter, text: str) -> str:
    """Return the characters of `text` in reverse order."""
    meter.produce(len(text))
    return text[::-1]


@overload("string.charAt(int): string")
def char_at(text: str, index: int) -> str:
    """Return the character at `index`, or an empty text if `index` is the length of `text`.

    Raises: EvaluationError if `index` is out of range.
    """
    _check_index(index, len(text))
    return text[index : index + 1]


@overload("string.indexOf(string): int", "string.indexOf(string, int): int")
def index_of(meter: Meter, text: str, part: str, start: int = 0) -> int:
    """Return the index of the first `part` at or after `start`, or -1 if no such part exists.

    Raises: EvaluationError if `start` is out of range.
    """
    meter.read(text)
    if part:
        _check_index(start, len(text))
    return text.find(part, start) if part else start


@overload("string.lastIndexOf(string): int", "string.lastIndexOf(string, int): int")
def last_index_of(meter: Meter, text: str, part: str, last: int | None = None) -> int:
    """Return the index of the last `part` that begins at or before `last`, or -1 if no such part exists.

    Raises: EvaluationError if `last` is out of range.
    """
    meter.read(text)
    if last is None:
        return text.rfind(part)
    if part:
        _check_index(last, len(text))
    return text.rfind(part, 0, last + len(part)) if part else last


@overload("string.substring(int): string", "string.substring(int, int): string")
def substring(meter: Meter, text: str, start: int, end: int | None = None) -> str:
    """Return the characters from `start` up to, but not including, `end`, which defaults to the end of `text`.

    Raises: EvaluationError if an index is out of range, or `start` is after `end`.
    """
    stop = len(text) if end is None else end
    _check_index(start, len(text))
    _check_index(stop, len(text))
    if start > stop:
        raise EvaluationError(f"substring: start {start} is after end {stop}")
    meter.produce(stop - start)
    return text[start:stop]


@overload("string.replace(string, string): string", "string.replace(string, string, int): string")
def replace(meter: Meter, text: str, old: str, new: str, limit: int = -1) -> str:
    """Return `text` with its first `limit` occurrences of `old` replaced by `new`.

    If `limit` is negative, replace all occurrences.
    """
    meter.read(text)
    occurrences = text.count(old)
    replacements = occurrences if limit < 0 else min(occurrences, limit)
    meter.produce(len(text) + replacements * (len(new) - len(old)))
    return text.replace(old, new, replacements)


@overload("string.split(string): list", "string.split(string, int): list")
def split(meter: Meter, text: str, separator: str, limit: int = -1) -> list[str]:
    """Return at most `limit` parts of `text`, with the unsplit rest as the last part.

    If `limit` is 0, return no parts. If `limit` is negative, return all parts.
    """
    if limit == 0:
        return []
    meter.read(text)
    if not separator:
        return _split_characters(meter, text, limit)
    meter.spend(text.count(separator))
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _split_characters(meter: Meter, text: str, limit: int) -> list[str]:
    meter.spend(len(text))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


@overload("list.join(): string", "list.join(string): string")
def join(meter: Meter, parts: list[Any], separator: str = "") -> str:
    """Return the concatenation of `parts`, with `separator` between them.

    Raises: EvaluationError if a part is not a text.
    """
    meter.spend(len(parts))
    for index, part in enumerate(parts):
        if type(part) is not str:
            raise EvaluationError(f"join: element [{index}] is {type_name(part)}, not string; use .map(x, string(x))")
    meter.produce(sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1))
    return separator.join(parts)


@overload("strings.quote(string): string")
def quote(meter: Meter, text: str) -> str:
    """Return `text` in double quotes, with special characters escaped."""
    meter.produce(len(text) + sum(map(text.count, _QUOTE_ESCAPES)) + len('""'))
    return f'"{text.translate(_TO_QUOTED)}"'


def _check_index(index: int, length: int) -> None:
    if not 0 <= index <= length:
        raise EvaluationError(f"index {index} out of range (string of {length})")
