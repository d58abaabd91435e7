"""Requests to one API server until they are answered: retries, translation of refusals.

Retried is what was certainly not carried out (429, 503, no connection), and reads also after server faults and broken
connections. A write whose connection broke is not sent again: it raises UnknownOutcome, the caller reads back. (aiohttp
itself repeats a GET or DELETE once when a kept-alive connection turns out to be dead; our deletes carry preconditions,
so the second can only find the object gone or changed.)
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import count
from math import inf
from typing import Any

import orjson

from applier.errors import ClusterError, Unavailable, UnknownOutcome
from applier.kube.error_translation import translate
from applier.kube.flow_control import RequestSlots, ServerLoad
from applier.kube.transport_port import BrokenError, HttpAnswer, NotSentError, Transport
from renderer.frozen import dataclass

FIRST_WAIT, LONGEST_WAIT, BUDGET = 0.5, 8.0, 30.0
"""Seconds: wait after the first refusal, most between two tries, and sum of waits and of silence after which a
request is given up.
"""

_READ_AGAIN = frozenset({500, 502, 503, 504})
_CONVERSION = re.compile(rb"conversion webhook for [^:]* failed")
"""Not a matter of seconds, and behind a 429 or a 500 as of a server that is busy."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `verb` is counted, `about` names the object in messages, `secret` keeps server texts out of them.

    `budget`: seconds of waiting in all, as in `BUDGET`. `begins_watch`: a watch begins with this list, and nobody else waits for it.
    """

    verb: str
    method: str
    path: str
    about: str
    secret: bool = False
    accept: str = "application/json"
    content_type: str = "application/json"
    body: bytes | None = field(default=None, repr=False)
    etag: str = ""
    budget: float = BUDGET
    begins_watch: bool = False

    @property
    def write(self) -> bool:
        return self.method != "GET"

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Accept": self.accept, "User-Agent": "levelgate"}
        if self.body is not None:
            headers["Content-Type"] = self.content_type
        if self.etag:
            headers["If-None-Match"] = self.etag
        return headers


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A try that failed: the error if it is the last, whether to try `again`, the seconds it cost and those the
    server asks to wait. `reached`: the server itself has refused.
    """

    error: ClusterError
    again: bool
    cost: float = 0.0
    wait: float | None = None
    reached: bool = True


