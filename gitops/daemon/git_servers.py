"""Limits of requests to Git servers: backoff after repeated failures, and a small number of threads.

A failure concerns one repository with its credentials, because a server also rejects a single repository, such as a
repository that does not exist. A wait that the server asks for concerns the whole server: its host and port.

If a request for one repository hangs, other repositories still have threads. For this, the process has to set a default
executor with many more threads than MAX_THREADS_PER_REPOSITORY, as `gitops.cli.run_process` does.
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
"""Number of failures of a repository in a row at which the backoff begins. Fewer failures cause no backoff.

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
class _FailureSeries:
    """Uninterrupted series of failed requests for one repository."""

    count: int
    until: datetime
    """End of the backoff."""

    credential_states: tuple[object, ...]
    """State of the credentials in the last failed request. Changed credentials permit a retry."""


@dataclass(slots=True)
class GitServerBackoff:
    """Backoff of repositories and servers, and the sources that a person wants to poll despite a backoff.

    The backoff of a repository applies to the sources with the same location and credentials (`Mirror.repository`). A
    wait that the server asks for applies to all repositories on the server (`Mirror.server`).
    """

    _failures: dict[Hashable, _FailureSeries] = field(default_factory=dict)
    _server_waits: dict[str, datetime] = field(default_factory=dict)
    """For each server, the end of the last wait that the server asked for, by throttling or by `Retry-After`."""

    _requested_sources: set[str] = field(default_factory=set)

    def note_request(self, source: str) -> None:
        """Permit one poll of the source during a backoff, at the request of a person."""
        self._requested_sources.add(source)

    def take_poll_permission(self, source: str, mirror: Mirror, now: datetime) -> bool:
        """Return whether a poll of the source is permitted now, and delete the request of a person for the poll.

        The method deletes the request even if the backoff forbids the poll. A local directory has no backoff. During a
        backoff of the repository, a person's request or changed credentials permit a poll. During a wait that the
        server asks for, nothing permits a poll.
        """
        is_requested, failure = source in self._requested_sources, self._failures.get(mirror.repository)
        self._requested_sources.discard(source)
        if mirror.target.scheme == "file":
            return True
        if _is_in_force(self._server_waits.get(mirror.server), now):
            return False
        if failure is None or is_requested or mirror.credential_states != failure.credential_states:
            return True
        return not _is_in_force(failure.until, now)

    def record_failure(
        self, mirror: Mirror, credential_states: tuple[object, ...], error: SourceError, now: datetime
    ) -> None:
        """Record a failed request for the repository of a mirror.

        Args:
            credential_states: state of the credentials before the request.
            error: error of the request. Every SourceError counts as a failure.
        """
        previous = self._failures.get(mirror.repository)
        failure_count = previous.count + 1 if previous else 1
        retry_after = error.retry_after if isinstance(error, Unreachable) else None
        throttled = isinstance(error, Throttled)
        until = now + timedelta(seconds=backoff_seconds(failure_count, throttled=throttled, retry_after=retry_after))
        self._failures[mirror.repository] = _FailureSeries(failure_count, until, credential_states)
        if throttled or retry_after is not None:
            # Requests run side by side, so a later answer must not shorten an earlier wait.
            wait = self._server_waits.get(mirror.server)
            self._server_waits[mirror.server] = max(until, wait) if wait and _is_in_force(wait, now) else until

    def reset(self, mirror: Mirror) -> None:
        """End the backoff of a mirror's repository, after a success.

        A wait that the server asks for stays in force, because the successful request began before that wait.
        """
        self._failures.pop(mirror.repository, None)


def _is_in_force(until: datetime | None, now: datetime) -> bool:
    """Return whether a backoff with the end `until` is in force at `now`. Without an end, no backoff is in force.

    If the end is more than MAX_RETRY_AFTER_SECONDS ahead, a person has set the wall clock back. Then the backoff is
    over.
    """
    return until is not None and is_waiting(until, timedelta(seconds=MAX_RETRY_AFTER_SECONDS), now)


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

MAX_THREADS_PER_REPOSITORY: Final = 4
"""Maximum number of functions that run for one repository at the same time, including reads of the local copy."""


class GitThreadLimits:
    """Limit of the threads that work for one repository at the same time."""

    def __init__(self) -> None:
        self._semaphores = defaultdict[Hashable, asyncio.Semaphore](
            lambda: asyncio.Semaphore(MAX_THREADS_PER_REPOSITORY)
        )

    async def run(self, mirror: Mirror, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Wait for a free slot of the mirror's repository, run a blocking function in a thread, and return its result.

        After a cancellation, the slot is free at once, although the thread runs the function to its end.
        """
        async with self._semaphores[mirror.repository]:
            return await asyncio.to_thread(function, *arguments, **named)
