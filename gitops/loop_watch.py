"""Measurement of how long one task blocks the event loop, and in which stage of the work.

While a task computes, no other task runs: watches, probes and responses of the API server wait. To measure the wait, a
task sleeps for a short time and records how late it wakes up.
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
"""Seconds without a turn after which the event loop counts as hung."""

WARNING_SECONDS: Final = 1.0
"""Seconds for which a task must block the event loop to cause a warning."""

TURN_SECONDS: Final = 0.05
"""Seconds between two measurements. The watch does not see a shorter block."""

_MAX_ENDED_STAGES: Final = 200


@dataclass(slots=True)
class _Stage:
    """A stage of the work, with the times of its start and end in seconds."""

    name: str
    begin: float
    end: float = inf

    def overlap_seconds(self, begin: float, end: float) -> float:
        """Return the seconds of the stage between `begin` and `end`."""
        return max(0.0, min(self.end, end) - max(self.begin, begin))


@dataclass
class LoopWatch:
    """Watch of the running event loop for the duration of an `async with` block."""

    on_hold: Callable[[float, str], None]
    """Function that receives each block of the loop that lasts `WARNING_SECONDS` or more, as (seconds, stage).

    If the block belongs to no stage, the stage is an empty string.
    """
    elapsed: Callable[[], float] = time.monotonic
    """Monotonic clock in seconds."""
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
        """Return whether the loop has turned within `HUNG_SECONDS`. Any thread may call this method."""
        return self.elapsed() - self._last_turn < HUNG_SECONDS

    @contextmanager
    def stage(self, name: str, /, **_about: str) -> Iterator[None]:
        """Record the start and the end of a stage (see `gitops.instrumentation.Stage`)."""
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
        """Record that the loop turns now."""
        before, self._last_turn = self._last_turn, self.elapsed()
        held_seconds = self._last_turn - before - TURN_SECONDS
        self.longest_seconds = max(self.longest_seconds, held_seconds)
        if held_seconds >= WARNING_SECONDS:
            self.on_hold(held_seconds, self._stage_between(before, self._last_turn))

    def _stage_between(self, begin: float, end: float) -> str:
        """Return the innermost stage that covers at least half of the time from `begin` to `end`.

        If no stage covers half of the time, return an empty string.
        """
        half = (end - begin) / 2
        long_stages = (stage.name for stage in reversed(self._stages) if stage.overlap_seconds(begin, end) >= half)
        return next(long_stages, "")
