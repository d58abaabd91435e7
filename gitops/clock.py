"""Time as a dependency: a reconciliation reads the time once, and tests provide their own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Clock that reconciliations read: the clock of the machine, of a test, or of a simulation."""

    def now(self) -> datetime:
        """Return the current time in UTC, as a `datetime` with a zone."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the current task for `seconds`."""


class SystemClock:
    """Clock of the machine, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def wait_for_any(*awaited: Coroutine[None, None, object]) -> None:
    """Run the coroutines `awaited` until the first ends, and cancel the others.

    Raises: the exception of the first coroutine, if it fails.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in awaited]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def run_together(*awaited: Coroutine[None, None, object]) -> None:
    """Run the coroutines `awaited` until all end. If a coroutine fails, cancel the others.

    Raises: the first exception.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in awaited]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
