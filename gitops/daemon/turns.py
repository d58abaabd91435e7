"""Turns for full reconciliations of many clusters. Only a few run at the same time, so that each run is fast.

If a cluster does not answer, its reconciliation loses the turn, so that the cluster delays no other cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

WHOLE_PASSES_AT_ONCE: Final = 4
"""Maximum number of full reconciliations that hold a turn at the same time."""

SILENT_TURN_SECONDS: Final = 5.0
"""Seconds without a response from the cluster after which its reconciliation loses the turn."""

LONGEST_TURN_SECONDS: Final = 30.0
"""Longest duration of a turn in seconds, so that large clusters do not delay small clusters."""


class Turns:
    """Turns, at most `limit` at the same time. A reconciliation that loses its turn continues, but no longer counts."""

    def __init__(self, limit: int, silent_seconds: float, longest_seconds: float) -> None:
        self._free = asyncio.Semaphore(limit)
        self._silent_seconds = silent_seconds
        self._longest_seconds = longest_seconds

    @asynccontextmanager
    async def take(self, count_answers: Callable[[], int]) -> AsyncIterator[None]:
        """Wait for a turn, and hold the turn during the block.

        Args:
            count_answers: function that returns the number of responses of the cluster.
        """
        await self._free.acquire()
        holder = asyncio.ensure_future(self._hold(count_answers))
        # A callback releases the turn, because a task that is cancelled before its first step runs no `finally`.
        holder.add_done_callback(lambda _: self._free.release())
        try:
            yield
        finally:
            holder.cancel()

    async def _hold(self, count_answers: Callable[[], int]) -> None:
        """Wait until the turn ends, because the cluster is silent or the turn has reached its longest duration."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._longest_seconds):
                last_count = -1
                while (count := count_answers()) != last_count:
                    last_count = count
                    await asyncio.sleep(self._silent_seconds)
