"""Text output of the commands: terminal-safe strings, aligned tables, and times in the terminal's zone or UTC."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from json import dumps
from typing import TYPE_CHECKING, Final

from gitops.timestamps import to_utc
from renderer.frozen import dataclass
from renderer.identity import SOURCE_PREFIX, GroupKind, ObjectKey

if TYPE_CHECKING:
    from renderer.render.model import RenderedNode

_UNCOMMON: Final = re.compile("[^\n -~]")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Joiners, which Python counts as not printable, although they are parts of words and emoji."""


def escape_terminal(text: str) -> str:
    """Return the text with control and invisible characters escaped.

    Text from Git or from a cluster must not move the cursor, rename the window or reverse lines of a terminal.
    """
    return _escape(text, ascii)


def escape_terminal_json(text: str) -> str:
    """Return a JSON document with control and invisible characters escaped. Its meaning does not change."""
    return _escape(text, dumps)


def _escape(text: str, quote: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return _UNCOMMON.sub(lambda match: match[0] if _is_visible(match[0]) else quote(match[0])[1:-1], text)


def _is_visible(letter: str) -> bool:
    return letter.isprintable() or letter in _JOINERS


def one_line(text: str) -> str:
    """Return `text` in one line, so that a line end in `text` cannot forge a line of the output."""
    return escape_terminal(text).replace("\n", " ")


def truncate(text: str, max_characters: int) -> str:
    """Return `text`. If it is longer than `max_characters`, cut it and end it with an ellipsis."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"


def title(key: ObjectKey) -> str:
    """Return the title of an instance: `WebApp prod/shop`, or `Fleet main` if the instance is cluster-scoped."""
    return f"{key.kind} {key.qualified_name}"


def parent_title(parent: ObjectKey) -> str:
    """Return the title of a parent: `platform` for a source, or `WebApp prod/shop` for an instance."""
    is_source = parent.group_kind == GroupKind("", "ConfigMap")
    return parent.name.removeprefix(SOURCE_PREFIX) if is_source else title(parent)


def mark_of(node: RenderedNode) -> str:
    """Return the mark of a node.

    Marks: `!` cannot be rendered, `?` waits for data, `<` is read and not written.
    """
    return "!" if node.error else "?" if node.waiting else "<" if node.external else " "


def format_local_time(moment: datetime) -> str:
    """Return weekday, date, time to the minute, and zone, in the zone of the terminal."""
    return moment.astimezone().strftime("%a %Y-%m-%d %H:%M %Z")


def format_age(since: datetime, now: datetime) -> str:
    """Return the time from `since` to `now` as kubectl prints ages: `45s`, `78m`, `5h`, `3d`."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length, limit in (("s", 1, 120), ("m", 60, 120 * 60), ("h", 3600, 48 * 3600)):
        if seconds < limit:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86400}d"


def align_table(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, with three spaces between columns. The first row is the header."""
    table = [[one_line(cell) for cell in row] for row in table]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


_VALID_YEARS = range(1970, 2490)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """Format of times for people: in UTC, or in the zone of the terminal."""

    utc: bool = False

    def format_full(self, moment: datetime) -> str:
        """Return weekday, date, time to the minute, and zone."""
        return f"{self._to_zone(moment):%a %Y-%m-%d %H:%M %Z}"

    def format_minute(self, moment: datetime) -> str:
        """Return weekday, date and time to the minute, for a column whose heading names the zone."""
        return f"{self._to_zone(moment):%a %Y-%m-%d %H:%M}"

    def format_second(self, moment: datetime) -> str:
        """Return the time to the second, for a column whose heading names day and zone."""
        return f"{self._to_zone(moment):%H:%M:%S}"

    def format_short(self, moment: datetime, day: datetime) -> str:
        """Return the time to the minute and the zone. If the date differs from that of `day`, return the date too."""
        local_moment = self._to_zone(moment)
        return (
            f"{local_moment:%H:%M %Z}" if local_moment.date() == self._to_zone(day).date() else self.format_full(moment)
        )

    def parse(self, text: str) -> datetime:
        """Return the time that `text` states. Raises: ValueError if `text` is not a time."""
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            parsed = None
        if parsed is None or parsed.year not in _VALID_YEARS:
            raise ValueError(f"{text!r} is not a time; write for example 2026-12-24T10:00 or 2026-12-24T09:00:00Z")
        return to_utc(parsed.replace(tzinfo=UTC) if self.utc and parsed.tzinfo is None else parsed)

    def _to_zone(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC) if self.utc else moment.astimezone()
