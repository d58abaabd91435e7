"""Limits per Git server: backoff after repeated failures, and a small number of threads.

A server in this module is the location of a repository together with credentials (`Mirror.server`).

If a server hangs, other servers still have threads. For this, the process has to set a default executor with many more
threads than MAX_THREADS_PER_SERVER, as `gitops.cli.run_process` does.
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

FIRST_FAILURE_WITH_BACKOFF: Final = 3
"""Number of failures in a row at which the backoff begins. Fewer failures cause no backoff.

If the server throttles or sends `Retry-After`, the backoff begins at the first failure.
"""

MAX_BACKOFF_SECONDS: Final = 300.0
"""Longest backoff in seconds. `Retry-After` may ask for a longer backoff."""

THROTTLED_BACKOFF_SECONDS: Final = 60.0
"""Backoff in seconds after a throttled request without `Retry-After`, for each failure in a row.

The backoff is at most MAX_BACKOFF_SECONDS.
"""

MAX_RETRY_AFTER_SECONDS: Final = 3600.0
"""Longest `Retry-After` of a server that Levelgate obeys, in seconds."""


@dataclass(frozen=True, slots=True)
class _ServerFailure:
    """Uninterrupted series of failures of one server."""

    count: int
    until: datetime
    """End of the backoff."""

    is_requested_by_server: bool
    """True if the server itself asks for the backoff, by throttling or by `Retry-After`."""

    credential_states: tuple[object, ...]
    """State of the credentials in the last failed request. Changed credentials permit a retry."""

    def is_backing_off(self, now: datetime) -> bool:
        """Return whether the backoff is still in force at `now`.

        If the end is more than MAX_RETRY_AFTER_SECONDS ahead, a person has set the wall clock back. Then the backoff
        is over.
        """
        return is_waiting(self.until, timedelta(seconds=MAX_RETRY_AFTER_SECONDS), now)


@dataclass(slots=True)
class GitServerBackoff:
    """Backoff of all servers, and the sources that a person wants to poll despite a backoff."""

    _failures: dict[Hashable, _ServerFailure] = field(default_factory=dict)
    _requested_sources: set[str] = field(default_factory=set)

    def note_request(self, source: str) -> None:
        """Permit one poll of the source during a backoff, at the request of a person."""
        self._requested_sources.add(source)

    def take_poll_permission(self, source: str, mirror: Mirror, now: datetime) -> bool:
        """Return whether a poll of the source is permitted now, and delete the request of a person for the poll.

        The method deletes the request even if the backoff forbids the poll. A local directory has no backoff. Unless
        the server itself asks for the backoff, a person's request or changed credentials permit a poll.
        """
        is_requested, failure = source in self._requested_sources, self._failures.get(mirror.server)
        self._requested_sources.discard(source)
        if failure is None or mirror.target.scheme == "file":
            return True
        may_retry = is_requested or mirror.credential_states != failure.credential_states
        return not failure.is_backing_off(now) or (may_retry and not failure.is_requested_by_server)

    def record_failure(
        self, mirror: Mirror, credential_states: tuple[object, ...], error: SourceError, now: datetime
    ) -> None:
        """Record a failed request to the server of a mirror.

        Args:
            credential_states: state of the credentials before the request.
            error: error of the request. Every SourceError counts as a failure of the server.
        """
        previous = self._failures.get(mirror.server)
        failure_count = previous.count + 1 if previous else 1
        retry_after = error.retry_after if isinstance(error, Unreachable) else None
        throttled = isinstance(error, Throttled)
        until = now + timedelta(seconds=backoff_seconds(failure_count, throttled=throttled, retry_after=retry_after))
        is_requested = throttled or retry_after is not None
        # Requests run side by side, so a failure without a wish of the server must not shorten an earlier wish.
        if previous and previous.is_requested_by_server and previous.is_backing_off(now):
            until, is_requested = max(until, previous.until), True
        self._failures[mirror.server] = _ServerFailure(failure_count, until, is_requested, credential_states)

    def reset(self, mirror: Mirror) -> None:
        """End the backoff of a mirror's server, after a success."""
        self._failures.pop(mirror.server, None)


def backoff_seconds(failures: int, *, throttled: bool, retry_after: float | None) -> float:
    """Return the backoff in seconds after `failures` failures in a row.

    The backoff is 0 after the first two failures, then 1, 2, 4 seconds and so on up to five minutes.

    Args:
        throttled: True if the server limits the rate of requests. Then the backoff is at least a minute for each
            failure in a row, up to five minutes. If the server sends `Retry-After`, this minimum does not apply.
        retry_after: wait in seconds that the server asks for. A wait of more than an hour counts as an hour.

    Source: RFC 9110, 10.2.3.
    """
    excess = failures - FIRST_FAILURE_WITH_BACKOFF
    backoff = 0.0 if excess < 0 else exponential_backoff(excess, 1.0, MAX_BACKOFF_SECONDS)
    if retry_after is not None:
        return max(backoff, min(retry_after, MAX_RETRY_AFTER_SECONDS))
    return max(backoff, min(THROTTLED_BACKOFF_SECONDS * failures, MAX_BACKOFF_SECONDS)) if throttled else backoff


P = ParamSpec("P")
T = TypeVar("T")

MAX_THREADS_PER_SERVER: Final = 4
"""Maximum number of functions that run for one server at the same time, including reads of the local copy."""


class GitServerLimits:
    """Limit of the threads that work for one server at the same time."""

    def __init__(self) -> None:
        self._semaphores = defaultdict[Hashable, asyncio.Semaphore](lambda: asyncio.Semaphore(MAX_THREADS_PER_SERVER))

    async def run(self, mirror: Mirror, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Wait for a free slot of the mirror's server, run a blocking function in a thread, and return its result.

        After a cancellation, the slot is free at once, although the thread runs the function to its end.
        """
        async with self._semaphores[mirror.server]:
            return await asyncio.to_thread(function, *arguments, **named)
