"""Long-lived watches, one for each wanted target, restarted when they break. They give hints, never facts.

Decisions are based on consistent reads alone (`applier.state.observed`); a watch only says that a new read is
worthwhile. So a broken watch loses nothing: its restart is a hint as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container
from dataclasses import field
from typing import Self

from applier.cluster import Cluster, WatchEvent, WatchTarget
from applier.errors import ClusterError, KindNotServed
from renderer.frozen import dataclass
from renderer.identity import GroupKind

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
"""Range of the seconds before a broken watch restarts. The wait doubles until a watch lasts for the maximum, since each
restart causes new reads.
"""

UNSERVED_RETRY_SECONDS = 30.0
"""Seconds before a watch of a kind that the cluster does not serve is tried again without a hint that it is served.

Each try asks discovery. A reconciliation that needs the kind asks as well, and its answer arrives by `set_targets`.
"""


@dataclass
class Watches:
    """Watches of one cluster, used with `async with`; all end with it.

    `on_change` receives every change, `on_begin` every watch that starts, and `on_failure` every watch that cannot,
    once for each error text.
    """

    cluster: Cluster
    on_change: Callable[[WatchEvent], None]
    on_begin: Callable[[WatchTarget], None]
    on_failure: Callable[[WatchTarget, ClusterError], None]
    _tasks: dict[WatchTarget, asyncio.Task[None]] = field(default_factory=dict)
    _unserved: dict[WatchTarget, asyncio.Event] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop(self._tasks.keys())

    async def set_targets(self, subjects: Collection[WatchTarget], served_kinds: Container[GroupKind]) -> None:
        """Watch these targets, and nothing else. A watch that waits for one of `served_kinds` begins at once."""
        await self._stop(self._tasks.keys() - set(subjects))
        for subject in sorted(set(subjects) - self._tasks.keys()):
            self._tasks[subject] = asyncio.create_task(self._follow(subject), name=f"watch {subject.kind}")
        for subject, is_served in self._unserved.items():
            if subject.kind in served_kinds:
                is_served.set()

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
                if isinstance(error, KindNotServed):
                    await self._wait_until_served(subject)
                    continue
            if now() - started_at >= MAX_RETRY_SECONDS:
                retry_seconds = FIRST_RETRY_SECONDS
            await asyncio.sleep(retry_seconds)
            retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)

    async def _wait_until_served(self, subject: WatchTarget) -> None:
        is_served = self._unserved[subject] = asyncio.Event()
        try:
            async with asyncio.timeout(UNSERVED_RETRY_SECONDS):
                await is_served.wait()
        except TimeoutError:
            pass
        finally:
            del self._unserved[subject]
