"""The search for the next change of several open states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gitops.windows.change_search import ChangeCache, OpenState, earliest, find_next_change, latest

NOW = datetime(2026, 3, 16, tzinfo=UTC)
HOUR = timedelta(hours=1)


def open_between(first: int, last: int, now: datetime) -> OpenState:
    """Open from one hour to another; every hour is an edge."""
    hours = (now - NOW) // HOUR
    return OpenState(first <= hours < last, NOW + (hours + 1) * HOUR if hours < last else None)


def test_the_change_is_where_the_last_state_opens_or_the_first_one_closes() -> None:
    states = [lambda now: open_between(2, 9, now), lambda now: open_between(4, 6, now)]
    assert find_next_change(states, NOW) == NOW + 4 * HOUR
    assert find_next_change(states, NOW + 4 * HOUR) == NOW + 6 * HOUR
    assert find_next_change(states, NOW + 6 * HOUR) is None


def test_a_later_search_continues_from_the_cache_with_the_same_result() -> None:
    visited: list[datetime] = []

    def state(now: datetime) -> OpenState:
        visited.append(now)
        return open_between(100, 200, now)

    cache = ChangeCache()
    assert cache.find_next_change([state], NOW) == NOW + 100 * HOUR
    visited.clear()
    assert cache.find_next_change([state], NOW + 50 * HOUR) == NOW + 100 * HOUR
    assert visited == []
    assert cache.find_next_change([state], NOW - HOUR) == NOW + 100 * HOUR, "an earlier instant starts a new search"


def test_never_is_later_than_every_instant() -> None:
    assert (earliest([None, NOW]), latest([None, NOW])) == (NOW, None)
    assert (earliest([]), latest([])) == (None, None)
