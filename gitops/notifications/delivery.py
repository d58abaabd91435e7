"""Delivery of notifications.

Each receiver has its own bounded queue and worker, so no reconciliation waits for a receiver.

If a receiver cannot be reached, the worker sends the messages again, in order, until they are older than
`MAX_MESSAGE_AGE`. If the receiver rejects a message but accepts the next message, the worker drops the rejected message
early. If a fault of Levelgate prevents the delivery of a message, the worker drops the message too. The worker counts
and reports lost messages. Only the process that writes a record reports its transition, so that each transition is
reported once.
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
from gitops.durations import format_duration
from gitops.notifications.messages import Message, group_transitions
from gitops.notifications.receivers import OutgoingRequest, Receiver
from gitops.records.transitions import Transition
from gitops.secret_file import EmptySecret
from renderer.frozen import dataclass
from renderer.phrasing import format_count

_log = logging.getLogger(__name__)

MAX_QUEUE_LENGTH: Final = 200
"""Maximum number of messages that wait for one receiver. Beyond this limit, the queue drops the oldest messages."""
MAX_MESSAGE_AGE: Final = timedelta(hours=1)
ATTEMPTS_BEFORE_NOTICE: Final = 6
"""Number of failed attempts after which the log reports the receiver, and the worker tries the next message."""
MIN_RETRY_DELAY_SECONDS, MAX_RETRY_DELAY_SECONDS = 1.0, 300.0
_TIMEOUT_SECONDS: Final = 10.0
_RETRY_STATUSES: Final = frozenset({408, 425, 429})
"""HTTP statuses of client errors after which the same request can succeed."""
_MAX_AGE_TEXT: Final = format_duration(MAX_MESSAGE_AGE)


class DeliveryAnswer(NamedTuple):
    """Response of a receiver."""

    status: int
    """HTTP status, or 0 if no response arrives."""
    retry_after: float | None = None
    """Seconds after which the receiver wants another attempt, or None if the receiver does not name a time."""
    error: str = ""

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_retryable(self) -> bool:
        """Return whether another attempt can succeed. GitHub's secondary rate limit is a 403 with `retry_after`."""
        return not self.status or self.status >= 500 or self.status in _RETRY_STATUSES or self.retry_after is not None

    @property
    def text(self) -> str:
        return self.error or f"the receiver answered with status {self.status}; check the receiver"


Post = Callable[[OutgoingRequest], Awaitable[DeliveryAnswer]]


