"""Turns for what costs much and is done for many clusters: a few side by side, and nobody keeps one for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

WHOLE_PASSES_AT_ONCE: Final = 4
"""Whole passes over clusters side by side: all at once would make each as slow as all together."""

WHOLE_PASS_TURN_SECONDS: Final = 5.0
"""Seconds after which a pass gives its turn to the next one: it may wait for a cluster that does not answer."""


class Turns:
    """`limit` of them at a time; one that lasts longer than `max_seconds` goes on, but no longer counts."""

    def __init__(self, limit: int, max_seconds: float) -> None:
        self._free = asyncio.Semaphore(limit)
        self._max_seconds = max_seconds

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it for the block."""
        await self._free.acquire()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._max_seconds, end)
        try:
            yield
        finally:
            timer.cancel()
            end()