class Client:
    """`requests` counts what was sent, by verb, tries included; `answers` what came back, by verb and status, 0 for nothing. `patience`: seconds for
    which a server that is not reached at all is tried.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        concurrency: int,
        sleep: Callable[[float], Awaitable[None]],
        rng: Callable[[], float],
        patience: float = inf,
    ) -> None:
        self.transport = transport
        self.requests: Counter[str] = Counter()
        self.answers: Counter[tuple[str, int]] = Counter()
        self._sleep, self._rng, self._patience = sleep, rng, patience
        self._user: dict[str, str] = {}
        self._insists = True
        self._check: Callable[[], None] = lambda: None
        self._load = ServerLoad(concurrency)
        self._clock = _ServerClock()
        # A list costs the server several times what a write does (priority and fairness), and must not keep writes
        # waiting.
        self._slots = RequestSlots(concurrency, self._load)
        self._list_slots = RequestSlots(max(2, concurrency // 4), self._load)
        # Watches of kinds that do not answer begin again and again, and must not keep lists waiting.
        self._watch_slots = RequestSlots(max(2, concurrency // 4), self._load)

    @property
    def server_time(self) -> datetime | None:
        return self._clock.now

    def impersonating(self, user: str) -> Client:
        """It asks in the name of this user, and shares slots, counts and the transport with this one."""
        found = copy(self)
        found._user = {"Impersonate-User": user}
        return found

    def at_once(self) -> Client:
        """It tries writes once, and shares slots, counts and the transport with this one."""
        found = copy(self)
        found._insists = False
        return found

    def guarded(self, check: Callable[[], None]) -> Client:
        """It calls `check` before each try of a write, after the one of this client, whose slots, counts and transport it shares."""
        found, earlier = copy(self), self._check

        def both() -> None:
            earlier()
            check()

        found._check = both
        return found

    async def ask(self, call: ApiRequest) -> HttpAnswer:
        """The answer, 2xx or 304. Raises ClusterError.

        What is refused for now waits without a slot, since it may be a matter of one object. Where nobody is served it keeps it: fewer in flight is
        what an overloaded server asks for. Then each waits for its next try until all others had theirs, so the seconds for which nobody is served
        count as those of each.
        """
        self._load.begun()
        try:
            return await self._insisting(call)
        finally:
            self._load.ended()

    async def _insisting(self, call: ApiRequest) -> HttpAnswer:
        spent = 0.0
        slots = self._watch_slots if call.begins_watch else self._list_slots if call.verb == "list" else self._slots
        for attempt in count():
            slot = await slots.take()
            try:
                outcome = await self._try(call)
                if isinstance(outcome, HttpAnswer):
                    self._load.served()
                    return outcome
                wait = self._wait(attempt, outcome.wait)
                spent += outcome.cost + wait
                budget = call.budget if outcome.reached else min(call.budget, self._patience)
                is_last = not outcome.again or max(spent, self._load.silence) > budget
                if not outcome.again and outcome.error.status:
                    self._load.served()
                keeps = self._load.refused() if outcome.again else 0
                if keeps and not is_last:
                    await self._sleep(min(LONGEST_WAIT, max(wait, FIRST_WAIT * 2.0 ** min(keeps, 8))))
            finally:
                slot.end()
            if is_last or (call.write and not self._insists):
                try:
                    raise outcome.error
                finally:
                    del outcome  # or the error keeps this frame, and the frame the error
            if not keeps:
                await self._sleep(wait)
        raise AssertionError("unreachable")

    async def document(self, call: ApiRequest) -> dict[str, Any]:
        """The JSON object that answers. Raises ClusterError, also where something between here and the server answers otherwise."""
        return json_object(call, await self.ask(call))

    @asynccontextmanager
    async def lines(self, call: ApiRequest, *, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer that goes on, as they come. It takes no slot and is not tried again. Raises ClusterError, reading as well."""
        self.requests[call.verb] += 1
        try:
            async with self.transport.stream(call.path, headers=call.headers | self._user, silence=silence) as answer:
                self.answers[call.verb, answer.status] += 1
                if answer.status >= 400:
                    raise _refused(call, HttpAnswer(answer.status, answer.headers, answer.body)).error
                yield _lines(answer.parts)
        except NotSentError as error:
            self.answers[call.verb, 0] += 1
            raise Unavailable(f"{call.about}: cannot connect: {error}") from None
        except BrokenError as error:
            raise Unavailable(f"{call.about}: broken off: {error}") from None

    def _wait(self, attempt: int, asked: float | None) -> float:
        backoff = min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt)
        return backoff * (0.5 + self._rng() / 2) if asked is None else asked + backoff * self._rng()

    async def _try(self, call: ApiRequest) -> HttpAnswer | _Refusal:
        if call.write:
            self._check()
        self.requests[call.verb] += 1
        try:
            answer = await self.transport.send(
                call.method, call.path, headers=call.headers | self._user, body=call.body
            )
        except NotSentError as error:
            self.answers[call.verb, 0] += 1
            text = f"{call.about}: cannot connect: {error}"
            return _Refusal(Unavailable(text, again=not error.final), again=not error.final, reached=False)
        except BrokenError as error:
            self.answers[call.verb, 0] += 1
            text = f"{call.about}: no complete answer: {error}"
            return _Refusal(UnknownOutcome(text) if call.write else Unavailable(text), not call.write, error.seconds)
        self.answers[call.verb, answer.status] += 1
        self._clock.heard(answer.headers.get("Date", ""))
        return answer if answer.status < 400 else _refused(call, answer)


@dataclass(slots=True)
class _ServerClock:
    """The server's clock, by the Date of its last answer (RFC 9110 6.6.1), which came at this second of the event loop."""

    date: str = ""
    at: float = 0.0

    def heard(self, date: str) -> None:
        if date:
            self.date, self.at = date, asyncio.get_running_loop().time()

    @property
    def now(self) -> datetime | None:
        try:
            told = parsedate_to_datetime(self.date)
        except ValueError:
            return None
        return told + timedelta(seconds=asyncio.get_running_loop().time() - self.at)


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, without their ends; one that is not whole when the body ends is dropped."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line:
                yield line


def json_object(call: ApiRequest, answer: HttpAnswer) -> dict[str, Any]:
    """The JSON object of an answer. Raises Unavailable, for a write UnknownOutcome, when it is none."""
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict):
        return found
    text = f"{call.about}: the answer (HTTP {answer.status}) is no JSON object: what stands between here and the API server changed it"
    raise (UnknownOutcome if call.write else Unavailable)(text, status=answer.status)


def _refused(call: ApiRequest, answer: HttpAnswer) -> _Refusal:
    wait = _seconds(answer.headers.get("Retry-After"))
    error = translate(
        answer.status, answer.body, about=call.about, write=call.write, secret=call.secret, retry_after=wait
    )
    again = answer.status in (429, 503) or (not call.write and answer.status in _READ_AGAIN)
    again = again and not _CONVERSION.search(answer.body)
    if isinstance(error, Unavailable):
        error.again = again
    return _Refusal(error, again, wait=wait)


def _seconds(header: str | None) -> float | None:
    """Retry-After as the API server sends it: whole seconds. A date (RFC 9110 10.2.3) is ignored, our own backoff
    serves.
    """
    return float(header) if header is not None and header.isdecimal() else None
