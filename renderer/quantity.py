"""Kubernetes quantities (`500Mi`, `1.5`, `250m`, `1e3`) as text.

Source: k8s.io/apimachinery `pkg/api/resource`.
"""

from __future__ import annotations

import re
from typing import Final

_BILLION: Final = 10**9
_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<power>[+-]?[0-9]{1,3}))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_TEXT_CHARACTERS: Final = 100


def parse_nanos(text: str) -> int | None:
    """Return a quantity in billionths, the finest unit that Kubernetes keeps, or None if `text` is not a quantity.

    The function rounds finer quantities away from zero.
    """
    parsed = _PATTERN.fullmatch(text) if len(text) <= _MAX_TEXT_CHARACTERS else None
    if parsed is None:
        return None
    whole, fraction = parsed["whole"], parsed["fraction"] or ""
    if not whole and not fraction:
        return None
    suffix, power = parsed["suffix"] or "", int(parsed["power"] or 0)
    numerator = int(whole + fraction or "0") * (1 << _BINARY.get(suffix, 0)) * _BILLION
    shift = _DECIMAL.get(suffix, 0) + power - len(fraction)
    scaled: int = numerator * 10**shift if shift >= 0 else -(-numerator // 10**-shift)
    return -scaled if parsed["sign"] == "-" else scaled


def canonicalize(text: str) -> str | None:
    """Return a quantity in the form of the API server, or None if `text` is not a quantity.

    The result has no fraction, and the largest suffix of the family that `text` uses: `0.5` becomes `500m`, `1024Mi`
    becomes `1Gi`.
    """
    amount = parse_nanos(text)
    if not amount:
        return amount if amount is None else "0"
    if text.endswith("i") and abs(amount) >= 1024 * _BILLION and amount % _BILLION == 0:
        return _format_amount(amount // _BILLION, 1024, {power // 10: suffix for suffix, power in _BINARY.items()})
    if re.search(r"[eE][+-]?[0-9]", text):
        return _format_amount(amount, 1000, {step: f"e{3 * step - 9}" for step in range(12) if step != 3})
    return _format_amount(amount, 1000, {(power + 9) // 3: suffix for suffix, power in _DECIMAL.items()})


def _format_amount(amount: int, base: int, suffixes: dict[int, str]) -> str:
    """Return `amount` with the largest fitting suffix.

    Args:
        suffixes: The suffix of each power of `base`.
    """
    step = 0
    while amount % base == 0 and step < max(suffixes):
        amount, step = amount // base, step + 1
    return f"{amount}{suffixes.get(step, '')}"
