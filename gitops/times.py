"""Moments as commands read and show them: in the zone of the terminal, or in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from renderer.frozen import dataclass

_YEARS = range(1970, 2490)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """How times are shown to people."""

    utc: bool = False

    def full(self, moment: datetime) -> str:
        """Weekday, date, minute and zone."""
        return f"{self._shown(moment):%a %Y-%m-%d %H:%M %Z}"

    def minute(self, moment: datetime) -> str:
        """Weekday, date and minute; for columns under a line that names the zone."""
        return f"{self._shown(moment):%a %Y-%m-%d %H:%M}"

    def second(self, moment: datetime) -> str:
        """Without the date, to the second; for columns under a line that names the day and the zone."""
        return f"{self._shown(moment):%H:%M:%S}"

    def short(self, moment: datetime, day: datetime) -> str:
        """Without the date where it is that of `day`."""
        shown = self._shown(moment)
        return f"{shown:%H:%M %Z}" if shown.date() == self._shown(day).date() else self.full(moment)

    def read(self, text: str) -> datetime:
        """Return the moment that a person wrote. Raises ValueError."""
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            found = None
        if found is None or found.year not in _YEARS:
            raise ValueError(f"{text!r} is not a time; write for example 2026-12-24T10:00 or 2026-12-24T09:00:00Z")
        return in_utc(found.replace(tzinfo=UTC) if self.utc and found.tzinfo is None else found)

    def _shown(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC) if self.utc else moment.astimezone()


def in_utc(written: datetime) -> datetime:
    """A time as somebody wrote it; without a zone it is the terminal's. One that summer time skips is as far after the gap as it would have been,
    and of one that comes twice the first counts (RFC 5545, 3.3.5).
    """
    if written.tzinfo is None and written.astimezone().replace(tzinfo=None) != written:
        written = written.replace(fold=1)  # `astimezone` takes a time in the gap for one before it
    return written.astimezone(UTC)


def length(duration: timedelta) -> str:
    """`16d 18h`, `2h 30m`."""
    minutes = int(duration.total_seconds()) // 60
    parts = [(minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m")]
    return " ".join(f"{number}{unit}" for number, unit in parts if number) or "less than a minute"
