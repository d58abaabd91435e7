"""How long the event loop stands still, and in which stage of the work.

While one task computes, no other gets on: watches, probes and answers of the API server wait. A task that sleeps for a
short while, and looks how much later than that it wakes up, measures this.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from math import inf
from typing import Final, NoReturn, Self

from renderer.frozen import dataclass

HUNG_SECONDS: Final = 60.0
"""Seconds after which an event loop that has not turned is given up."""

WARNING_SECONDS: Final = 1.0
"""Seconds from which on a hold of the event loop is worth a warning."""

TURN_SECONDS: Final = 0.05
"""Seconds between two looks; shorter holds are not seen."""

_MAX_ENDED_STAGES: Final = 200


@dataclass(slots=True)
class _Stage:
    name: str
    begin: float
    end: float = inf

    def overlap_seconds(self, begin: float, end: float) -> float:
        return max(0.0, min(self.end, end) - max(self.begin, begin))


@dataclass
class LoopWatch:
    """The holds of the event loop in which it is entered; use with `async with`.

    `on_hold` hears of each that lasts for `WARNING_SECONDS` or longer: its seconds, and the stage that it was in, empty
    where it was in none. `elapsed` is a clock in seconds that only goes forward.
    """

    on_hold: Callable[[float, str], None]
    elapsed: Callable[[], float] = time.monotonic
    longest_seconds: float = field(default=0.0, init=False)
    _last_turn: float = field(default=0.0, init=False)
    _stages: deque[_Stage] = field(default_factory=lambda: deque(maxlen=_MAX_ENDED_STAGES), init=False)
    _turning: asyncio.Task[NoReturn] = field(init=False)

    async def __aenter__(self) -> Self:
        self._last_turn = self.elapsed()
        self._turning = asyncio.create_task(self._turn_forever())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._turning.cancel()

    def is_turning(self) -> bool:
        """Return whether the loop has turned within `HUNG_SECONDS`; may be asked in another thread."""
        return self.elapsed() - self._last_turn < HUNG_SECONDS

    @contextmanager
    def stage(self, name: str, /, **_about: str) -> Iterator[None]:
        """See `gitops.instrumentation.Stage`."""
        entered = _Stage(name, self.elapsed())
        self._stages.append(entered)
        try:
            yield
        finally:
            entered.end = self.elapsed()

    async def _turn_forever(self) -> NoReturn:
        while True:
            await asyncio.sleep(TURN_SECONDS)
            self.turn()

    def turn(self) -> None:
        """Note that the loop turns now."""
        before, self._last_turn = self._last_turn, self.elapsed()
        held_seconds = self._last_turn - before - TURN_SECONDS
        self.longest_seconds = max(self.longest_seconds, held_seconds)
        if held_seconds >= WARNING_SECONDS:
            self.on_hold(held_seconds, self._stage_between(before, self._last_turn))

    def _stage_between(self, begin: float, end: float) -> str:
        """Return the innermost stage that lasted for most of this time: of those, the one that began last."""
        half = (end - begin) / 2
        long_stages = (stage.name for stage in reversed(self._stages) if stage.overlap_seconds(begin, end) >= half)
        return next(long_stages, "")
