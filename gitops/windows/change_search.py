"""Search for the next change of a conjunction of open states, from edge to edge, with a cache.

A state function returns whether a target is open at an instant, according to the windows of one source. An edge is an
instant at which the result of a state function may change. The target is open while all state functions return open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from gitops.windows.occurrences import HORIZON
from renderer.frozen import dataclass

_MAX_EDGES: Final = 10_000
"""Maximum number of edges that one search visits.

At the limit, the search returns the instant that it has reached. Until that instant, the conjunction does not change.
"""

_MAX_TIME: Final = datetime.max.replace(tzinfo=UTC)


class OpenState(NamedTuple):
    """Answer of a state function at an instant."""

    is_open: bool
    until: datetime | None
    """Instant in UTC before which `is_open` does not change, or None if `is_open` never changes."""


@dataclass(slots=True)
class ChangeCache:
    """Result of the last search for a change, from which the next search continues.

    A target that never opens has thousands of edges in ten years, and each reconciliation searches for each target.
    """

    since: datetime = _MAX_TIME
    """Instant in UTC at which the search began."""
    reached: datetime = _MAX_TIME
    """Instant in UTC until which the search has found no change."""
    change: datetime | None = None
    """Instant of the change in UTC, or None if the search has found no change."""

    def find_next_change(
        self, state_functions: Sequence[Callable[[datetime], OpenState]], now: datetime
    ) -> datetime | None:
        """Return the result of the function `find_next_change`.

        If `now` is between the start and the result of the last search, use that result, or continue that search.
        """
        if not self.since <= now < (self.change or self.reached):
            self.since = self.reached = now
        elif self.change:
            return self.change
        self.reached, self.change = _find_change(state_functions, self.reached, now + HORIZON)
        if self.change == self.reached:  # The search ended at `_MAX_EDGES`, so the next search starts at `now`.
            self.since = _MAX_TIME
        return self.change


@lru_cache(maxsize=256)
def change_cache_for(_state_inputs: tuple[tuple[object, ...], ...]) -> ChangeCache:
    """Return the cache for all targets with the same inputs of their state functions.

    Equal inputs share a cache, because Levelgate reads windows again with each commit, and many targets have equal
    windows.
    """
    return ChangeCache()


def find_next_change(state_functions: Sequence[Callable[[datetime], OpenState]], now: datetime) -> datetime | None:
    """Return the first instant after `now` at which the conjunction of the states changes.

    If the conjunction does not change within ten years, return None. After `_MAX_EDGES` edges, return the instant that
    the search has reached.
    """
    return _find_change(state_functions, now, now + HORIZON)[1]


def _find_change(
    state_functions: Sequence[Callable[[datetime], OpenState]], moment: datetime, horizon: datetime
) -> tuple[datetime, datetime | None]:
    """Return the last edge before the conjunction changes, and the instant of the change.

    If the change is after `horizon`, the instant of the change is None. The search goes from edge to edge, so its cost
    does not depend on the time between the edges.
    """
    states = [state_at(moment) for state_at in state_functions]
    first = all(state.is_open for state in states)
    for _ in range(_MAX_EDGES):
        following = earliest([s.until for s in states]) if first else latest([s.until for s in states if not s.is_open])
        if following is None or following > horizon:
            return moment, None
        states = [state_at(following) for state_at in state_functions]
        if all(state.is_open for state in states) is not first:
            return moment, following
        moment = following
    return moment, moment


def earliest(moments: Iterable[datetime | None]) -> datetime | None:
    """Return the earliest of `moments`, or None if all of them are None. None means never."""
    return min((moment for moment in moments if moment), default=None)


def latest(moments: Sequence[datetime | None]) -> datetime | None:
    """Return the latest of `moments`, or None if a moment is None. None means never, which is the latest time."""
    return None if None in moments else max((moment for moment in moments if moment), default=None)
