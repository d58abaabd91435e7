"""Threads that ask Git: few at once for each server, so that one that hangs does not take all of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Final, ParamSpec, TypeVar

from gitops.source import Mirror

P = ParamSpec("P")
T = TypeVar("T")

MAX_THREADS_PER_SERVER: Final = 4
"""Questions at once."""


class GitServerLimits:
    """One to each server."""

    def __init__(self) -> None:
        self._semaphores = defaultdict[Hashable, asyncio.Semaphore](lambda: asyncio.Semaphore(MAX_THREADS_PER_SERVER))

    async def run(self, mirror: Mirror, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `act` answers, in a thread, once it is its turn at the server of this mirror."""
        async with self._semaphores[mirror.server]:
            return await asyncio.to_thread(function, *arguments, **named)
