"""Pauses of long computations, in which other tasks of the event loop run."""

from __future__ import annotations

import asyncio
from contextlib import closing
from time import perf_counter
from typing import Any, Final

from gitops.queries import QueryGraph, Roots

MAX_HOLD: Final = 0.02
"""Seconds for which a computation may hold the event loop."""


async def settle(graph: QueryGraph, roots: Roots[Any, Any]) -> None:
    """Bring the roots up to date, with pauses in which other tasks run. Nobody may use the graph in a pause."""
    since = perf_counter()
    with closing(graph.refreshing(roots)) as steps:
        for _ in steps:
            if perf_counter() - since > MAX_HOLD:
                await asyncio.sleep(0)
                since = perf_counter()
