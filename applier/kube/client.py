"""Requests to one API server, each followed to its final answer: limits, retries, counts and translated refusals.

`http_transport` transfers the bytes. If the server has certainly not carried out a request (429, 503, no connection),
the client retries the request. The client also retries reads after server faults and broken connections. If the
connection of a write breaks, the client does not repeat the write, but raises UnknownOutcome. Then the caller reads
the object.

If a kept-alive connection turns out to be dead, the transport itself repeats a GET or DELETE once. A DELETE contains
preconditions, so a repeated DELETE finds the object deleted or changed.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar

import orjson

from applier.backoff import exponential_backoff
from applier.errors import ClusterError, Unavailable, UnknownOutcome
from applier.kube.error_translation import translate
from applier.kube.flow_control import RequestPace, RequestSlots, ServerLoad
from applier.kube.shared_parts import share_equal_parts
from applier.kube.transport_port import BrokenError, HttpAnswer, NotSentError, Transport
from applier.token_bucket import Rate
from renderer.frozen import dataclass

T = TypeVar("T")

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, RETRY_BUDGET_SECONDS = 0.5, 8.0, 30.0
"""Seconds for retries: the wait after the first refusal, the longest wait, and the limit for the sum of waits and
silence. When the sum exceeds the limit, the request fails.
"""

_RETRIED_READ_STATUSES = frozenset({500, 502, 503, 504})
_CONVERSION_WEBHOOK_FAILURE = re.compile(rb"conversion webhook for [^:]* failed")
"""Message of a failed conversion webhook. The failure lasts, although its status, 429 or 500, means a busy server."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """Request to the API server, without credentials."""

    verb: str
    """Verb by which the client counts the request."""
    method: str
    path: str
    description: str
    """Name of the request in messages."""
    is_secret: bool = False
    """True if messages must not contain text from the server."""
    accept: str = "application/json"
    content_type: str = "application/json"
    body: bytes | None = field(default=None, repr=False)
    etag: str = ""
    begins_watch: bool = False
    """True for a list that begins a watch, and so uses the slots of watches."""

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    def headers_for(self, user: str) -> Mapping[str, str]:
        """Return the headers of the request. If `user` is not empty, the request impersonates that user."""
        return _headers(self.accept, "" if self.body is None else self.content_type, self.etag, user)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Failed attempt, with the error to raise if the client does not repeat the request."""

    error: ClusterError
    is_retryable: bool
    cost_seconds: float = 0.0
    """Seconds for which the attempt waited for a silent server."""
    wait_seconds: float | None = None
    """Seconds of the pause that the server asks for, or None."""
    is_server_reached: bool = True
    """True if the server itself refused the request."""


