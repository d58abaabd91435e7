"""Work queue of keys with priorities, delays, backoff and fairness. The queue never blocks.

A key is in one of four states: idle, queued, processing, or processing and to be queued again at `done`. Invariants:

- The queue contains no key twice.
- The queue contains no key that is processing.
- A dirty key is a queued key, or a processing key that a caller has added again.

A worker sleeps until `next_due_at`, or until a call of `on_change`. Times are seconds of one monotonic clock.

Source: `workqueue` of client-go.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from dataclasses import field
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

from applier.backoff import exponential_backoff
from gitops.errors import GitopsError
from renderer.frozen import dataclass

PRIORITY_CHANGE: Final = 0
"""Highest priority, for a change, a drift or a request of a person."""

PRIORITY_WINDOW: Final = -50
"""Priority of roots for which a window opens."""

PRIORITY_RESYNC: Final = -100
"""Priority of the first full reconciliation, and of periodic full reconciliations."""

MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.005, 1000.0
"""Shortest and longest backoff in seconds.

Each failure doubles the backoff. The queue subtracts a random part of up to half.
"""

K = TypeVar("K", bound=Hashable)


class KeyNotProcessing(GitopsError):
    """Error of a call to `done` for a key that is not processing."""


@dataclass(order=True, slots=True)
class _Entry(Generic[K]):
    """Queued key, ordered by `effective_time`: the time of the request plus one second per step of lower priority.

    So keys of higher priority overtake a key of low priority only for a limited time.
    """

    effective_time: float
    sequence: int
    key: K = field(compare=False)
    priority: int = field(compare=False)
    queued_at: float = field(compare=False)


@dataclass(slots=True)
class _Delay:
    """End of the delay of a key, and the priority of the key in the queue after the delay."""

    due_at: float
    priority: int


@dataclass
class WorkQueue(Generic[K]):
    """Keys that are queued, delayed or processing. `len()` is the number of queued keys."""

    group_of: Callable[[K], Hashable]
    """Function that returns the group of a key, such as its cluster. Groups with equally urgent keys take turns."""

    on_change: Callable[[], None]
    """Function to call when the queue gets a key, or when a delayed key falls due sooner than before."""

    now: Callable[[], float]
    random_fraction: Callable[[], float] = random.random
    closed: bool = False
    _queued: dict[K, _Entry[K]] = field(default_factory=dict)
    _heaps: dict[Hashable, list[_Entry[K]]] = field(default_factory=dict)
    _last_served: dict[Hashable, int] = field(default_factory=dict)
    _dirty_while_processing: dict[K, int] = field(default_factory=dict)
    _processing: set[K] = field(default_factory=set)
    _delays: dict[K, _Delay] = field(default_factory=dict)
    _delay_heap: list[tuple[float, int, K]] = field(default_factory=list)
    _failures: dict[K, int] = field(default_factory=dict)
    _sequence: Iterator[int] = field(default_factory=count)

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def oldest_age_seconds(self) -> float:
        """Return the time for which the oldest queued key has waited, in seconds."""
        return max((self.now() - entry.queued_at for entry in self._queued.values()), default=0.0)

    @property
    def processing(self) -> frozenset[K]:
        """Return the keys that are processing."""
        return frozenset(self._processing)

    @property
    def dirty(self) -> frozenset[K]:
        """Return the queued keys, and the processing keys that `done` queues again."""
        return frozenset((*self._queued, *self._dirty_while_processing))

    def add(self, key: K, priority: int = PRIORITY_CHANGE) -> None:
        """Queue a key now, and end its delay.

        If a caller adds a key several times, the queue contains the key once, with the highest of its priorities. A
        closed queue ignores the call.
        """
        if self.closed:
            return
        if (delay := self._delays.pop(key, None)) is not None:
            priority = max(priority, delay.priority)
        self._add(key, priority, self.now())

    def add_after(self, key: K, seconds: float, priority: int = PRIORITY_CHANGE) -> None:
        """Queue a key after a delay. If the key has two delays, the earlier end counts. Do not delay a dirty key."""
        if seconds <= 0 or key in self._queued or key in self._dirty_while_processing:
            self.add(key, priority)
            return
        if self.closed:
            return
        delay, due_at = self._delays.get(key), self.now() + seconds
        if delay is not None:
            priority, due_at = max(priority, delay.priority), min(due_at, delay.due_at)
        self._delays[key] = _Delay(due_at, priority)
        if delay is None or due_at < delay.due_at:
            heappush(self._delay_heap, (due_at, next(self._sequence), key))
            self.on_change()

    def add_rate_limited(self, key: K) -> None:
        """Queue a key after a failure, with a backoff that grows until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        max_delay_seconds = exponential_backoff(failures, MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        self.add_after(key, max_delay_seconds * (1 + self.random_fraction()) / 2)

    def forget(self, key: K) -> None:
        """Reset the backoff of a key after a success."""
        self._failures.pop(key, None)

    def failure_count(self, key: K) -> int:
        """Return the number of failures of a key since its last success."""
        return self._failures.get(key, 0)

    def get(self) -> K | None:
        """Return the next key, or None if no key is due. Until the call of `done`, the key is processing."""
        self._queue_due_delays()
        entry = self._best_entry()
        if entry is None:
            return None
        group = self.group_of(entry.key)
        heappop(self._heaps[group])
        if not self._heaps[group]:
            del self._heaps[group]
        self._last_served[group] = next(self._sequence)
        del self._queued[entry.key]
        self._processing.add(entry.key)
        return entry.key

    def done(self, key: K) -> None:
        """End the processing of a key. If the key is dirty, queue the key again.

        Raises: KeyNotProcessing if the key is not processing.
        """
        if key not in self._processing:
            raise KeyNotProcessing(
                f"{key} is not processing, because `done` was called twice or without `get`; "
                "report the fault with the log"
            )
        self._processing.remove(key)
        if key in self._dirty_while_processing:
            self._add(key, self._dirty_while_processing.pop(key), self.now())

    def close(self) -> None:
        """Accept no more keys, and drop delayed keys. `get` still returns queued keys."""
        self.closed = True
        self._delays.clear()
        self._delay_heap.clear()
        self.on_change()

    @property
    def next_due_at(self) -> float | None:
        """Return the time at which the next delayed key falls due, or None if no key is delayed."""
        self._drop_outdated_delays()
        return self._delay_heap[0][0] if self._delay_heap else None

    def _add(self, key: K, priority: int, since: float) -> None:
        if key in self._processing:
            self._dirty_while_processing[key] = max(priority, self._dirty_while_processing.get(key, priority))
        elif (entry := self._queued.get(key)) is None:
            self._push(key, priority, since, queued_at=since)
        elif priority > entry.priority:
            self._push(key, priority, since, queued_at=entry.queued_at)

    def _push(self, key: K, priority: int, since: float, *, queued_at: float) -> None:
        entry = _Entry(since - priority, next(self._sequence), key, priority, queued_at)
        self._queued[key] = entry
        heappush(self._heaps.setdefault(self.group_of(key), []), entry)
        self.on_change()

    def _best_entry(self) -> _Entry[K] | None:
        """Return the next entry for `get`.

        If the first entries of several groups have the same effective priority, choose the group with the longest time
        since its last key.
        """
        now, heads = self.now(), []
        for group, heap in tuple(self._heaps.items()):
            while heap and self._queued.get(heap[0].key) is not heap[0]:
                heappop(heap)  # an entry with a higher priority has replaced it
            if heap:
                heads.append(heap[0])
            else:
                del self._heaps[group]
        if not heads:
            return None
        best_priority = _effective_priority(min(heads), now)
        candidates = [entry for entry in heads if _effective_priority(entry, now) == best_priority]
        return min(candidates, key=lambda entry: (self._last_served.get(self.group_of(entry.key), -1), entry))

    def _queue_due_delays(self) -> None:
        now = self.now()
        while (due_at := self.next_due_at) is not None and due_at <= now:
            _, _, key = heappop(self._delay_heap)
            self._add(key, self._delays.pop(key).priority, due_at)

    def _drop_outdated_delays(self) -> None:
        """Drop heap entries of ended delays, and outdated entries of shortened delays."""
        while self._delay_heap and (
            (delay := self._delays.get(self._delay_heap[0][2])) is None or delay.due_at != self._delay_heap[0][0]
        ):
            heappop(self._delay_heap)


def _effective_priority(entry: _Entry[K], now: float) -> int:
    """Return the priority of an entry. A low priority rises to `PRIORITY_CHANGE` as the entry ages."""
    return PRIORITY_CHANGE if entry.effective_time <= now else entry.priority
