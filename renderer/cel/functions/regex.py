"""Regular expressions: `matches`, Kubernetes' `find` and `findAll`, cel-go's `regex` extension.

RE2 runs the patterns of authors, in a time that is linear in the text for every pattern. The standard library's `re`
runs only this module's own pattern for references in replacements.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.values import NONE, Optional

_MAX_PATTERN_CHARACTERS: Final = 10_000
_MAX_PATTERN_BYTES: Final = 1 << 22
"""Bytes of memory that one compiled pattern may use."""
_UNITS_PER_MATCH: Final = 35
"""The cost of one match in units.

A unit is about 0.1 microseconds. Python needs a few microseconds to build a match object.
"""
_CHARACTERS_PER_UNIT: Final = 100
"""The number of characters that RE2 scans for one unit.

Each match costs units for the rest of the text, because RE2 may scan the whole rest after each match.
"""
_REFERENCE: Final = re.compile(r"\\(.?)", re.DOTALL)


@overload("string.matches(string): bool", "matches(string, string): bool")
def matches(meter: Meter, text: str, pattern: str) -> bool:
    """Return whether `pattern` matches a part of `text`."""
    return _search(meter, text, pattern) is not None


@overload("string.find(string): string")
def find(meter: Meter, text: str, pattern: str) -> str:
    """Return the first match of `pattern` in `text`, or an empty text if nothing matches."""
    first_match = _search(meter, text, pattern)
    return first_match[0] if first_match else ""


@overload("string.findAll(string): list", "string.findAll(string, int): list")
def find_all(meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the first `limit` matches of `pattern` in `text`, or all matches if `limit` is negative."""
    return [match[0] for match in _find_matches(meter, text, pattern, limit)]


@overload("regex.extract(string, string): optional_type")
def extract(meter: Meter, text: str, pattern: str) -> Optional:
    """Return an optional of the first match, or of its single group if `pattern` has one.

    If nothing matches, or if the group is empty or not part of the match, return `NONE`.

    Raises: EvaluationError if `pattern` has more than one group.
    """
    group = _single_group(pattern)
    first_match = _search(meter, text, pattern)
    return Optional(first_match[group]) if first_match and (first_match[group] or not group) else NONE


@overload("regex.extractAll(string, string): list")
def extract_all(meter: Meter, text: str, pattern: str) -> list[str]:
    """Return all matches, or the texts of the single group if `pattern` has one.

    The result leaves out groups that are empty or not part of the match.

    Raises: EvaluationError if `pattern` has more than one group.
    """
    group = _single_group(pattern)
    return [match[group] for match in _find_matches(meter, text, pattern, -1) if match[group] or not group]


def _single_group(pattern: str) -> int:
    groups: int = _get_pattern(pattern).groups
    if groups > 1:
        raise EvaluationError(
            f"the regular expression {pattern!r} has more than one group (...); write (?:...) for the others"
        )
    return groups


@overload("regex.replace(string, string, string): string", "regex.replace(string, string, string, int): string")
def replace(meter: Meter, text: str, pattern: str, replacement: str, limit: int = -1) -> str:
    r"""Return `text` with its first `limit` matches replaced, or with all matches replaced if `limit` is negative.

    Args:
        replacement: Text in which `\1` to `\9` are the groups and `\0` is the whole match.

    Raises: EvaluationError for a reference to a group that `pattern` does not have.
    """
    groups = _get_pattern(pattern).groups
    pieces: list[str] = []
    position = 0
    for match in _find_matches(meter, text, pattern, limit):
        piece = _REFERENCE.sub(partial(_expand_reference, match, groups), replacement)
        meter.produce(len(piece))
        pieces += (text[position : match.start()], piece)
        position = match.end()
    meter.produce(len(text) + sum(map(len, pieces)))
    return "".join((*pieces, text[position:]))


def _expand_reference(match: Any, groups: int, reference_match: re.Match[str]) -> str:
    reference = reference_match[1]
    if reference == "\\":
        return "\\"
    if not (reference.isascii() and reference.isdigit()) or int(reference) > groups:
        raise EvaluationError(
            f"regex.replace: \\{reference} in the replacement is not a group; write \\\\ for a backslash"
        )
    return match[int(reference)] or ""


def _search(meter: Meter, text: str, pattern: str) -> Any:
    _pay(meter, text, pattern)
    return _get_pattern(pattern).search(text)


def _find_matches(meter: Meter, text: str, pattern: str, limit: int) -> list[Any]:
    """Return the first `limit` matches, or all matches if `limit` is negative.

    As Go does, leave out an empty match directly after another match.
    """
    _pay(meter, text, pattern)
    results: list[Any] = []
    for match in _get_pattern(pattern).finditer(text):
        if len(results) == limit:
            break
        meter.spend(_UNITS_PER_MATCH + (len(text) - match.end()) // _CHARACTERS_PER_UNIT)
        if not (results and match.end() == match.start() == results[-1].end()):
            results.append(match)
    return results


def _pay(meter: Meter, text: str, pattern: str) -> None:
    # cel-go's cost of `matches`: a tenth of the text's length times a quarter of the pattern's length.
    meter.spend((1 + len(text) // 10) * (1 + len(pattern) // 4))


def _get_pattern(pattern: str) -> Any:
    compiled = _compile(pattern)
    if isinstance(compiled, str):
        raise EvaluationError(f"invalid regular expression {pattern[:100]!r}: {compiled}")
    return compiled


@lru_cache(maxsize=512)
def _compile(pattern: str) -> Any:
    """Return the compiled `pattern`, or its mistake as text.

    Compiling a pattern costs more than a search. Therefore the function caches the result.
    """
    import re2

    if len(pattern) > _MAX_PATTERN_CHARACTERS:
        return f"it is longer than {_MAX_PATTERN_CHARACTERS:,} characters"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_BYTES
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
