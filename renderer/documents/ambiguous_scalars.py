"""Unquoted scalars that Kubernetes reads differently than most people expect.

Ambiguous scalars are legal, so only `lint` reports ambiguous scalars.
"""

from __future__ import annotations

import re
from typing import Any, Final

from yaml.events import ScalarEvent

from renderer.documents.locations import iterate_events
from renderer.documents.scalars import ScalarError, resolve
from renderer.errors import Problem

_OCTAL: Final = re.compile(r"[-+]?0[0-9_]+")
_UNAMBIGUOUS: Final = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})


def ambiguities(file: str, data: bytes) -> list[Problem]:
    """Return a problem for each ambiguous scalar, keys included, up to the first syntax error."""
    return [
        Problem(
            file,
            event.start_mark.line + 1,
            "",
            f"{event.value} is read as {meaning}; if text is meant, put the value in quotes",
        )
        for event in iterate_events(data)
        if _is_plain(event) and (meaning := _unexpected_meaning(event.value))
    ]


def _is_plain(event: Any) -> bool:
    return isinstance(event, ScalarEvent) and not event.style and not event.tag


def _unexpected_meaning(text: str) -> str:
    try:
        value = resolve(text)
    except ScalarError:
        return ""
    if isinstance(value, bool) and text not in _UNAMBIGUOUS:
        return str(value).lower()
    return f"the number {value}" if not isinstance(value, str) and _OCTAL.fullmatch(text) else ""
