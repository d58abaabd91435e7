"""A set of keys in an order of its own, cheap to change while it is large."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

_P = TypeVar("_P", bound=tuple[Any, ...])


class SortedKeys(Generic[_P]):
    """A set of keys, each with a place whose last part is the key, in the order of the places. Adding and removing cost a logarithm, reading the
    first k costs k logarithms. A removed place stays in the heap until it comes to the top; no place is in it twice.
    """

    def __init__(self) -> None:
        self._heap: list[_P] = []
        self._queued: set[_P] = set()
        self._members: dict[str, _P] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[_P]:
        """As far as it is asked for: a walk from the root of the heap that always takes the least of what it has reached."""
        reached = [(self._heap[0], 0)] if self._heap else []
        while reached:
            sort_key, index = heappop(reached)
            if self._members.get(sort_key[-1]) == sort_key:
                yield sort_key
            for child in (2 * index + 1, 2 * index + 2):
                if child < len(self._heap):
                    heappush(reached, (self._heap[child], child))

    def add(self, sort_key: _P) -> None:
        self._members[sort_key[-1]] = sort_key
        if sort_key not in self._queued:
            self._queued.add(sort_key)
            heappush(self._heap, sort_key)

    def discard(self, key: str) -> None:
        self._members.pop(key, None)
        while self._heap and self._members.get(self._heap[0][-1]) != self._heap[0]:
            self._queued.discard(heappop(self._heap))
