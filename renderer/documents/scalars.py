"""Values of plain scalars in YAML 1.1. The rules are those of Kubernetes, and differ from PyYAML's rules.

Every text yields the JSON value that the API server would receive, or a `ScalarError`. Go writes whole floats (`1.0`,
`1e3`) to JSON as whole numbers, so texts of whole floats yield an `int`.

Source: sigs.k8s.io/yaml, resolver.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

Scalar = str | int | float | bool | None

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
UINT64_MAX: Final = 2**64 - 1

_TAG = "tag:yaml.org,2002:"
_TAG_TYPES: Final = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}

_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NOT_FINITE: Final = frozenset(sign + word for word in (".inf", ".Inf", ".INF") for sign in ("", "+", "-")) | {
    ".nan",
    ".NaN",
    ".NAN",
}

# A scalar with another first character is always text. The first character is checked first, because most scalars are
# names.
_MEANINGFUL_STARTS: Final = frozenset("0123456789+-.yYnNtTfFoO~")
_NUMERIC_STARTS: Final = frozenset("0123456789+-")

_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Texts that start with a dot are read by Go's own float syntax, in which single underscores may stand between digits.
_DOTTED_FLOAT: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_BASES: Final = (("hex", 16), ("bin", 2), ("oct", 8), ("dec", 10))


class ScalarError(ValueError):
    """A scalar without a JSON value. The message contains advice for the author."""


@lru_cache(maxsize=4096)
def resolve(text: str) -> Scalar:
    """Return the value of a plain scalar, which has neither quotes nor a tag.

    Raises: ScalarError if the scalar has no JSON value.
    """
    if not text:
        return None
    start = text[0]
    if start not in _MEANINGFUL_STARTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text in _NOT_FINITE:
        raise ScalarError(f"{text} is not a number in JSON; if text is meant, put the value in quotes")
    if start in _NUMERIC_STARTS:
        return _parse_number(text)
    if start == "." and _DOTTED_FLOAT.fullmatch(text):
        return _parse_float(text, text.replace("_", ""))
    return text


def resolve_tagged(text: str, tag: str, *, plain: bool) -> Scalar:
    """Return the value of a scalar with an explicit tag.

    The function accepts only the tags of JSON types. A tag never converts a value: `!!int` before text that is not a
    whole number is an error.

    Args:
        plain: True if the scalar has no quotes.

    Raises: ScalarError for other tags, and for a text that does not have the type of the tag.
    """
    kind = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if kind == "str" or (tag == "!" and not plain):
        return text
    if kind not in _TAG_TYPES:
        raise ScalarError(f"tag {_format_tag(tag)} is not supported; remove the tag")
    value = resolve(text)
    if type(value) not in _TAG_TYPES[kind]:
        raise ScalarError(
            f"{text!r} does not have the type of its tag {_format_tag(tag)}; change the value or remove the tag"
        )
    return value


def _format_tag(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


def _parse_number(text: str) -> Scalar:
    digits = text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        return _parse_integer(text, match)
    if _FLOAT.fullmatch(digits):
        return _parse_float(text, digits)
    return text


def _parse_integer(text: str, match: re.Match[str]) -> int | float:
    base, digits = next((base, match[name]) for name, base in _BASES if match[name] is not None)
    # More than 66 digits never fit into 64 bits. The check avoids int(), which is quadratic in the length of decimal
    # text.
    magnitude = int(digits, base) if len(digits.lstrip("0")) <= 66 else UINT64_MAX + 1
    value = -magnitude if match["sign"] == "-" else magnitude
    if INT64_MIN <= value <= INT64_MAX:
        return value
    if value <= UINT64_MAX and not match["sign"]:
        return float(value)  # the API machinery keeps a number beyond int64 as a double
    raise ScalarError(f"{_shorten(text)} does not fit into 64 bits; if text is meant, put the value in quotes")


def _parse_float(text: str, digits: str) -> Scalar:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        return text  # Go's parser reports a range error, so the value stays text
    if not value.is_integer():
        return value
    if INT64_MIN <= value <= INT64_MAX:
        return int(value)
    return value


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
