"""Names and numbers in a sentence, and what was probably meant by a name."""

from __future__ import annotations

from collections.abc import Iterable


def join_names(names: Iterable[object], *, limit: int = 5, separator: str = ", ") -> str:
    """`a, b and 3 more`."""
    texts = list(map(str, names))
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return separator.join(texts[:limit]) + more


def format_count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'size'?`, or nothing where no known word is close."""
    from difflib import get_close_matches  # most runs make no mistake

    close = get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
