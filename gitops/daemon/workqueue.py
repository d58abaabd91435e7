"""What is to be worked on next: client-go's queue with priorities, delays and backoff. It knows keys alone and waits for nothing.

A key is queued (`dirty` and not being worked on), being worked on, both (it runs once more after `done`), or neither. After every operation: what is
queued is dirty, nothing is queued that is being worked on, nothing is queued twice, and dirty is what is queued or asked for again meanwhile.

Whoever takes keys sleeps until `next_due`, or until `changed` is called. Times are seconds of one clock that never goes back.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import field
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

from gitops.errors import GitopsError
from renderer.frozen import dataclass

CHANGE: Final = 0
"""Something changed, drifted, or was asked for. No priority is higher."""

OPENING: Final = -50
"""A window opens."""

RESYNC: Final = -100
"""The first look at everything, and looks that nothing gave a reason for."""

BASE, CAP = 0.005, 1000.0
"""Seconds that a key waits after its first failure, and at most. Each failure doubles them; of the upper half chance takes a part."""

K = TypeVar("K", bound=Hashable)


class KeyNotProcessing(GitopsError):
    """`done` of a key that nobody works on: whoever calls it has lost count."""


@dataclass(order=True, slots=True)
class _Entry(Generic[K]):
    """A place in line, best first: by `since`, the time at which it counts as changed just now. A lower class than that of changes counts as having
    come later by one second for each step, which is aging.
    """

    since: float
    number: int
    key: K = field(compare=False)
    priority: int = field(compare=False)
    pushed: float = field(compare=False)


@dataclass(slots=True)
class _Delay:
    due: float
    priority: int


@dataclass
class WorkQueue(Generic[K]):
    """`group_of` says which keys share a fair share of the turns (the cluster); `changed` is called when a key can be taken, or will be sooner than
    before. For metrics: `len()` is its depth, `oldest` the seconds that the longest waiting key has waited.
    """

    group_of: Callable[[K], Hashable] = lambda _: None
    changed: Callable[[], None] = lambda: None
    now: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    closed: bool = False
    _queued: dict[K, _Entry[K]] = field(default_factory=dict)
    _lines: dict[Hashable, list[_Entry[K]]] = field(default_factory=dict)
    _served: dict[Hashable, int] = field(default_factory=dict)
    _again: dict[K, int] = field(default_factory=dict)
    _held: set[K] = field(default_factory=set)
    _delays: dict[K, _Delay] = field(default_factory=dict)
    _due: list[tuple[float, int, K]] = field(default_factory=list)
    _failures: dict[K, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def oldest(self) -> float:
        return max((self.now() - entry.pushed for entry in self._queued.values()), default=0.0)

    @property
    def held(self) -> frozenset[K]:
        """What is being worked on."""
        return frozenset(self._held)

    @property
    def dirty(self) -> frozenset[K]:
        return frozenset((*self._queued, *self._again))

    def add(self, key: K, priority: int = CHANGE) -> None:
        """It is to be worked on now. One entry however often it is asked for; the highest priority counts. Takes the place of a delay. Ignored
        once the queue is closed.
        """
        if self.closed:
            return
        if (delay := self._delays.pop(key, None)) is not None:
            priority = max(priority, delay.priority)
        self._add(key, priority, self.now())

    def add_after(self, key: K, seconds: float, priority: int = CHANGE) -> None:
        """The same after a while; the earlier of two delays counts, and nothing if it is to be worked on anyway."""
        if seconds <= 0:
            self.add(key, priority)
            return
        if self.closed:
            return
        if key in self._queued or key in self._again:
            self.add(key, priority)
            return
        known, due = self._delays.get(key), self.now() + seconds
        if known is not None:
            priority, due = max(priority, known.priority), min(due, known.due)
        self._delays[key] = _Delay(due, priority)
        if known is None or due < known.due:
            heappush(self._due, (due, next(self._numbers), key))
            self.changed()

    def add_rate_limited(self, key: K) -> None:
        """The same after it has failed: longer each time, until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        longest = min(BASE * 2.0 ** min(failures, 64), CAP)
        self.add_after(key, longest * (1 + self.chance()) / 2)

    def forget(self, key: K) -> None:
        """It has not failed, after all that happened."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def get(self) -> K | None:
        """What is to be worked on next, held from now on until `done`; None if nothing is due."""
        self._fall_due()
        entry = self._best()
        if entry is None:
            return None
        group = self.group_of(entry.key)
        heappop(self._lines[group])
        if not self._lines[group]:
            del self._lines[group]
        self._served[group] = next(self._numbers)
        del self._queued[entry.key]
        self._held.add(entry.key)
        return entry.key

    def done(self, key: K) -> None:
        """It has been worked on; what was asked for meanwhile goes to the end of its class. Raises NotHeld, and then nothing has changed."""
        if key not in self._held:
            raise KeyNotProcessing(f"{key} is not being worked on")
        self._held.remove(key)
        if key in self._again:
            self._push(key, self._again.pop(key), self.now())

    def close(self) -> None:
        """Nothing is accepted any more; what is queued is still handed out, what is delayed is not."""
        self.closed = True
        self._delays.clear()
        self._due.clear()
        self.changed()

    @property
    def next_due(self) -> float | None:
        """When something delayed falls due; None if nothing is delayed."""
        self._drop_outdated()
        return self._due[0][0] if self._due else None

    def _add(self, key: K, priority: int, since: float) -> None:
        if key in self._held:
            self._again[key] = max(priority, self._again.get(key, priority))
        elif (entry := self._queued.get(key)) is None:
            self._push(key, priority, since)
        elif priority > entry.priority:
            self._push(key, priority, since, waited_since=entry.pushed)

    def _push(self, key: K, priority: int, since: float, *, waited_since: float | None = None) -> None:
        pushed = since if waited_since is None else waited_since
        entry = _Entry(since - priority, next(self._numbers), key, priority, pushed)
        self._queued[key] = entry
        heappush(self._lines.setdefault(self.group_of(key), []), entry)
        self.changed()

    def _best(self) -> _Entry[K] | None:
        """The first in line; of several groups whose firsts are of one class that which had its last turn longest ago."""
        now, firsts = self.now(), []
        for group, line in tuple(self._lines.items()):
            while line and self._queued.get(line[0].key) is not line[0]:
                heappop(line)  # it went to a higher class
            if line:
                firsts.append(line[0])
            else:
                del self._lines[group]
        if not firsts:
            return None
        best = _class_of(min(firsts), now)
        equals = [entry for entry in firsts if _class_of(entry, now) == best]
        return min(equals, key=lambda entry: (self._served.get(self.group_of(entry.key), -1), entry))

    def _fall_due(self) -> None:
        now = self.now()
        self._drop_outdated()
        while self._due and self._due[0][0] <= now:
            due, _, key = heappop(self._due)
            self._add(key, self._delays.pop(key).priority, due)
            self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Of those that fell due earlier, or were asked for at once."""
        while self._due and ((delay := self._delays.get(self._due[0][2])) is None or delay.due != self._due[0][0]):
            heappop(self._due)


def _class_of(entry: _Entry[K], now: float) -> int:
    """The priority, unless it is a low one that has waited until it counts as a common one."""
    return CHANGE if entry.since <= now else entry.priority
