"""Who works on what, when: keys from the queue, side by side, and a pass over everything alone.

Invariant: a key is never worked on twice at once, and nothing else is while everything is. So deletions, which whole passes alone decide, and grants,
which these or the one key of rollouts do, are decided by one at a time, and need no lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final, NamedTuple

from applier.cluster import ClusterName
from applier.read.observe import FEW
from gitops.daemon.workqueue import WorkQueue
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


class WorkKind(StrEnum):
    """A pass over everything, which serves all sources and definitions; one over an object of a source; what rollouts let move because of such
    passes; the records that these leave behind.
    """

    EVERYTHING = "everything"
    PART = "part"
    ROLLOUTS = "rollouts"
    RECORDS = "records"


class QueueKey(NamedTuple):
    """What is worked on: in which cluster, how, and on which object of a source."""

    cluster: ClusterName
    work: WorkKind
    root: ObjectKey | None = None


ALONE: Final = frozenset({WorkKind.EVERYTHING, WorkKind.RECORDS})


@dataclass
class Workers:
    """At most `limit` at once; each takes up to FEW objects that are due, since one pass over them costs little more than one over one.

    `work` does it and never fails but for good; `finished` hears when a worker is free again.
    """

    queue: WorkQueue[QueueKey]
    work: Callable[[Sequence[QueueKey]], Awaitable[None]]
    finished: Callable[[], None]
    limit: int = 1
    _running: dict[asyncio.Task[None], WorkKind] = field(default_factory=dict)
    _next: QueueKey | None = None

    def start(self) -> None:
        """Give out what is due, as far as there is room. Raises what has failed for good."""
        for task in [one for one in self._running if one.done()]:
            del self._running[task]
            task.result()
        while len(self._running) < self.limit and ALONE.isdisjoint(self._running.values()) and (keys := self._take()):
            work = keys[0].work
            self._running[asyncio.create_task(self._run(keys), name=f"work on {work}")] = work

    async def end(self, seconds: float) -> None:
        """Until what is under way is done, at most so long; then it is broken off. Raises what has failed for good."""
        if self._running:
            done, _ = await asyncio.wait(self._running, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        await self.cancel()

    async def idle(self) -> None:
        """Until what is under way now is over; others may have begun meanwhile."""
        if self._running:
            await asyncio.wait(set(self._running))

    async def cancel(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _take(self) -> list[QueueKey]:
        """What one worker takes; nothing if it has to wait for the others."""
        found: list[QueueKey] = []
        while len(found) < FEW and (key := self._next or self.queue.get()):
            self._next = None
            if key.work in ALONE:
                if found or self._running:
                    self._next = key
                    return found
                return [key]
            if found and key.work != found[0].work:
                self._next = key
                return found
            found.append(key)
        return found

    async def _run(self, keys: Sequence[QueueKey]) -> None:
        try:
            await self.work(keys)
        finally:
            for key in keys:
                self.queue.done(key)
            self.finished()
