"""Flow control of one client: slots for requests in flight, a request rate, and the load of the server."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import takewhile

from applier.token_bucket import Rate, TokenBucket
from renderer.frozen import dataclass

SLOW_AFTER_SECONDS = 1.0
"""Seconds after which an unanswered request lends its slot, provided that the server answers other requests."""


@dataclass(slots=True)
class ServerLoad:
    """Signs that the server is overloaded."""

    max_requests: int
    answers: int = 0
    """Number of successful requests."""
    refusals: int = 0
    """Number of refusals since the last success."""
    waiting_requests: int = 0
    """Number of requests without a final answer."""
    refused_since: float | None = None
    """Start of the period in which the server refuses all waiting requests, in seconds of the event loop, or None."""

    def record_success(self) -> None:
        self.answers, self.refusals, self.refused_since = self.answers + 1, 0, None

    def record_refusal(self) -> int:
        """Count a refusal, and return the number of complete rounds of refusals since the last success.

        A round has one more refusal than there are slots.
        """
        self.refusals += 1
        if self.refused_since is None:
            self.refused_since = asyncio.get_running_loop().time()
        return self.refusals // (self.max_requests + 1)

    @property
    def refused_seconds(self) -> float:
        """Return the seconds for which the server has refused every request."""
        return 0.0 if self.refused_since is None else asyncio.get_running_loop().time() - self.refused_since

    def begin_request(self) -> None:
        self.waiting_requests += 1

    def end_request(self) -> None:
        self.waiting_requests -= 1
        if not self.waiting_requests:
            self.refused_since = None


class RequestSlots:
    """Slots that limit requests in flight to `max_requests`, plus three times as many slow requests.

    `_taken` contains the slots that are not lent, the oldest first. A single timer, for the oldest slot, serves all
    slots.
    """

    def __init__(self, max_requests: int, load: ServerLoad) -> None:
        self.free, self.load = asyncio.Semaphore(max_requests), load
        self.lendable = 3 * max_requests
        self._taken: dict[Slot, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self) -> Slot:
        """Wait for a slot, and return the slot. The caller has to release the slot."""
        await self.free.acquire()
        slot = Slot(self)
        self._track(slot)
        self._schedule_check()
        return slot

    def release(self, slot: Slot) -> None:
        if slot not in self._taken:
            self.lendable += 1
            return
        del self._taken[slot]
        self.free.release()
        if self._timer and not self._taken:
            self._timer.cancel()
            self._timer = None

    def _track(self, slot: Slot) -> None:
        slot.taken_at, slot.answers = asyncio.get_running_loop().time(), self.load.answers
        self._taken[slot] = None

    def _schedule_check(self) -> None:
        if self._timer is None and self._taken:
            oldest = next(iter(self._taken))
            self._timer = asyncio.get_running_loop().call_at(
                oldest.taken_at + SLOW_AFTER_SECONDS, self._lend_slow_slots
            )

    def _lend_slow_slots(self) -> None:
        now, self._timer = asyncio.get_running_loop().time(), None
        for slot in list(takewhile(lambda slot: slot.taken_at + SLOW_AFTER_SECONDS <= now, self._taken)):
            del self._taken[slot]
            if slot.answers == self.load.answers or not self.lendable:
                self._track(slot)
            else:
                self.lendable -= 1
                self.free.release()
        self._schedule_check()


@dataclass(slots=True, eq=False)
class Slot:
    """Slot of one request.

    If the server has meanwhile answered another request, a waiting request may use the slot after `SLOW_AFTER_SECONDS`.
    """

    slots: RequestSlots
    taken_at: float = 0.0
    """Time at which the request took the slot, in seconds of the event loop."""
    answers: int = 0
    """Number of successful requests at `taken_at`, to detect later successes."""

    def release(self) -> None:
        self.slots.release(self)


class RequestPace:
    """Queue that sends requests at a rate, in the order of arrival.

    Urgent requests (watches, probes) precede all others. `delayed` counts the requests that had to wait. Times are in
    seconds of the event loop.
    """

    def __init__(self, rate: Rate) -> None:
        self.delayed = 0
        self._bucket = TokenBucket(rate)
        self._urgent, self._others = deque[asyncio.Future[None]](), deque[asyncio.Future[None]]()
        self._timer: asyncio.TimerHandle | None = None

    async def take_turn(self, *, is_urgent: bool) -> None:
        """Wait until the caller may send the request.

        If the caller cancels a waiting request, its turn stays unused. So the server gets fewer requests, never more.
        """
        loop = asyncio.get_running_loop()
        if self._timer is None and self._bucket.next_at <= loop.time():
            self._bucket = self._bucket.take(loop.time())
            return
        self.delayed += 1
        turn: asyncio.Future[None] = loop.create_future()
        (self._urgent if is_urgent else self._others).append(turn)
        if self._timer is None:
            self._timer = loop.call_at(self._bucket.next_at, self._give_turn)
        await turn

    def _give_turn(self) -> None:
        """Wake the next request, and schedule the request after that."""
        loop, self._timer = asyncio.get_running_loop(), None
        if (turn := self._pop_waiting()) is None:
            return
        # If a timer fires early, by the resolution of the clock, the planned time counts.
        self._bucket = self._bucket.take(max(loop.time(), self._bucket.next_at))
        turn.set_result(None)
        self._timer = loop.call_at(self._bucket.next_at, self._give_turn)

    def _pop_waiting(self) -> asyncio.Future[None] | None:
        """Return the first request that still waits, or None if the queue is empty."""
        for waiting in (self._urgent, self._others):
            while waiting:
                if not (turn := waiting.popleft()).done():
                    return turn
        return None
