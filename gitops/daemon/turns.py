"""Turns for full passes over many clusters. Only a few passes run at a time, so that each pass is fast.

A cluster that does not answer loses its turn, so that it delays no other cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

WHOLE_PASSES_AT_ONCE: Final = 4
"""Maximum number of full passes that hold a turn at the same time."""

SILENT_TURN_SECONDS: Final = 5.0
"""Seconds without a response of the cluster after which its pass loses the turn."""

LONGEST_TURN_SECONDS: Final = 30.0
"""Seconds after which every pass loses its turn, so that large clusters do not delay small ones."""


class Turns:
    """Turns, of which `limit` can be held at a time. A pass that loses its turn continues, but no longer counts."""

    def __init__(self, limit: int, silent_seconds: float, longest_seconds: float) -> None:
        self._free = asyncio.Semaphore(limit)
        self._silent_seconds = silent_seconds
        self._longest_seconds = longest_seconds

    @asynccontextmanager
    async def take(self, count_answers: Callable[[], int]) -> AsyncIterator[None]:
        """Wait for a turn and hold it for the block. `count_answers` returns the number of responses of the cluster."""
        await self._free.acquire()
        holder = asyncio.ensure_future(self._hold(count_answers))
        # Not in `_hold`: a task that is cancelled before its first step runs none of its code.
        holder.add_done_callback(lambda _: self._free.release())
        try:
            yield
        finally:
            holder.cancel()

    async def _hold(self, count_answers: Callable[[], int]) -> None:
        """Wait until the turn is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._longest_seconds):
                last_count = -1
                while (count := count_answers()) != last_count:
                    last_count = count
                    await asyncio.sleep(self._silent_seconds)
