"""Names and numbers in a sentence."""

from __future__ import annotations

from collections.abc import Iterable


def listed(names: Iterable[object], *, most: int = 5, separator: str = ", ") -> str:
    """`a, b and 3 more`."""
    texts = list(map(str, names))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
