"""Time as an input: values that hold until a time, and the next time at which such a value may change."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any

from gitops.queries.nodes import ABSENT, Fault, Node

Fail = Callable[[Node, Exception], Fault]


class Moments:
    """Values of timed queries in a graph, ordered by the time at which they cease to hold."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._ends: dict[Node, datetime | None] = {}
        self._queue: list[tuple[datetime, int, Node]] = []
        self._numbers = count()

    @property
    def next_moment(self) -> datetime | None:
        queue = self._queue
        while queue and self._ends.get(queue[0][2]) != queue[0][0]:
            heapq.heappop(queue)  # The value was dropped or computed again since this entry was queued.
        return queue[0][0] if queue else None

    def next_of(self, family: object) -> datetime | None:
        """Return the earliest time at which a value of the timed query `family` ceases to hold, or None."""
        return min((end for node, end in self._ends.items() if end and node.family is family), default=None)

    def begin(self, node: Node, fail: Fail) -> tuple[Any, Fault | None]:
        """Compute the timed query of `node` for the first time, and return its value and its fault."""
        value, fault, end = self._compute(node, self.now, fail)
        self._schedule(node, end)
        return value, fault

    def end(self, node: Node) -> None:
        """Forget the timed query of `node`. If `node` has no timed query, do nothing."""
        self._ends.pop(node, None)

    def advance(self, now: datetime, fail: Fail) -> list[tuple[Node, Any, Fault | None]]:
        """Make `now` the present time, and return each changed node with its value and its fault.

        If the clock moves backwards, recompute all values, because a value holds only from its time of computation.
        """
        if now < self.now:
            due = list(self._ends)
        else:
            due = []
            while (moment := self.next_moment) is not None and moment <= now:
                due.append(heapq.heappop(self._queue)[2])
        self.now = now
        changes = []
        for node in due:
            value, fault, end = self._compute(node, now, fail)
            self._schedule(node, end)
            if fault is not None or node.fault is not None or not node.family.same(node.value, value):
                changes.append((node, value, fault))
        return changes

    def _compute(self, node: Node, now: datetime, fail: Fail) -> tuple[Any, Fault | None, datetime | None]:
        try:
            value, end = node.family.function(now, *node.args)  # type: ignore[attr-defined]
            if end is not None and end <= now:
                raise ValueError(f"the value ends at {end}, which is not after {now}; return a later end")
        except Exception as error:
            return ABSENT, fail(node, error), None
        return value, None, end

    def _schedule(self, node: Node, end: datetime | None) -> None:
        self._ends[node] = end
        if end is not None:
            heapq.heappush(self._queue, (end, next(self._numbers), node))
