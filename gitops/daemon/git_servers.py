"""Limits per Git server: backoff after repeated failures, and a small number of threads.

A server that hangs takes no thread of the other servers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final, ParamSpec, TypeVar

from applier.backoff import exponential_backoff, is_waiting
from gitops.errors import SourceError, Throttled, Unreachable
from gitops.source import Mirror
from renderer.frozen import dataclass

FAILURES_WITHOUT_BACKOFF: Final = 3
MAX_BACKOFF_SECONDS: Final = 300.0
THROTTLED_BACKOFF_SECONDS: Final = 60.0
MAX_RETRY_AFTER_SECONDS: Final = 3600.0
"""Seconds; see `rest`."""


@dataclass(frozen=True, slots=True)
class _ServerFailure:
    """A server that has failed so many times in a row, and when it is asked again; `is_requested_by_server`: that is
    what it wants itself. `access` is that of the
    mirror that asked.
    """

    count: int
    until: datetime
    is_requested_by_server: bool
    credential_states: tuple[object, ...]

    def is_backing_off(self, now: datetime) -> bool:
        return is_waiting(self.until, timedelta(seconds=MAX_RETRY_AFTER_SECONDS), now)


@dataclass(slots=True)
class GitServerBackoff:
    """Which servers have failed at their last question, and which sources a person wants to be looked at all the same."""

    _failures: dict[Hashable, _ServerFailure] = field(default_factory=dict)
    _requested_sources: set[str] = field(default_factory=set)

    def note_request(self, source: str) -> None:
        """A person wants it to be looked at now."""
        self._requested_sources.add(source)

    def is_backing_off(self, source: str, mirror: Mirror, now: datetime) -> bool:
        """Is its server left alone for a while, after it has failed again and again? A local directory is asked as ever, and so is, once, what a
        person wants to be looked at now, or with other credentials: unless it is the server that wants to be left alone.
        """
        is_requested, failure = source in self._requested_sources, self._failures.get(mirror.server)
        self._requested_sources.discard(source)
        if failure is None or mirror.target.scheme == "file":
            return False
        may_retry = is_requested or mirror.credential_states != failure.credential_states
        return failure.is_backing_off(now) and (failure.is_requested_by_server or not may_retry)

    def record_failure(
        self, mirror: Mirror, credential_states: tuple[object, ...], error: SourceError, now: datetime
    ) -> None:
        """It was asked with this access, the mirror's when the question was put."""
        previous = self._failures.get(mirror.server)
        failure_count = previous.count + 1 if previous else 1
        retry_after, throttled = (
            error.retry_after if isinstance(error, Unreachable) else None,
            isinstance(error, Throttled),
        )
        until = now + timedelta(seconds=backoff_seconds(failure_count, throttled=throttled, retry_after=retry_after))
        self._failures[mirror.server] = _ServerFailure(
            failure_count, until, throttled or retry_after is not None, credential_states
        )

    def reset(self, mirror: Mirror) -> None:
        """It is asked as ever from now on."""
        self._failures.pop(mirror.server, None)


def backoff_seconds(failures: int, *, throttled: bool, retry_after: float | None) -> float:
    """Return the seconds for which a server is not asked after so many failures in a row.

    None after the first two, then 1, 2, 4 and so on up to five minutes. A server that is `throttled` has a minute at
    once. `retry_after` is what it says itself (RFC 9110, 10.2.3), heeded up to an hour.
    """
    excess = failures - FAILURES_WITHOUT_BACKOFF
    backoff = 0.0 if excess < 0 else exponential_backoff(excess, 1.0, MAX_BACKOFF_SECONDS)
    if retry_after is not None:
        return max(backoff, min(retry_after, MAX_RETRY_AFTER_SECONDS))
    return max(backoff, min(THROTTLED_BACKOFF_SECONDS * failures, MAX_BACKOFF_SECONDS)) if throttled else backoff


P = ParamSpec("P")
T = TypeVar("T")

MAX_THREADS_PER_SERVER: Final = 4
"""Questions at once."""


class GitServerLimits:
    """One to each server."""

    def __init__(self) -> None:
        self._semaphores = defaultdict[Hashable, asyncio.Semaphore](lambda: asyncio.Semaphore(MAX_THREADS_PER_SERVER))

    async def run(self, mirror: Mirror, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `act` answers, in a thread, once it is its turn at the server of this mirror."""
        async with self._semaphores[mirror.server]:
            return await asyncio.to_thread(function, *arguments, **named)
