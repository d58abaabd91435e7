"""Clocks of tests: one that stands still, one that steps, and the time of an event loop without waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from gitops.simulate.world import VirtualClock

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time costs nothing: where every task waits, it jumps to the next timer.

    Time begins at 0. Work for threads runs in place.
    """

    def __init__(self) -> None:
        self.passed = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.passed

    def run_in_executor(self, _executor: Any, func: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:  # type: ignore[override]
        found = self.create_future()
        try:
            found.set_result(func(*arguments))
        except Exception as error:
            found.set_exception(error)
        return found


@dataclass
class _Jumping(selectors.BaseSelector):
    loop: VirtualLoop
    _real: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "all wait, and nothing will ever happen"
        self.loop.passed += max(timeout, 0.0)
        return self._real.select(0)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


@dataclass
class LoopClock:
    """The time of a virtual loop, as a `gitops.clock.Clock`."""

    loop: VirtualLoop
    start: datetime

    @property
    def moment(self) -> datetime:
        return self.start + timedelta(seconds=self.loop.passed)

    def now(self) -> datetime:
        return self.moment

    def seconds(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


START = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""Friday noon in UTC, 13:00 in Berlin."""


@dataclass
class StillClock(VirtualClock):
    """A clock that stands still until a test moves `moment`."""

    moment: datetime = START


@dataclass
class StepClock(StillClock):
    """A clock that advances by a second with each look at it. A time that is written without need becomes visible."""

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment
