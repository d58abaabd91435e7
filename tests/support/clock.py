"""An event loop whose time costs nothing: where all wait, it jumps to the next timer. What would run in threads runs in place."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its `time` begins at 0."""

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
class VirtualClock:
    """The time of a loop, as a `gitops.clock.Clock`."""

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
