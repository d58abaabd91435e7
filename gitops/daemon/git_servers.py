"""Servers that fail again and again are left alone, each by itself, ever longer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from applier.backoff import waits
from gitops.errors import SourceError, Throttled, Unreachable
from gitops.source import Mirror
from renderer.frozen import dataclass

FREE: Final = 3
LONGEST_REST: Final = 300.0
THROTTLED_REST: Final = 60.0
LONGEST_WANTED: Final = 3600.0
"""Seconds; see `rest`."""


@dataclass(frozen=True, slots=True)
class _Failing:
    """A server that has failed so many times in a row, and when it is asked again; `by_wish`: that is what it wants itself. `access` is that of the
    mirror that asked.
    """

    times: int
    until: datetime
    by_wish: bool
    access: tuple[object, ...]

    def rests(self, now: datetime) -> bool:
        return waits(self.until, timedelta(seconds=LONGEST_WANTED), now)


@dataclass(slots=True)
class GitServerBackoff:
    """Which servers have failed at their last question, and which sources a person wants to be looked at all the same."""

    _failures: dict[Hashable, _Failing] = field(default_factory=dict)
    _urged: set[str] = field(default_factory=set)

    def urge(self, source: str) -> None:
        """A person wants it to be looked at now."""
        self._urged.add(source)

    def rests(self, source: str, mirror: Mirror, now: datetime) -> bool:
        """Is its server left alone for a while, after it has failed again and again? A local directory is asked as ever, and so is, once, what a
        person wants to be looked at now, or with other credentials: unless it is the server that wants to be left alone.
        """
        is_urged, failing = source in self._urged, self._failures.get(mirror.server)
        self._urged.discard(source)
        if failing is None or mirror.target.scheme == "file":
            return False
        is_other = is_urged or mirror.access != failing.access
        return failing.rests(now) and (failing.by_wish or not is_other)

    def failed(self, mirror: Mirror, access: tuple[object, ...], error: SourceError, now: datetime) -> None:
        """It was asked with this access, the mirror's when the question was put."""
        before = self._failures.get(mirror.server)
        times = before.times + 1 if before else 1
        wanted, throttled = error.retry_after if isinstance(error, Unreachable) else None, isinstance(error, Throttled)
        until = now + timedelta(seconds=rest(times, throttled=throttled, wanted=wanted))
        self._failures[mirror.server] = _Failing(times, until, throttled or wanted is not None, access)

    def answered(self, mirror: Mirror) -> None:
        """It is asked as ever from now on."""
        self._failures.pop(mirror.server, None)


def rest(failures: int, *, throttled: bool, wanted: float | None = None) -> float:
    """Seconds for which a server is not asked after so many failures in a row: none after the first two, then ever more, up to five minutes. One that
    wants to be asked less often has a minute at once. `wanted` is what it says itself in `Retry-After` (RFC 9110, 10.2.3), heeded up to an hour.
    """
    patience = 0.0 if failures < FREE else min(2.0 ** (failures - FREE), LONGEST_REST)
    if wanted is not None:
        return max(patience, min(wanted, LONGEST_WANTED))
    return max(patience, min(THROTTLED_REST * failures, LONGEST_REST)) if throttled else patience
