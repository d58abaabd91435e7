"""Moments as commands read and show them: in the zone of the terminal, or in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from renderer.frozen import dataclass

_VALID_YEARS = range(1970, 2490)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """How times are shown to people."""

    utc: bool = False

    def format_full(self, moment: datetime) -> str:
        """Weekday, date, minute and zone."""
        return f"{self._to_zone(moment):%a %Y-%m-%d %H:%M %Z}"

    def format_minute(self, moment: datetime) -> str:
        """Weekday, date and minute; for columns under a line that names the zone."""
        return f"{self._to_zone(moment):%a %Y-%m-%d %H:%M}"

    def format_second(self, moment: datetime) -> str:
        """Without the date, to the second; for columns under a line that names the day and the zone."""
        return f"{self._to_zone(moment):%H:%M:%S}"

    def format_short(self, moment: datetime, day: datetime) -> str:
        """Without the date where it is that of `day`."""
        local_moment = self._to_zone(moment)
        return (
            f"{local_moment:%H:%M %Z}" if local_moment.date() == self._to_zone(day).date() else self.format_full(moment)
        )

    def parse(self, text: str) -> datetime:
        """Return the moment that a person wrote. Raises ValueError."""
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            parsed = None
        if parsed is None or parsed.year not in _VALID_YEARS:
            raise ValueError(f"{text!r} is not a time; write for example 2026-12-24T10:00 or 2026-12-24T09:00:00Z")
        return to_utc(parsed.replace(tzinfo=UTC) if self.utc and parsed.tzinfo is None else parsed)

    def _to_zone(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC) if self.utc else moment.astimezone()


def to_utc(moment: datetime) -> datetime:
    """A time as somebody wrote it; without a zone it is the terminal's. One that summer time skips is as far after the gap as it would have been,
    and of one that comes twice the first counts (RFC 5545, 3.3.5).
    """
    if moment.tzinfo is None and moment.astimezone().replace(tzinfo=None) != moment:
        moment = moment.replace(fold=1)  # `astimezone` takes a time in the gap for one before it
    return moment.astimezone(UTC)


def format_length(duration: timedelta) -> str:
    """`16d 18h`, `2h 30m`."""
    minutes = int(duration.total_seconds()) // 60
    parts = [(minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m")]
    return " ".join(f"{number}{unit}" for number, unit in parts if number) or "less than a minute"
