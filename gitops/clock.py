"""Time as a dependency: a reconciliation reads `now` once, and tests provide a clock of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """Return the current time in UTC, with a zone."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the task for this time."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def wait_for_any(*awaited: Coroutine[None, None, object]) -> None:
    """Run all until the first ends, and cancel the others. Raises: the exception of that one."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in awaited]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def run_together(*awaited: Coroutine[None, None, object]) -> None:
    """Run all until all have ended. Raises: the first exception, after cancelling the others."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in awaited]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
