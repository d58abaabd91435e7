"""Watches that are kept: one for each subject that is wanted, begun again when it breaks. They carry hints, never facts.

What is decided rests on consistent reads alone (`applier.state.observed`); a watch only says that it is worth to
read again. So nothing is lost when one
breaks: that it has begun anew is a hint as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import field
from typing import Self

from applier.cluster import Cluster, WatchEvent, WatchTarget
from applier.errors import ClusterError
from renderer.frozen import dataclass

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before a watch that broke is begun again: the first time, and at most. Each that has not lasted for the latter doubles them: what begins
anew has everything looked at.
"""


@dataclass
class Watches:
    """Use with `async with`; no watch outlives it. `changed` hears of every change, `begun` of every watch that begins, `failed` of each that cannot,
    once for each reason.
    """

    cluster: Cluster
    changed: Callable[[WatchEvent], None]
    begun: Callable[[WatchTarget], None]
    failed: Callable[[WatchTarget, ClusterError], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _tasks: dict[WatchTarget, asyncio.Task[None]] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end(self._tasks.keys())

    async def want(self, subjects: Collection[WatchTarget]) -> None:
        """Watch these, and nothing else."""
        await self._end(self._tasks.keys() - set(subjects))
        for subject in sorted(set(subjects) - self._tasks.keys()):
            self._tasks[subject] = asyncio.create_task(self._follow(subject), name=f"watch {subject.kind}")

    async def _end(self, subjects: Collection[WatchTarget]) -> None:
        ended = [self._tasks.pop(subject) for subject in tuple(subjects)]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    async def _follow(self, subject: WatchTarget) -> None:
        wait, told, now = FIRST_WAIT, "", asyncio.get_running_loop().time
        while True:
            begun = now()
            try:
                async with self.cluster.watch(subject) as changes:
                    self.begun(subject)
                    told = ""
                    async for change in changes:
                        self.changed(change)
            except ClusterError as error:
                if str(error) != told:
                    self.failed(subject, error)
                    told = str(error)
            if now() - begun >= LONGEST_WAIT:
                wait = FIRST_WAIT
            await self.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
