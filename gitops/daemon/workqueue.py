"""What is to be worked on next: client-go's queue with priorities, delays and backoff. It knows keys alone and waits for nothing.

A key is queued (`dirty` and not being worked on), being worked on, both (it runs once more after `done`), or neither. After every operation: what is
queued is dirty, nothing is queued that is being worked on, nothing is queued twice, and dirty is what is queued or asked for again meanwhile.

Whoever takes keys sleeps until `next_due_at`, or until `changed` is called. Times are seconds of one clock that never goes back.
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
"""Something changed, drifted, or was asked for. No priority is higher."""

PRIORITY_WINDOW: Final = -50
"""A window opens."""

PRIORITY_RESYNC: Final = -100
"""The first look at everything, and looks that nothing gave a reason for."""

MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.005, 1000.0
"""Seconds that a key waits after its first failure, and at most. Each failure doubles them; of the upper half chance takes a part."""

K = TypeVar("K", bound=Hashable)


class KeyNotProcessing(GitopsError):
    """`done` of a key that nobody works on: whoever calls it has lost count."""


@dataclass(order=True, slots=True)
class _Entry(Generic[K]):
    """A place in line, best first: by `since`, the time at which it counts as changed just now. A lower class than that of changes counts as having
    come later by one second for each step, which is aging.
    """

    effective_time: float
    sequence: int
    key: K = field(compare=False)
    priority: int = field(compare=False)
    queued_at: float = field(compare=False)


@dataclass(slots=True)
class _Delay:
    due_at: float
    priority: int


@dataclass
class WorkQueue(Generic[K]):
    """`group_of` says which keys share a fair share of the turns (the cluster); `changed` is called when a key can be taken, or will be sooner than
    before. For metrics: `len()` is its depth, `oldest` the seconds that the longest waiting key has waited.
    """

    group_of: Callable[[K], Hashable]
    on_change: Callable[[], None]
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
        return max((self.now() - entry.queued_at for entry in self._queued.values()), default=0.0)

    @property
    def processing(self) -> frozenset[K]:
        """What is being worked on."""
        return frozenset(self._processing)

    @property
    def dirty(self) -> frozenset[K]:
        return frozenset((*self._queued, *self._dirty_while_processing))

    def add(self, key: K, priority: int = PRIORITY_CHANGE) -> None:
        """It is to be worked on now. One entry however often it is asked for; the highest priority counts. Takes the place of a delay. Ignored
        once the queue is closed.
        """
        if self.closed:
            return
        if (delay := self._delays.pop(key, None)) is not None:
            priority = max(priority, delay.priority)
        self._add(key, priority, self.now())

    def add_after(self, key: K, seconds: float, priority: int = PRIORITY_CHANGE) -> None:
        """The same after a while; the earlier of two delays counts, and nothing if it is to be worked on anyway."""
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
        """The same after it has failed: longer each time, until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        max_delay_seconds = exponential_backoff(failures, MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        self.add_after(key, max_delay_seconds * (1 + self.random_fraction()) / 2)

    def forget(self, key: K) -> None:
        """It has not failed, after all that happened."""
        self._failures.pop(key, None)

    def failure_count(self, key: K) -> int:
        return self._failures.get(key, 0)

    def get(self) -> K | None:
        """What is to be worked on next, held from now on until `done`; None if nothing is due."""
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
        """It has been worked on; what was asked for meanwhile goes to the end of its class. Raises KeyNotProcessing, and then nothing has changed."""
        if key not in self._processing:
            raise KeyNotProcessing(f"{key} is not being worked on")
        self._processing.remove(key)
        if key in self._dirty_while_processing:
            self._add(key, self._dirty_while_processing.pop(key), self.now())

    def close(self) -> None:
        """Nothing is accepted any more; what is queued is still handed out, what is delayed is not."""
        self.closed = True
        self._delays.clear()
        self._delay_heap.clear()
        self.on_change()

    @property
    def next_due_at(self) -> float | None:
        """When something delayed falls due; None if nothing is delayed."""
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
        """The first in line; of several groups whose firsts are of one class that which had its last turn longest ago."""
        now, heads = self.now(), []
        for group, heap in tuple(self._heaps.items()):
            while heap and self._queued.get(heap[0].key) is not heap[0]:
                heappop(heap)  # it went to a higher class
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
        """Of those that fell due earlier, or were asked for at once."""
        while self._delay_heap and (
            (delay := self._delays.get(self._delay_heap[0][2])) is None or delay.due_at != self._delay_heap[0][0]
        ):
            heappop(self._delay_heap)


def _effective_priority(entry: _Entry[K], now: float) -> int:
    """The priority, unless it is a low one that has waited until it counts as a common one."""
    return PRIORITY_CHANGE if entry.effective_time <= now else entry.priority