class Client:
    """Sender of requests to one API server, with its retries and limits.

    `requests` counts attempts by verb. `answers` counts answers by verb and status. The status 0 means no answer.

    Args:
        unreachable_seconds: seconds after which requests to an unreachable server fail.
        rate: limit for attempts, or None for no limit.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        concurrency: int,
        sleep: Callable[[float], Awaitable[None]],
        rng: Callable[[], float],
        unreachable_seconds: float,
        rate: Rate | None,
    ) -> None:
        self.transport = transport
        self.requests: Counter[str] = Counter()
        self.answers: Counter[tuple[str, int]] = Counter()
        self._sleep, self._rng, self._patience = sleep, rng, unreachable_seconds
        self._user = ""
        self._retries_writes = True
        self._check_write: Callable[[], None] = lambda: None
        self._server_load = ServerLoad(concurrency)
        self._pace = RequestPace(rate) if rate else None
        self._clock = _ServerClock()
        # A list costs the server several times as much as a write (API priority and fairness), and must not delay a
        # write.
        self._slots = RequestSlots(concurrency, self._server_load)
        self._list_slots = RequestSlots(max(2, concurrency // 4), self._server_load)
        # Watches of kinds whose API server is down restart again and again, and must not delay lists.
        self._watch_slots = RequestSlots(max(2, concurrency // 4), self._server_load)

    @property
    def server_time(self) -> datetime | None:
        return self._clock.now

    @property
    def delayed_requests(self) -> int:
        """Return the number of requests that waited because of the rate."""
        return self._pace.delayed if self._pace else 0

    def with_user(self, user: str) -> Client:
        """Return a client that impersonates `user`, with the slots, counts and transport of this client."""
        return copy_with(self, _user=user)

    def without_retries(self) -> Client:
        """Return a client that attempts each write once, with the slots, counts and transport of this client."""
        return copy_with(self, _retries_writes=False)

    def with_write_check(self, check: Callable[[], None]) -> Client:
        """Return a client that also calls `check` before each attempt of a write.

        The new client has the slots, counts and transport of this client.
        """
        previous_check = self._check_write

        def both() -> None:
            previous_check()
            check()

        return copy_with(self, _check_write=both)

    async def request(self, call: ApiRequest) -> HttpAnswer:
        """Send `call`, with retries, and return the final answer, whose status is 2xx or 304.

        A refusal may concern a single object, so the request waits without its slot. If the server refuses all
        requests, each request keeps its slot, because an overloaded server needs fewer requests in flight. Each
        request then waits until all other requests have had an attempt, so all requests share one count of refused
        seconds.

        Raises: ClusterError.
        """
        self._server_load.begin_request()
        try:
            return await self._request_with_retries(call)
        finally:
            self._server_load.end_request()

    async def _request_with_retries(self, call: ApiRequest) -> HttpAnswer:
        spent_seconds = 0.0
        slots = self._watch_slots if call.begins_watch else self._list_slots if call.verb == "list" else self._slots
        for attempt in count():
            slot = await slots.take()
            try:
                outcome = await self._try(call)
                if isinstance(outcome, HttpAnswer):
                    self._server_load.record_success()
                    return outcome
                wait_seconds = self._retry_wait(attempt, outcome.wait_seconds)
                spent_seconds += outcome.cost_seconds + wait_seconds
                budget = (
                    RETRY_BUDGET_SECONDS if outcome.is_server_reached else min(RETRY_BUDGET_SECONDS, self._patience)
                )
                is_last = not outcome.is_retryable or max(spent_seconds, self._server_load.refused_seconds) > budget
                if not outcome.is_retryable and outcome.error.status:
                    self._server_load.record_success()
                refused_rounds = self._server_load.record_refusal() if outcome.is_retryable else 0
                if refused_rounds and not is_last:
                    backoff = exponential_backoff(refused_rounds, FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
                    await self._sleep(min(MAX_RETRY_SECONDS, max(wait_seconds, backoff)))
            finally:
                slot.release()
            if is_last or (call.is_write and not self._retries_writes):
                try:
                    raise outcome.error
                finally:
                    del outcome  # otherwise the error and this frame would keep each other alive
            if not refused_rounds:
                await self._sleep(wait_seconds)
        raise AssertionError("unreachable")

    async def request_json(self, call: ApiRequest) -> dict[str, Any]:
        """Send `call` and return the JSON object of the answer.

        Raises: ClusterError, also if a proxy returns something other than JSON.
        """
        return parse_json_object(call, await self.request(call))

    @asynccontextmanager
    async def stream_lines(self, call: ApiRequest, *, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the lines of an endless answer.

        The request uses no slot, and the client does not repeat the request.

        Args:
            silence: seconds for which the server may send nothing.

        Raises: ClusterError, also while lines are read.
        """
        await self._take_turn(is_urgent=True)
        self.requests[call.verb] += 1
        try:
            async with self.transport.stream(
                call.path, headers=call.headers_for(self._user), silence=silence
            ) as answer:
                self.answers[call.verb, answer.status] += 1
                if answer.status >= 400:
                    raise _refusal_of(call, HttpAnswer(answer.status, answer.headers, answer.body)).error
                yield _split_lines(answer.parts)
        except NotSentError as error:
            self.answers[call.verb, 0] += 1
            raise Unavailable(f"{call.description}: cannot connect: {error}") from None
        except BrokenError as error:
            raise Unavailable(f"{call.description}: interrupted: {error}") from None

    async def probe(self) -> int:
        """Request `/readyz` once, without a slot, and return the HTTP status.

        Any answer proves that the server is reachable.

        Raises: Unavailable.
        """
        await self._take_turn(is_urgent=True)
        self.requests["probe"] += 1
        try:
            answer = await self.transport.send("GET", "/readyz", headers=_headers("text/plain, */*", "", "", ""))
        except (NotSentError, BrokenError) as error:
            self.answers["probe", 0] += 1
            raise Unavailable(f"probe /readyz: {error}") from None
        self.answers["probe", answer.status] += 1
        self._clock.update(answer.headers.get("Date", ""))
        return answer.status

    async def _take_turn(self, *, is_urgent: bool) -> None:
        """Wait until the rate permits a request. Urgent requests, such as watches and probes, precede all others."""
        if self._pace:
            await self._pace.take_turn(is_urgent=is_urgent)

    def _retry_wait(self, attempt: int, retry_after: float | None) -> float:
        backoff = exponential_backoff(attempt, FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
        return backoff * (0.5 + self._rng() / 2) if retry_after is None else retry_after + backoff * self._rng()

    async def _try(self, call: ApiRequest) -> HttpAnswer | _Refusal:
        await self._take_turn(is_urgent=call.begins_watch)
        if call.is_write:
            self._check_write()
        self.requests[call.verb] += 1
        try:
            answer = await self.transport.send(
                call.method, call.path, headers=call.headers_for(self._user), body=call.body
            )
        except NotSentError as error:
            self.answers[call.verb, 0] += 1
            text = f"{call.description}: cannot connect: {error}"
            return _Refusal(
                Unavailable(text, is_transient=not error.is_final),
                is_retryable=not error.is_final,
                is_server_reached=False,
            )
        except BrokenError as error:
            self.answers[call.verb, 0] += 1
            text = f"{call.description}: no complete answer: {error}"
            return _Refusal(
                UnknownOutcome(text) if call.is_write else Unavailable(text), not call.is_write, error.seconds
            )
        self.answers[call.verb, answer.status] += 1
        self._clock.update(answer.headers.get("Date", ""))
        return answer if answer.status < 400 else _refusal_of(call, answer)


@dataclass(slots=True)
class _ServerClock:
    """Clock of the server.

    The clock adds the time since the last answer to the Date of that answer (RFC 9110, 6.6.1). Arrival times are in
    seconds of the event loop.
    """

    date: str = ""
    received_at: float = 0.0

    def update(self, date: str) -> None:
        if date:
            self.date, self.received_at = date, asyncio.get_running_loop().time()

    @property
    def now(self) -> datetime | None:
        try:
            server_date = parsedate_to_datetime(self.date)
        except ValueError:
            return None
        return server_date + timedelta(seconds=asyncio.get_running_loop().time() - self.received_at)


async def _split_lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield whole lines without line ends. Drop an incomplete last line."""
    remainder = b""
    async for part in parts:
        *lines, remainder = (remainder + part).split(b"\n")
        for line in lines:
            if line:
                yield line


def copy_with(original: T, **attributes: Any) -> T:
    """Return a copy that shares everything with `original` except the given attributes."""
    changed = copy(original)
    vars(changed).update(attributes)
    return changed


@lru_cache(maxsize=256)
def _headers(accept: str, content_type: str, etag: str, user: str) -> Mapping[str, str]:
    conditional = {"Content-Type": content_type, "If-None-Match": etag, "Impersonate-User": user}
    present = {name: value for name, value in conditional.items() if value}
    return MappingProxyType({"Accept": accept, "User-Agent": "levelgate", **present})


def parse_json_object(call: ApiRequest, answer: HttpAnswer) -> dict[str, Any]:
    """Return the JSON object of `answer`.

    Raises: UnknownOutcome for a write, or Unavailable for a read, if the answer is not a JSON object.
    """
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict):
        share_equal_parts(document)
        return document
    text = (
        f"{call.description}: the answer (HTTP {answer.status}) is not a JSON object; "
        "check the proxy between Levelgate and the API server"
    )
    raise (UnknownOutcome if call.is_write else Unavailable)(text, status=answer.status)


def _refusal_of(call: ApiRequest, answer: HttpAnswer) -> _Refusal:
    wait_seconds = _parse_retry_after(answer.headers.get("Retry-After"))
    error = translate(
        answer.status,
        answer.body,
        description=call.description,
        is_write=call.is_write,
        is_secret=call.is_secret,
        retry_after=wait_seconds,
    )
    is_retryable = answer.status in (429, 503) or (not call.is_write and answer.status in _RETRIED_READ_STATUSES)
    is_retryable = is_retryable and not _CONVERSION_WEBHOOK_FAILURE.search(answer.body)
    if isinstance(error, Unavailable):
        error.is_transient = is_retryable
    return _Refusal(error, is_retryable, wait_seconds=wait_seconds)


def _parse_retry_after(header: str | None) -> float | None:
    """Return the seconds in `header`, the value of Retry-After, or None if `header` is not a whole number.

    The API server sends only seconds, so the function ignores a date (RFC 9110, 10.2.3).
    """
    return float(header) if header is not None and header.isdecimal() else None