@dataclass
class _ReceiverQueue:
    """Messages that wait for one receiver, and the worker that sends them."""

    receiver: Receiver
    waiting: deque[tuple[Message, datetime]] = field(default_factory=deque)
    """Messages, each with the time at which it entered the queue."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    reported: str = ""
    """Problem of the last report, so that the log contains each problem only once."""
    lost_count: int = 0
    is_busy: bool = False
    """True while the worker sends a message that has left the queue."""


@dataclass
class Delivery:
    """Sender of the notifications about a cluster."""

    cluster: str
    clock: Clock
    notice: Callable[[str, str], None]
    """Function that logs a problem, as (area, text). The text contains neither a secret nor a URL."""
    post: Post | None = None
    """Function that sends a request. If None, the function `post` of this module sends requests."""
    _queues: dict[str, _ReceiverQueue] = field(default_factory=dict)

    def configure(self, receivers: Iterable[Receiver]) -> None:
        """Replace the receivers with `receivers`. If a receiver is unchanged, its messages stay in the queue."""
        receivers_by_name = {receiver.name: receiver for receiver in receivers}
        for name in [name for name, queue in self._queues.items() if receivers_by_name.get(name) != queue.receiver]:
            self._stop_worker(self._queues.pop(name))
        for name in receivers_by_name.keys() - self._queues.keys():
            queue = self._queues[name] = _ReceiverQueue(receivers_by_name[name])
            queue.task = asyncio.create_task(self._run_worker(queue), name=f"notify {name}")

    def enqueue(self, transitions: Sequence[Transition]) -> None:
        """Queue `transitions` for the receivers that want them, without waiting for a delivery."""
        now = self.clock.now()
        for queue in self._queues.values():
            for message in group_transitions(filter(queue.receiver.wants, transitions)):
                self._enqueue(queue, message, now)

    def _enqueue(self, queue: _ReceiverQueue, message: Message, now: datetime) -> None:
        """Queue a message, or merge it into the last message in the queue.

        The first message of the queue may be in flight, so the method never merges a message into the first message.
        """
        if len(queue.waiting) > 1 and (merged := queue.waiting[-1][0].merge(message)):
            queue.waiting[-1] = merged, queue.waiting[-1][1]
            return
        if len(queue.waiting) >= MAX_QUEUE_LENGTH:
            queue.waiting.popleft()
            self._count_lost(queue, f"more than {MAX_QUEUE_LENGTH} messages wait; Levelgate drops the oldest")
        queue.waiting.append((message, now))
        queue.wake.set()
        queue.idle.clear()

    async def finish(self, timeout_seconds: float) -> None:
        """Wait until the queues are empty, for at most `timeout_seconds`.

        Then report lost messages, and stop the workers.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*(queue.idle.wait() for queue in self._queues.values()))
        for queue in self._queues.values():
            if remaining := len(queue.waiting) + queue.is_busy:
                self.notice(
                    "notifications",
                    f"{queue.receiver.name}: the process ends with {format_count(remaining, 'message')} not delivered",
                )
        self.close()

    def close(self) -> None:
        while self._queues:
            self._stop_worker(self._queues.popitem()[1])

    def _stop_worker(self, queue: _ReceiverQueue) -> None:
        if queue.task:
            queue.task.cancel()

    async def _run_worker(self, queue: _ReceiverQueue) -> None:
        while True:
            while queue.waiting:
                queue.is_busy = True
                try:
                    await self._deliver(queue, *queue.waiting.popleft())
                except Exception as error:
                    _log.exception("a notification to %s failed", queue.receiver.name)
                    self._count_lost(
                        queue,
                        f"not delivered because of a fault of Levelgate ({type(error).__name__}); "
                        "report the fault with the log",
                    )
                queue.is_busy = False
            queue.idle.set()
            queue.wake.clear()
            await queue.wake.wait()

    async def _deliver(self, queue: _ReceiverQueue, message: Message, queued_at: datetime) -> None:
        delay = MIN_RETRY_DELAY_SECONDS
        for attempt in count(1):
            answer = await self._send(queue, message, queued_at)
            if answer.is_accepted:
                self._on_accepted(queue)
                return
            if not answer.is_retryable or self.clock.now() - queued_at >= MAX_MESSAGE_AGE:
                break
            if attempt >= ATTEMPTS_BEFORE_NOTICE:
                self._report(
                    queue, f"{answer.text}; Levelgate sends pending messages again until they are {_MAX_AGE_TEXT} old"
                )
                if await self._accepts_next(queue):
                    break
            retry_delay = delay if answer.retry_after is None else answer.retry_after
            await self.clock.sleep(min(retry_delay, MAX_RETRY_DELAY_SECONDS))
            delay = min(2 * delay, MAX_RETRY_DELAY_SECONDS)
        self._count_lost(queue, f"not delivered: {answer.text}")

    async def _accepts_next(self, queue: _ReceiverQueue) -> bool:
        """Return whether the receiver accepts the next message. If so, only the current message is at fault."""
        if not queue.waiting:
            return False
        following = queue.waiting[0]
        if not (await self._send(queue, *following)).is_accepted:
            return False
        if queue.waiting and queue.waiting[0] is following:  # The full queue may have dropped the message.
            queue.waiting.popleft()
        return True

    def _on_accepted(self, queue: _ReceiverQueue) -> None:
        if queue.reported:
            lost = f"; {format_count(queue.lost_count, 'message')} lost" if queue.lost_count else ""
            self.notice("notifications", f"{queue.receiver.name}: the receiver accepts messages again{lost}")
        queue.reported, queue.lost_count = "", 0

    async def _send(self, queue: _ReceiverQueue, message: Message, queued_at: datetime) -> DeliveryAnswer:
        try:
            request = queue.receiver.build_request(message, self.cluster, queued_at)
        except EmptySecret:
            return DeliveryAnswer(0, error="the secret file is empty; write the secret into its first line")
        except (OSError, UnicodeDecodeError) as error:
            return DeliveryAnswer(0, error=f"the secret file cannot be read ({type(error).__name__}); check the file")
        return await (self.post or post)(request)

    def _count_lost(self, queue: _ReceiverQueue, text: str) -> None:
        queue.lost_count += 1
        self._report(queue, text)

    def _report(self, queue: _ReceiverQueue, text: str) -> None:
        if queue.reported != text:
            queue.reported = text
            self.notice("notifications", f"{queue.receiver.name}: {text}")


async def post(request: OutgoingRequest) -> DeliveryAnswer:
    """Send a request. Do not follow redirects, and do not read the body of the response."""
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)) as session,
            session.post(
                request.url,
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
                proxy=proxy_of(request.url),
            ) as response,
        ):
            return DeliveryAnswer(response.status, _parse_seconds(response.headers.get("Retry-After", "")))
    except TimeoutError:
        return DeliveryAnswer(0, error=f"no answer within {_TIMEOUT_SECONDS:g}s; check the receiver")
    except aiohttp.ClientConnectorCertificateError:
        return DeliveryAnswer(
            0, error="this machine does not trust the receiver's certificate; trust its authority on this machine"
        )
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return DeliveryAnswer(0, error=f"the connection failed ({type(error).__name__}); check the URL of the receiver")


def _parse_seconds(text: str) -> float | None:
    """Return the seconds of a `Retry-After` header, or None for a date or any other text."""
    return float(text) if text.isdecimal() and len(text) < 8 else None
