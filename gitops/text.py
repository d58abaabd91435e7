"""Words and lines that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, Final

from renderer.identity import ObjectKey

if TYPE_CHECKING:
    from renderer.render.model import RenderedNode

_UNCOMMON: Final = re.compile("[^\n -~]")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Not printable by themselves, and part of words and pictures."""


def escape_terminal(text: str) -> str:
    """With what a terminal would obey, or hide, as an escape: text of others must not move its cursor, name its window or turn lines around."""
    return _escape(text, ascii)


def escape_terminal_json(text: str) -> str:
    """The same of a JSON document, which says the same afterwards."""
    return _escape(text, dumps)


def _escape(text: str, quote: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return _UNCOMMON.sub(lambda match: match[0] if _is_visible(match[0]) else quote(match[0])[1:-1], text)


def _is_visible(letter: str) -> bool:
    return letter.isprintable() or letter in _JOINERS


def one_line(text: str) -> str:
    """As one line: who writes two must not make up a second one."""
    return escape_terminal(text).replace("\n", " ")


def title(key: ObjectKey) -> str:
    """`WebApp prod/shop`, or `Fleet main` for a cluster-scoped instance."""
    return f"{key.kind} {qualified_name(key)}"


def qualified_name(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def mark_of(node: RenderedNode) -> str:
    """One sign before a node: `!` cannot be rendered, `?` waits for data, `<` is read, not written."""
    return "!" if node.error else "?" if node.waiting else "<" if node.external else " "


def format_local_time(moment: datetime) -> str:
    """A moment for people: weekday, date, minute and zone of the terminal."""
    return moment.astimezone().strftime("%a %Y-%m-%d %H:%M %Z")


def format_age(since: datetime, now: datetime) -> str:
    """`45s`, `78m`, `5h`, `3d`, as kubectl prints ages."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length, limit in (("s", 1, 120), ("m", 60, 120 * 60), ("h", 3600, 48 * 3600)):
        if seconds < limit:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86400}d"


def align_table(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table, columns three spaces apart; the first row is the header."""
    table = [[one_line(cell) for cell in row] for row in table]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
