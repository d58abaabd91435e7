"""Lists of names and counts in messages, suggestions for misspelled names, and replacement of lone surrogates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final


def join_names(
    names: Iterable[object], *, limit: int = 5, separator: str = ", ", remainder: str = " and {} more"
) -> str:
    """Return a text such as `a, b and 3 more`, with at most `limit` names.

    Args:
        remainder: Format of the number of omitted names.
    """
    texts = list(map(str, names))
    return separator.join(texts[:limit]) + (remainder.format(len(texts) - limit) if len(texts) > limit else "")


def format_count(number: int, noun: str) -> str:
    """Return a text such as `1 file` or `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_article(noun: str) -> str:
    """Return `noun` after its article, such as `an ip` or `a url`."""
    return f"an {noun}" if noun.startswith(("a", "e", "i", "o")) else f"a {noun}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a text such as `; did you mean 'size'?`, or an empty text if no word in `known` is similar to `word`."""
    from difflib import get_close_matches  # imported late, because most runs have no mistake to explain

    close = get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def suggestion_or_names(word: str, known: Iterable[str]) -> str:
    """Return a text such as `; did you mean 'size'?`.

    If no word in `known` is similar, return a text that lists all words. If `known` is empty, return an empty text.
    """
    names = sorted(known)
    return suggestion(word, names) or (f"; choose from {', '.join(names)}" if names else "")


_HALF: Final = re.compile("[\ud800-\udfff]")


def mend_surrogates(value: Any) -> Any:
    """Return a JSON value with surrogates replaced.

    A pair of surrogates becomes a single character. A lone surrogate becomes U+FFFD. Source: Go's encoding/json.
    """
    match value:
        case str() if _HALF.search(value):
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {mend_surrogates(name): mend_surrogates(item) for name, item in value.items()}
        case list():
            return [mend_surrogates(item) for item in value]
    return value
