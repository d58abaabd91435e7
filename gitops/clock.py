"""Time, injected: a pass takes `now` once, and tests bring their own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time now, UTC, with a zone."""

    async def sleep(self, seconds: float) -> None:
        """Give way for so long."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def wait_for_any(*awaited: Coroutine[None, None, object]) -> None:
    """Until one of these is over; the others are cancelled. Raises what that one raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in awaited]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def run_together(*awaited: Coroutine[None, None, object]) -> None:
    """Wait until all of these are over. Raises what the first that fails has raised; the others are cancelled."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in awaited]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
