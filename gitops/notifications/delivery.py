"""Bring notifications to their receivers, apart from passes: each receiver has a bounded queue and a worker of its own.

No pass waits for a receiver. One that cannot be reached is asked again, in order, until a message is older than `LASTS`; one message that it does not
take while it takes others is given up, and so is one at which this program fails. What is lost is counted, and told. A transition is told by the
process that wrote the record, so none is told twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from itertools import count
from typing import Final, NamedTuple

from applier.proxy import proxy_of
from gitops.clock import Clock
from gitops.notifications.messages import Message, grouped
from gitops.notifications.receivers import OutgoingRequest, Receiver
from gitops.records.transitions import Transition
from renderer.frozen import dataclass
from renderer.phrasing import counted

_log = logging.getLogger(__name__)

LONGEST_QUEUE: Final = 200
LASTS: Final = timedelta(hours=1)
ATTEMPTS: Final = 6
"""After so many the log says that it fails, and whether it takes the next message is tried."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
_TIMEOUT: Final = 10.0
_AGAIN: Final = frozenset({408, 425, 429})
_HOURS: Final = f"{LASTS.total_seconds() / 3600:g}h"


class DeliveryAnswer(NamedTuple):
    """How a receiver answered: an HTTP status, 0 for none at all, and in how many seconds it wants to be asked again (None: it did not say)."""

    status: int
    retry_after: float | None = None
    why: str = ""

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_worth_another(self) -> bool:
        """GitHub says 403 with a time for its second limit."""
        return not self.status or self.status >= 500 or self.status in _AGAIN or self.retry_after is not None

    @property
    def text(self) -> str:
        return self.why or f"it answered with status {self.status}"


Post = Callable[[OutgoingRequest], Awaitable[DeliveryAnswer]]


@dataclass
class _Line:
    """What waits for one receiver."""

    receiver: Receiver
    waiting: deque[tuple[Message, datetime]] = field(default_factory=deque)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    told: str = ""
    lost: int = 0
    busy: bool = False


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
            for message in grouped(filter(line.receiver.wants, transitions)):
                self._queue(line, message, now)

    def _queue(self, line: _Line, message: Message, now: datetime) -> None:
        """What waits behind others takes up what is alike; the first in the queue may be on its way."""
        if len(line.waiting) > 1 and (joined := line.waiting[-1][0].joined(message)):
            line.waiting[-1] = joined, line.waiting[-1][1]
            return
        if len(line.waiting) >= LONGEST_QUEUE:
            line.waiting.popleft()
            self._lose(line, f"more than {LONGEST_QUEUE} messages wait; the oldest are dropped")
        line.waiting.append((message, now))
        line.woken.set()
        line.idle.clear()

    async def finish(self, patience: float) -> None:
        """Wait, so many seconds at most, until all is brought; then end, and say what is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await asyncio.gather(*(line.idle.wait() for line in self._lines.values()))
        for line in self._lines.values():
            if left := len(line.waiting) + line.busy:
                self.notice(
                    "notifications", f"{line.receiver.name}: the process ends, {counted(left, 'message')} not told"
                )
        self.close()

    def close(self) -> None:
        while self._lines:
            self._end(self._lines.popitem()[1])

    def _end(self, line: _Line) -> None:
        if line.task:
            line.task.cancel()

    async def _work(self, line: _Line) -> None:
        while True:
            while line.waiting:
                line.busy = True
                try:
                    await self._bring(line, *line.waiting.popleft())
                except Exception as error:
                    _log.exception("a notification to %s failed", line.receiver.name)
                    self._lose(line, f"not told, by a fault of Levelgate ({type(error).__name__})")
                line.busy = False
            line.idle.set()
            line.woken.clear()
            await line.woken.wait()

    async def _bring(self, line: _Line, one: Message, at: datetime) -> None:
        wait = FIRST_WAIT
        for attempt in count(1):
            answer = await self._asked(line, one, at)
            if answer.is_taken:
                self._taken(line)
                return
            if not answer.is_worth_another or self.clock.now() - at >= LASTS:
                break
            if attempt >= ATTEMPTS:
                self._tell(line, f"{answer.text}; what waits is sent again until it is {_HOURS} old")
                if await self._takes_another(line):
                    break
            asked_for = wait if answer.retry_after is None else answer.retry_after
            await self.clock.sleep(min(asked_for, LONGEST_WAIT))
            wait = min(2 * wait, LONGEST_WAIT)
        self._lose(line, f"not told: {answer.text}")

    async def _takes_another(self, line: _Line) -> bool:
        """Is it this message that it does not take, and no other?"""
        if not line.waiting:
            return False
        following = line.waiting[0]
        if not (await self._asked(line, *following)).is_taken:
            return False
        if line.waiting and line.waiting[0] is following:  # it may have been dropped meanwhile
            line.waiting.popleft()
        return True

    def _taken(self, line: _Line) -> None:
        if line.told:
            lost = f"; {counted(line.lost, 'message')} lost" if line.lost else ""
            self.notice("notifications", f"{line.receiver.name}: it takes messages again{lost}")
        line.told, line.lost = "", 0

    async def _asked(self, line: _Line, one: Message, at: datetime) -> DeliveryAnswer:
        try:
            request = line.receiver.request(one, self.cluster, at)
        except (OSError, UnicodeDecodeError) as error:
            return DeliveryAnswer(0, why=f"the file of its secret cannot be read ({type(error).__name__})")
        return await (self.post or post)(request)

    def _lose(self, line: _Line, text: str) -> None:
        line.lost += 1
        self._tell(line, text)

    def _tell(self, line: _Line, text: str) -> None:
        if line.told != text:
            line.told = text
            self.notice("notifications", f"{line.receiver.name}: {text}")


async def post(request: OutgoingRequest) -> DeliveryAnswer:
    """Send it; redirects are not followed, and what is answered is not read."""
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT)) as session,
            session.post(
                request.url,
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
                proxy=proxy_of(request.url),
            ) as response,
        ):
            return DeliveryAnswer(response.status, _seconds(response.headers.get("Retry-After", "")))
    except TimeoutError:
        return DeliveryAnswer(0, why=f"no answer within {_TIMEOUT:g}s")
    except aiohttp.ClientConnectorCertificateError:
        return DeliveryAnswer(0, why="its certificate is not valid for this machine")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return DeliveryAnswer(0, why=f"the connection failed ({type(error).__name__})")


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() and len(text) < 8 else None
