"""Bring notifications to their receivers, apart from passes: each receiver has a bounded queue and a worker of its own.

Nothing waits for a receiver: where its queue is full the oldest goes, and that is told. What is queued when the process ends is lost; a transition is
told by the process that wrote the record, so none is told twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from gitops.clock import Clock
from gitops.notifications.receivers import Receiver, Request
from gitops.records.transitions import Transition

LONGEST_QUEUE: Final = 200
ATTEMPTS: Final = 6
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
_TIMEOUT: Final = 10.0
_AGAIN: Final = frozenset({408, 425, 429})


class Answer(NamedTuple):
    """How a receiver answered: an HTTP status, 0 for none at all, and in how many seconds it wants to be asked again (None: it did not say)."""

    status: int
    retry_after: float | None = None
    why: str = ""


Post = Callable[[Request], Awaitable[Answer]]


@dataclass
class _Line:
    """What waits for one receiver."""

    receiver: Receiver
    waiting: deque[tuple[Transition, datetime]] = field(default_factory=deque)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    told: str = ""


@dataclass
class Delivery:
    """Tells `cluster`'s transitions. `notice` hears of what could not be brought, once for each reason; no secret and no URL is in it."""

    cluster: str
    clock: Clock
    notice: Callable[[str, str], None]
    post: Post | None = None
    _lines: dict[str, _Line] = field(default_factory=dict)

    def configure(self, receivers: Iterable[Receiver]) -> None:
        """Tell these from now on. What waits for one that is as before stays."""
        wanted = {one.name: one for one in receivers}
        for name in [name for name, line in self._lines.items() if wanted.get(name) != line.receiver]:
            self._end(self._lines.pop(name))
        for name in wanted.keys() - self._lines.keys():
            line = self._lines[name] = _Line(wanted[name])
            line.task = asyncio.create_task(self._work(line), name=f"notify {name}")

    def take(self, transitions: Sequence[Transition]) -> None:
        """Queue these for whom they concern; returns at once."""
        now = self.clock.now()
        for line in self._lines.values():
            for one in transitions:
                if line.receiver.wants(one):
                    if len(line.waiting) == LONGEST_QUEUE:
                        line.waiting.popleft()
                        self._tell(line, f"more than {LONGEST_QUEUE} messages wait; the oldest are dropped")
                    line.waiting.append((one, now))
                    line.woken.set()

    def close(self) -> None:
        while self._lines:
            self._end(self._lines.popitem()[1])

    def _end(self, line: _Line) -> None:
        if line.task:
            line.task.cancel()

    async def _work(self, line: _Line) -> None:
        while True:
            await line.woken.wait()
            line.woken.clear()
            while line.waiting:
                await self._bring(line, *line.waiting.popleft())

    async def _bring(self, line: _Line, one: Transition, at: datetime) -> None:
        wait = FIRST_WAIT
        for attempt in range(1, ATTEMPTS + 1):
            answer = await self._asked(line, one, at)
            if 200 <= answer.status < 300:
                line.told = ""
                return
            is_put_off = (
                answer.status in _AGAIN or answer.retry_after is not None
            )  # GitHub says 403 for its second limit
            if answer.status and answer.status < 500 and not is_put_off:
                break
            if attempt < ATTEMPTS:
                await self.clock.sleep(
                    min(answer.retry_after if answer.retry_after is not None else wait, LONGEST_WAIT)
                )
                wait = min(2 * wait, LONGEST_WAIT)
        self._tell(line, f"not told: {answer.why or f'it answered with status {answer.status}'}")

    async def _asked(self, line: _Line, one: Transition, at: datetime) -> Answer:
        try:
            request = line.receiver.request(one, self.cluster, at)
        except (OSError, UnicodeDecodeError) as error:
            return Answer(0, why=f"the file of its secret cannot be read ({type(error).__name__})")
        return await (self.post or post)(request)

    def _tell(self, line: _Line, text: str) -> None:
        if line.told != text:
            line.told = text
            self.notice("notifications", f"{line.receiver.name}: {text}")


async def post(request: Request) -> Answer:
    """Send it; redirects are not followed, and what is answered is not read."""
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT)) as session,
            session.post(request.url, data=request.body, headers=request.headers, allow_redirects=False) as response,
        ):
            return Answer(response.status, _seconds(response.headers.get("Retry-After", "")))
    except TimeoutError:
        return Answer(0, why=f"no answer within {_TIMEOUT:g}s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Answer(0, why=f"the connection failed ({type(error).__name__})")


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() and len(text) < 8 else None
