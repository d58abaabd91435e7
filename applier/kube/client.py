"""Requests to one API server, each until its final answer: concurrency, rate, retries, counts, translated refusals.

`http_transport` transfers the bytes. The client retries requests that were certainly not carried out (429, 503, no
connection), and reads also after server faults and broken connections. It never repeats a write whose connection broke,
but raises UnknownOutcome: the caller reads the object back.

The transport itself repeats a GET or DELETE once when a kept-alive connection turns out to be dead. Deletes carry
preconditions, so that the second finds the object deleted or changed.
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
"""Seconds: wait after the first refusal, longest wait, and sum of waits and of silence after which a request is given
up.
"""

_RETRIED_READ_STATUSES = frozenset({500, 502, 503, 504})
_CONVERSION_WEBHOOK_FAILURE = re.compile(rb"conversion webhook for [^:]* failed")
"""A failure that lasts, although the server reports it with the 429 or 500 of a busy server."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `verb` is counted, and `description` names the object in messages.

    Messages about a request that `is_secret` leave the server's texts out. A list that `begins_watch` has slots of its
    own.
    """

    verb: str
    method: str
    path: str
    description: str
    is_secret: bool = False
    accept: str = "application/json"
    content_type: str = "application/json"
    body: bytes | None = field(default=None, repr=False)
    etag: str = ""
    begins_watch: bool = False

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    def headers_for(self, user: str) -> Mapping[str, str]:
        """Return the headers of the request, impersonating *user* unless it is empty."""
        return _headers(self.accept, "" if self.body is None else self.content_type, self.etag, user)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A failed attempt, with the error to raise where it is the last.

    `cost_seconds` were lost in silence; the server asks for a pause of `wait_seconds`. Where `is_server_reached`, the
    server itself refused.
    """

    error: ClusterError
    is_retryable: bool
    cost_seconds: float = 0.0
    wait_seconds: float | None = None
    is_server_reached: bool = True


class Client:
    """The sender of requests to one API server.

    `requests` counts attempts by verb; `answers` counts answers by verb and status, where 0 means none. An unreachable
    server is given up after `unreachable_seconds`. `rate` bounds attempts; None means no bound.
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
        # A list costs the server several times as much as a write (API priority and fairness): it must not delay one.
        self._slots = RequestSlots(concurrency, self._server_load)
        self._list_slots = RequestSlots(max(2, concurrency // 4), self._server_load)
        # Watches of kinds whose API server is down restart again and again: they must not delay lists.
        self._watch_slots = RequestSlots(max(2, concurrency // 4), self._server_load)

    @property
    def server_time(self) -> datetime | None:
        return self._clock.now

    @property
    def delayed_requests(self) -> int:
        """Return how many requests waited for their turn because of the rate."""
        return self._pace.delayed if self._pace else 0

    def with_user(self, user: str) -> Client:
        """Return a client that impersonates *user*, and shares slots, counts and transport with this client."""
        return copy_with(self, _user=user)

    def without_retries(self) -> Client:
        """Return a client that attempts a write once, and shares slots, counts and transport with this client."""
        return copy_with(self, _retries_writes=False)

    def with_write_check(self, check: Callable[[], None]) -> Client:
        """Return a client that also calls *check* before each attempt of a write.

        It shares slots, counts and transport with this client.
        """
        previous_check = self._check_write

        def both() -> None:
            previous_check()
            check()

        return copy_with(self, _check_write=both)

    async def request(self, call: ApiRequest) -> HttpAnswer:
        """Send a request until its final answer, and return that: 2xx or 304.

        After a refusal the request waits without its slot, since the refusal may concern a single object. Where the
        server refuses all requests, they keep their slots: an overloaded server needs fewer in flight. Each then waits
        until all others had a turn, so all share one count of refused seconds.

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
        """Send a request and return the JSON object of the answer.

        Raises: ClusterError, also if a proxy answers otherwise.
        """
        return parse_json_object(call, await self.request(call))

    @asynccontextmanager
    async def stream_lines(self, call: ApiRequest, *, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the lines of an endless answer.

        The request takes no slot and is not repeated. Raises: ClusterError, also while reading.
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
        """Ask for `/readyz` once, without a slot, and return the status.

        Any answer proves a reachable server. Raises: Unavailable.
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
        """Wait until the rate permits a request.

        Watches and probes are urgent, and pass the requests of reconciliations.
        """
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

    It consists of the Date of the last answer (RFC 9110, 6.6.1), and the event loop's second of its arrival.
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
    """Yield whole lines without their ends. An incomplete last line is dropped."""
    remainder = b""
    async for part in parts:
        *lines, remainder = (remainder + part).split(b"\n")
        for line in lines:
            if line:
                yield line


def copy_with(original: T, **attributes: Any) -> T:
    """Return a copy that shares everything with the original except the given attributes."""
    changed = copy(original)
    vars(changed).update(attributes)
    return changed


@lru_cache(maxsize=256)
def _headers(accept: str, content_type: str, etag: str, user: str) -> Mapping[str, str]:
    conditional = {"Content-Type": content_type, "If-None-Match": etag, "Impersonate-User": user}
    present = {name: value for name, value in conditional.items() if value}
    return MappingProxyType({"Accept": accept, "User-Agent": "levelgate", **present})


def parse_json_object(call: ApiRequest, answer: HttpAnswer) -> dict[str, Any]:
    """Return the JSON object of an answer. Otherwise raises Unavailable, or UnknownOutcome for a write."""
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict):
        share_equal_parts(document)
        return document
    text = (
        f"{call.description}: the answer (HTTP {answer.status}) is not a JSON object: "
        "a proxy before the API server changed it"
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
    """Return the whole seconds of Retry-After.

    A date (RFC 9110, 10.2.3) is ignored: the API server sends only seconds.
    """
    return float(header) if header is not None and header.isdecimal() else None
