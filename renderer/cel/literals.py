"""Values of literals (CEL language definition, "Literals", "String and Bytes Values")."""

from __future__ import annotations

import math
import re
from typing import Final

from renderer.cel.errors import EvaluationError
from renderer.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_ESCAPE: Final = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\?\"'`])|(?P<octal>[0-3][0-7]{2})|[xX](?P<byte>[0-9a-fA-F]{2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<bad>.|$))",
    re.DOTALL,
)
_PLAIN: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


def parse_integer(text: str) -> int:
    """Return the int of a decimal or hexadecimal literal.

    Raises: EvaluationError if the int does not fit into 64 bits.
    """
    value = _parse_number(text)
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError(f"{text} does not fit into an int (64 bits)")
    return value


def parse_unsigned(text: str) -> UInt:
    """Return the uint of a literal that ends in `u`. Raises: EvaluationError if the uint does not fit into 64 bits."""
    value = _parse_number(text[:-1])
    if value > UINT_MAX:
        raise EvaluationError(f"{text} does not fit into a uint (64 bits)")
    return UInt(value)


def parse_double(text: str) -> float:
    """Return the double of a literal. Raises: EvaluationError if the number is out of range."""
    value = float(text)
    if math.isinf(value):
        raise EvaluationError(f"{text[:50]} does not fit into a double (64 bits)")
    return value


def parse_string(text: str) -> str:
    """Return the string of a literal. A raw literal has no escapes. Raises: EvaluationError for an invalid escape."""
    raw, body = _unquote(text)
    return body if raw else _ESCAPE.sub(_decode_character, body)


def parse_bytes(text: str) -> bytes:
    r"""Return the bytes of a literal. `\x` and octal escapes are single bytes, and all other text is UTF-8.

    Raises: EvaluationError for an invalid escape.
    """
    raw, body = _unquote(text)
    if raw:
        return body.encode()
    position, parts = 0, []
    for escape in _ESCAPE.finditer(body):
        parts.append(body[position : escape.start()].encode())
        parts.append(_decode_octet(escape))
        position = escape.end()
    return b"".join((*parts, body[position:].encode()))


def _parse_number(text: str) -> int:
    if len(text) > 40:
        raise EvaluationError("the number does not fit into 64 bits")
    return int(text, 16 if "0x" in text else 10)


def _unquote(text: str) -> tuple[bool, str]:
    """Return whether the literal `text` is raw, and the text between its quotes."""
    start = min(position for quote in "'\"" if (position := text.find(quote)) >= 0)
    width = 3 if text[start : start + 3] in ("'''", '"""') and len(text) - start >= 6 else 1
    body = text[start + width : -width].replace("\r\n", "\n")
    return "r" in text[:start].lower(), body


def _decode_character(escape: re.Match[str]) -> str:
    if plain := escape["plain"]:
        return _PLAIN[plain]
    return _decode_code_point(escape)


def _decode_code_point(escape: re.Match[str]) -> str:
    if escape["octal"]:
        return chr(int(escape["octal"], 8))
    if escape["bad"] is not None:
        raise EvaluationError(
            f"invalid escape sequence {escape[0]} in a string; write a backslash as \\\\, or use a raw string r'...'"
        )
    point = int(escape["byte"] or escape["short"] or escape["long"], 16)
    if point > 0x10FFFF or 0xD800 <= point < 0xE000:
        raise EvaluationError(f"{escape[0]} is not a Unicode character")
    return chr(point)


def _decode_octet(escape: re.Match[str]) -> bytes:
    if escape["short"] or escape["long"]:
        raise EvaluationError(f"{escape[0]} is not valid in bytes; write the UTF-8 bytes as \\x..")
    if escape["octal"] or escape["byte"]:
        return bytes([int(escape["octal"], 8) if escape["octal"] else int(escape["byte"], 16)])
    return _decode_character(escape).encode()
