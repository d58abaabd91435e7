"""Regular expressions, by RE2 only, whose time is linear in the text, whatever the pattern: `matches`, Kubernetes'
`find` and `findAll`, cel-go's `regex` extension.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.values import NONE, Optional

_LONGEST_PATTERN: Final = 10_000
_MEMORY: Final = 1 << 22
"""Bytes that one compiled pattern may take."""
_UNITS_PER_MATCH: Final = 35
_CHARACTERS_PER_UNIT: Final = 100
"""A match may look at all the rest of the text before it is found; RE2 goes through some hundred characters a unit."""
_REFERENCE: Final = re.compile(r"\\(.?)", re.DOTALL)


@overload("string.matches(string): bool", "matches(string, string): bool")
def matches(meter: Meter, text: str, pattern: str) -> bool:
    return _search(meter, text, pattern) is not None


@overload("string.find(string): string")
def find(meter: Meter, text: str, pattern: str) -> str:
    found = _search(meter, text, pattern)
    return found[0] if found else ""


@overload("string.findAll(string): list", "string.findAll(string, int): list")
def find_all(meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
    return [match[0] for match in _all(meter, text, pattern, limit)]


@overload("regex.extract(string, string): optional_type")
def extract(meter: Meter, text: str, pattern: str) -> Optional:
    """The first match; where the pattern has a group, what that matched."""
    group = _only_group(pattern)
    found = _search(meter, text, pattern)
    return Optional(found[group]) if found and found[group] is not None else NONE


@overload("regex.extractAll(string, string): list")
def extract_all(meter: Meter, text: str, pattern: str) -> list[str]:
    group = _only_group(pattern)
    return [match[group] for match in _all(meter, text, pattern, -1) if match[group] is not None]


def _only_group(pattern: str) -> int:
    groups: int = _compiled(pattern).groups
    if groups > 1:
        raise EvaluationError(
            f"the regular expression {pattern!r} has more than one group (...); write (?:...) for the others"
        )
    return groups


@overload("regex.replace(string, string, string): string", "regex.replace(string, string, string, int): string")
def replace(meter: Meter, text: str, pattern: str, by: str, limit: int = -1) -> str:
    """`\\1` to `\\9` in `by` stand for what the groups matched, `\\0` for the whole match."""
    groups = _compiled(pattern).groups
    pieces: list[str] = []
    done = 0
    for match in _all(meter, text, pattern, limit):
        piece = _REFERENCE.sub(partial(_referenced, match, groups), by)
        meter.produce(len(piece))
        pieces += (text[done : match.start()], piece)
        done = match.end()
    meter.produce(len(text) + sum(map(len, pieces)))
    return "".join((*pieces, text[done:]))


def _referenced(match: Any, groups: int, found: re.Match[str]) -> str:
    reference = found[1]
    if reference == "\\":
        return "\\"
    if not (reference.isascii() and reference.isdigit()) or int(reference) > groups:
        raise EvaluationError(
            f"regex.replace: \\{reference} in the replacement is not a group; write \\\\ for a backslash"
        )
    return match[int(reference)] or ""


def _search(meter: Meter, text: str, pattern: str) -> Any:
    _pay(meter, text, pattern)
    return _compiled(pattern).search(text)


def _all(meter: Meter, text: str, pattern: str, limit: int) -> list[Any]:
    """The matches, at most `limit` unless that is negative; like Go's, none that is empty and follows another."""
    _pay(meter, text, pattern)
    found: list[Any] = []
    for match in _compiled(pattern).finditer(text):
        if len(found) == limit:
            break
        meter.spend(_UNITS_PER_MATCH + (len(text) - match.end()) // _CHARACTERS_PER_UNIT)
        if not (found and match.end() == match.start() == found[-1].end()):
            found.append(match)
    return found


def _pay(meter: Meter, text: str, pattern: str) -> None:
    meter.spend((1 + len(text) // 10) * (1 + len(pattern) // 4))


def _compiled(pattern: str) -> Any:
    found = _compile(pattern)
    if isinstance(found, str):
        raise EvaluationError(f"invalid regular expression {pattern[:100]!r}: {found}")
    return found


@lru_cache(maxsize=512)
def _compile(pattern: str) -> Any:
    """The compiled pattern, or what is wrong with it."""
    import re2

    if len(pattern) > _LONGEST_PATTERN:
        return f"it is longer than {_LONGEST_PATTERN:,} characters"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
