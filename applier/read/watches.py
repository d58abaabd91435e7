"""Watches of the API server, one for each wanted target, which report when a new read is worthwhile.

A watch event is only a hint. Levelgate bases every decision on a consistent read (`applier.state.observed`), never on
the content of an event. So a broken watch loses no information. The process restarts the watch, and the restart is also
a hint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Container
from dataclasses import field
from typing import Final, Self

from applier.cluster import Cluster, WatchEvent, WatchTarget
from applier.errors import ClusterError, KindNotServed
from renderer.frozen import dataclass
from renderer.identity import GroupKind

_log: Final = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
"""Shortest and longest wait, in seconds, before a broken watch restarts. Each restart causes new reads, so the wait
doubles each time. If a watch has lasted for `MAX_RETRY_SECONDS`, the next wait is the shortest wait again.
"""

UNSERVED_RETRY_SECONDS = 30.0
"""Seconds between two attempts to watch a kind that the cluster does not serve.

Each attempt asks the cluster for the served kinds. If a reconciliation learns earlier that the server serves the kind,
`set_targets` starts the watch at once.
"""


@dataclass
class Watches:
    """Watches of a cluster, for use with `async with`. When the block ends, all watches end."""

    cluster: Cluster
    on_change: Callable[[WatchEvent], None]
    """Function that receives every event of every watch."""
    on_begin: Callable[[WatchTarget], None]
    """Function that receives the target of each watch that starts or restarts."""
    on_failure: Callable[[WatchTarget, ClusterError], None]
    """Function that receives the target and the error of each watch that cannot start or that breaks. Until the watch
    starts again, the function does not receive the same error a second time.
    """
    _tasks: dict[WatchTarget, asyncio.Task[None]] = field(default_factory=dict)
    _unserved: dict[WatchTarget, asyncio.Event] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop(self._tasks.keys())

    async def set_targets(self, targets: Collection[WatchTarget], served_kinds: Container[GroupKind]) -> None:
        """Watch exactly the targets in `targets`: start missing watches, and stop all others.

        If a watch waits for its kind, and the kind is now in `served_kinds`, start the watch at once.
        """
        await self._stop(self._tasks.keys() - set(targets))
        for target in sorted(set(targets) - self._tasks.keys()):
            self._tasks[target] = asyncio.create_task(self._follow(target), name=f"watch {target.kind}")
        for target, is_served in self._unserved.items():
            if target.kind in served_kinds:
                is_served.set()

    async def _stop(self, targets: Collection[WatchTarget]) -> None:
        stopped_tasks = [self._tasks.pop(target) for target in tuple(targets)]
        for task in stopped_tasks:
            task.cancel()
        await asyncio.gather(*stopped_tasks, return_exceptions=True)

    async def _follow(self, target: WatchTarget) -> None:
        retry_seconds, reported_error, now = FIRST_RETRY_SECONDS, "", asyncio.get_running_loop().time
        while True:
            started_at = now()
            try:
                async with self.cluster.watch(target) as changes:
                    self.on_begin(target)
                    reported_error = ""
                    async for change in changes:
                        self.on_change(change)
            except ClusterError as error:
                if str(error) != reported_error:
                    self.on_failure(target, error)
                    reported_error = str(error)
                if isinstance(error, KindNotServed):
                    await self._wait_until_served(target)
                    continue
            except Exception:  # a fault in a callback must not end the watch: later changes would go unseen
                _log.exception("watch of %s failed and will restart", target.kind)
            if now() - started_at >= MAX_RETRY_SECONDS:
                retry_seconds = FIRST_RETRY_SECONDS
            await asyncio.sleep(retry_seconds)
            retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)

    async def _wait_until_served(self, target: WatchTarget) -> None:
        is_served = self._unserved[target] = asyncio.Event()
        try:
            async with asyncio.timeout(UNSERVED_RETRY_SECONDS):
                await is_served.wait()
        except TimeoutError:
            pass
        finally:
            del self._unserved[target]
