"""Watches that are kept: one for each subject that is wanted, begun again when it breaks. They carry hints, never facts.

What is decided rests on consistent reads alone (`applier.state.observed`); a watch only says that it is worth to
read again. So nothing is lost when one
breaks: that it has begun anew is a hint as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import field
from typing import Self

from applier.cluster import Cluster, WatchEvent, WatchTarget
from applier.errors import ClusterError
from renderer.frozen import dataclass

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
"""Seconds before a watch that broke is begun again: the first time, and at most. Each that has not lasted for the latter doubles them: what begins
anew has everything looked at.
"""


@dataclass
class Watches:
    """Use with `async with`; no watch outlives it. `changed` hears of every change, `begun` of every watch that begins, `failed` of each that cannot,
    once for each reason.
    """

    cluster: Cluster
    on_change: Callable[[WatchEvent], None]
    on_begin: Callable[[WatchTarget], None]
    on_failure: Callable[[WatchTarget, ClusterError], None]
    _tasks: dict[WatchTarget, asyncio.Task[None]] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop(self._tasks.keys())

    async def set_targets(self, subjects: Collection[WatchTarget]) -> None:
        """Watch these, and nothing else."""
        await self._stop(self._tasks.keys() - set(subjects))
        for subject in sorted(set(subjects) - self._tasks.keys()):
            self._tasks[subject] = asyncio.create_task(self._follow(subject), name=f"watch {subject.kind}")

    async def _stop(self, subjects: Collection[WatchTarget]) -> None:
        stopped_tasks = [self._tasks.pop(subject) for subject in tuple(subjects)]
        for task in stopped_tasks:
            task.cancel()
        await asyncio.gather(*stopped_tasks, return_exceptions=True)

    async def _follow(self, subject: WatchTarget) -> None:
        retry_seconds, reported_error, now = FIRST_RETRY_SECONDS, "", asyncio.get_running_loop().time
        while True:
            started_at = now()
            try:
                async with self.cluster.watch(subject) as changes:
                    self.on_begin(subject)
                    reported_error = ""
                    async for change in changes:
                        self.on_change(change)
            except ClusterError as error:
                if str(error) != reported_error:
                    self.on_failure(subject, error)
                    reported_error = str(error)
            if now() - started_at >= MAX_RETRY_SECONDS:
                retry_seconds = FIRST_RETRY_SECONDS
            await asyncio.sleep(retry_seconds)
            retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)
