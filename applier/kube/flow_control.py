"""How many requests are in flight, and how the server bears them."""

from __future__ import annotations

import asyncio
from itertools import takewhile

from renderer.frozen import dataclass

SLOW = 1.0
"""Seconds after which a request that is not answered, while others are, gives its slot away."""


@dataclass(slots=True)
class ServerLoad:
    """How the server bears what it is asked: `answers` that it gave in all, and refusals since the last one that was none. `asking` are the requests
    that are waited for, and `refused_since` the second of the event loop since which all were refused while there were any.
    """

    most: int
    answers: int = 0
    refusals: int = 0
    asking: int = 0
    refused_since: float | None = None

    def served(self) -> None:
        self.answers, self.refusals, self.refused_since = self.answers + 1, 0, None

    def refused(self) -> int:
        """One more. How often by now as many as there are slots were refused, one after the other."""
        self.refusals += 1
        if self.refused_since is None:
            self.refused_since = asyncio.get_running_loop().time()
        return self.refusals // (self.most + 1)

    @property
    def silence(self) -> float:
        """Seconds for which nobody has been served who asked."""
        return 0.0 if self.refused_since is None else asyncio.get_running_loop().time() - self.refused_since

    def begun(self) -> None:
        self.asking += 1

    def ended(self) -> None:
        self.asking -= 1
        if not self.asking:
            self.refused_since = None


class RequestSlots:
    """So many requests are in flight, and three times as many that take long while others are answered.

    `_taken` are the slots that are not lent to others, by age: one timer, for the oldest, does for all.
    """

    def __init__(self, most: int, load: ServerLoad) -> None:
        self.free, self.load = asyncio.Semaphore(most), load
        self.lendable = 3 * most
        self._taken: dict[Slot, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self) -> Slot:
        """One, to be ended by who has taken it."""
        await self.free.acquire()
        slot = Slot(self)
        self._look_after(slot)
        self._wait()
        return slot

    def end(self, slot: Slot) -> None:
        if slot not in self._taken:
            self.lendable += 1
            return
        del self._taken[slot]
        self.free.release()
        if self._timer and not self._taken:
            self._timer.cancel()
            self._timer = None

    def _look_after(self, slot: Slot) -> None:
        slot.since, slot.answers = asyncio.get_running_loop().time(), self.load.answers
        self._taken[slot] = None

    def _wait(self) -> None:
        if self._timer is None and self._taken:
            oldest = next(iter(self._taken))
            self._timer = asyncio.get_running_loop().call_at(oldest.since + SLOW, self._look)

    def _look(self) -> None:
        now, self._timer = asyncio.get_running_loop().time(), None
        for slot in list(takewhile(lambda slot: slot.since + SLOW <= now, self._taken)):
            del self._taken[slot]
            if slot.answers == self.load.answers or not self.lendable:
                self._look_after(slot)
            else:
                self.lendable -= 1
                self.free.release()
        self._wait()


@dataclass(slots=True, eq=False)
class Slot:
    """Of one request. It is lent, some time after `since` (seconds of the event loop), to others, if there were more than these `answers` since."""

    slots: RequestSlots
    since: float = 0.0
    answers: int = 0

    def end(self) -> None:
        self.slots.end(self)
