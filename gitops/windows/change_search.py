"""Search for the next change of a conjunction of open states, from edge to edge, with a cache.

A state function returns the open state at an instant. A target is open while all state functions of its sources are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from gitops.windows.occurrences import HORIZON
from renderer.frozen import dataclass

_MAX_EDGES: Final = 10_000
"""Edges that one search visits. It then returns the instant it has reached, up to which nothing changes."""

_MAX_TIME: Final = datetime.max.replace(tzinfo=UTC)


class OpenState(NamedTuple):
    """Open or not, and an instant before which that does not change; None for never."""

    is_open: bool
    until: datetime | None


@dataclass(slots=True)
class ChangeCache:
    """Result of the last search for a change: none from `since` to `reached`, and one at `change` if it was found.

    A target that never opens has thousands of edges in ten years, and each reconciliation searches for each target.
    """

    since: datetime = _MAX_TIME
    reached: datetime = _MAX_TIME
    change: datetime | None = None

    def find_next_change(
        self, state_functions: Sequence[Callable[[datetime], OpenState]], now: datetime
    ) -> datetime | None:
        """Return the same as the function `find_next_change`, continuing from where the last search ended."""
        if not self.since <= now < (self.change or self.reached):
            self.since = self.reached = now
        elif self.change:
            return self.change
        self.reached, self.change = _find_change(state_functions, self.reached, now + HORIZON)
        if self.change == self.reached:  # The search gave up after `_MAX_EDGES`: the next one starts afresh.
            self.since = _MAX_TIME
        return self.change


@lru_cache(maxsize=256)
def change_cache_for(_state_inputs: tuple[tuple[object, ...], ...]) -> ChangeCache:
    """Return the cache for these inputs.

    Keyed by value, because each commit reads its windows again, and many targets have equal windows.
    """
    return ChangeCache()


def find_next_change(state_functions: Sequence[Callable[[datetime], OpenState]], now: datetime) -> datetime | None:
    """Return the first instant at which the conjunction of the states changes; None if not within ten years."""
    return _find_change(state_functions, now, now + HORIZON)[1]


def _find_change(
    state_functions: Sequence[Callable[[datetime], OpenState]], moment: datetime, horizon: datetime
) -> tuple[datetime, datetime | None]:
    """Return the last instant with an unchanged result, and the instant of the change; None if beyond the horizon.

    The search goes from edge to edge, so its cost does not depend on the time between them.
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
    """Return the earliest instant; None, which means never, only if there is no other."""
    return min((moment for moment in moments if moment), default=None)


def latest(moments: Sequence[datetime | None]) -> datetime | None:
    """Return the latest instant; None means never, which is later than all."""
    return None if None in moments else max((moment for moment in moments if moment), default=None)
