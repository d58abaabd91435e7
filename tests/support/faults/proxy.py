"""What stands between Levelgate and the real API server when something has to go wrong: plain HTTP in, TLS to the server.

One proxy serves one life of the program. Once it has killed its client it is dead for good: nothing that the client still sends is forwarded, so
a client that is broken off inside this process reaches the server exactly as far as one that got SIGKILL. A request that was forwarded is
carried out, whether or not anybody is left to hear the answer.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
from aiohttp import web

from applier.kube.http_transport import abort_connection
from gitops.clock import wait_for_any
from tests.support.cluster.control_plane import ControlPlane

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
READS = frozenset({"GET"})
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server"})


class Moment(StrEnum):
    """Where in the course of a request something happens: the server has not seen it; it has carried it out; the client knows."""

    RECEIVED = "received"
    FORWARDED = "forwarded"
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Kill:
    """The client dies."""

    moment: Moment


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset, before the server sees the request or in place of its answer."""

    moment: Moment


@dataclass(frozen=True, slots=True)
class Status:
    """Refused with this HTTP status in place of the server; `retry_after` in seconds."""

    code: int
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Carried out, but answered with this HTTP status, as a server does that gave up waiting for its storage."""

    code: int = 504


@dataclass(frozen=True, slots=True)
class Delay:
    """Forwarded after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Neither forwarded nor answered."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Carried out; half of the answer arrives."""


@dataclass(frozen=True, slots=True)
class Garble:
    """Carried out; an answer of the right length that is not JSON."""


@dataclass(frozen=True, slots=True)
class Older:
    """Answered with the first answer that this path ever got, here or in a `memory` that is shared between proxies."""


@dataclass(frozen=True, slots=True)
class Unheard:
    """Of a watch: events that say this `text` somewhere do not arrive; all others do."""

    text: str


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Somebody else does something (`act`) just before the request is forwarded."""

    act: Callable[[], Any]


Fault = Kill | Reset | Status | Lost | Delay | Drop | Truncate | Garble | Older | Unheard | Meanwhile


@dataclass(frozen=True, slots=True)
class Rule:
    """What befalls requests of these methods whose path and query match: the `nth` of them (from 1), `times` in a row; 0 is for ever."""

    fault: Fault
    methods: Collection[str] = WRITES
    path: str = ""
    nth: int = 1
    times: int = 1

    def matches(self, request: Request) -> bool:
        return request.method in self.methods and re.search(self.path, request.path) is not None

    def befalls(self, count: int) -> bool:
        return count >= self.nth and (not self.times or count < self.nth + self.times)


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ProxyResponse:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Upstream:
    """Connections to the real server, shared by many proxies; and requests of the test's own, as another user."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self._tls = ssl.create_default_context(cafile=control_plane.ca_file)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0), auto_decompress=False, trust_env=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def forward(self, request: Request, headers: dict[str, str]) -> ProxyResponse:
        async with self._session.request(
            request.method, self.control_plane.url + request.path, data=request.body or None, headers=headers
        ) as response:
            try:
                return ProxyResponse(response.status, _kept(response.headers), await response.read())
            finally:
                abort_connection(response)

    @asynccontextmanager
    async def watch(self, request: Request, headers: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that goes on for as long as it is wanted."""
        url = self.control_plane.url + request.path
        async with self._session.get(url, headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as response:
            try:
                yield response
            finally:
                response.close()

    async def ask(
        self, method: str, path: str, body: object = None, *, user: str = "person", kind: str = "application/json"
    ) -> ProxyResponse:
        """Its answer is plain: the server packs what is longer than 128 KiB if it may."""
        token = self.control_plane.token(user)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept-Encoding": "identity"}
        return await self.forward(
            Request(method, path, json.dumps(body).encode() if body is not None else b""), headers
        )


@dataclass
class Proxy:
    """Listens from `async with` on, at `url`. `kill` is told when a rule wants the client dead.

    `forwarded` are the requests that reached the server, in the order in which they were sent on.
    """

    upstream: Upstream
    rules: Sequence[Rule] = ()
    memory: dict[str, ProxyResponse] = field(default_factory=dict)
    kill: Callable[[], object] = lambda: None
    dead: bool = False
    killed: bool = False
    forwarded: list[Request] = field(default_factory=list)
    befallen: list[tuple[Rule, Request]] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self._counts = [0] * len(self.rules)
        self._closing = asyncio.Event()
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=20.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for what was forwarded: a late write must not meet the next life."""
        self.dead = True
        self._closing.set()
        await asyncio.sleep(0.01)  # A connection that was just accepted gets a handler first, or nobody would close it.
        await self._runner.cleanup()

    @property
    def writes(self) -> list[Request]:
        return [request for request in self.forwarded if request.method in WRITES]

    def kubeconfig(self, user: str = "levelgate") -> str:
        """A kubeconfig that leads here."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
                "users": [{"name": user, "user": {"token": self.upstream.control_plane.token(user)}}],
                "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": user}}],
                "current-context": "proxy",
            }
        )

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        request = Request(http.method, http.path_qs, await http.read())
        match self._befalling(request):
            case _ if self.dead:
                return _aborted(http)
            case Kill(Moment.RECEIVED):
                self._die()
                return _aborted(http)
            case Kill(moment):
                answer = await self._forward(request, http)
                if moment is Moment.ANSWERED:
                    await _answered(http, answer)
                self._die()
                return _aborted(http)
            case Reset(moment):
                if moment is not Moment.RECEIVED:
                    await self._forward(request, http)
                return _aborted(http)
            case Status(code, retry_after):
                return _response(_refusal(code, retry_after))
            case Lost(code):
                await self._forward(request, http)
                return _response(_refusal(code))
            case Drop():
                await self._closing.wait()
                return _aborted(http)
            case Truncate():
                return await _truncated(http, await self._forward(request, http))
            case Garble():
                answer = await self._forward(request, http)
                return _response(ProxyResponse(answer.status, answer.headers, b"x" * len(answer.body)))
            case Older() if older := self.memory.get(request.path):
                return _response(older)
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case Meanwhile(act):
                await act()
            case Unheard(text):
                return await self._watch(request, http, without=text.encode())
        if "watch=" in request.path:
            return await self._watch(request, http)
        return _response(await self._forward(request, http))

    def _befalling(self, request: Request) -> Fault | None:
        """The fault of the first rule whose turn it is; every rule that matches counts."""
        found = None
        for index, rule in enumerate(self.rules):
            if rule.matches(request):
                self._counts[index] += 1
                if found is None and rule.befalls(self._counts[index]):
                    found = rule
        if found is not None:
            self.befallen.append((found, request))
        return found.fault if found else None

    async def _forward(self, request: Request, http: web.BaseRequest) -> ProxyResponse:
        self.forwarded.append(request)
        try:
            answer = await self.upstream.forward(request, _kept(http.headers))
        except (aiohttp.ClientError, OSError):
            _aborted(http)
            raise
        if request.method == "GET":
            self.memory.setdefault(request.path, answer)
        return answer

    async def _watch(
        self, request: Request, http: web.BaseRequest, *, without: bytes | None = None
    ) -> web.StreamResponse:
        """Events as they come, until either side or the proxy ends."""
        async with self.upstream.watch(request, _kept(http.headers)) as answer:
            response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            await response.prepare(http)
            await wait_for_any(_passed_on(answer, response, without), self._closing.wait())
        return response

    def _die(self) -> None:
        self.dead = self.killed = True
        self.kill()


def _kept(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _refusal(code: int, retry_after: int | None = None) -> ProxyResponse:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "injected", "code": code}
    headers = {"Content-Type": "application/json"}
    return ProxyResponse(
        code, headers if retry_after is None else headers | {"Retry-After": str(retry_after)}, json.dumps(body).encode()
    )


def _response(answer: ProxyResponse) -> web.Response:
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


def _aborted(http: web.BaseRequest) -> web.Response:
    if http.transport is not None:
        http.transport.abort()
    return web.Response(status=500)


async def _answered(http: web.BaseRequest, answer: ProxyResponse) -> None:
    response = _response(answer)
    await response.prepare(http)
    await response.write_eof()


async def _passed_on(answer: aiohttp.ClientResponse, response: web.StreamResponse, without: bytes | None) -> None:
    rest = b""
    with suppress(aiohttp.ClientError, ConnectionError):  # either side may leave at any time
        async for part in answer.content.iter_any():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if without is None or without not in line:
                    await response.write(line + b"\n")


async def _truncated(http: web.BaseRequest, answer: ProxyResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.content_length = len(answer.body)
    await response.prepare(http)
    await response.write(answer.body[: len(answer.body) // 2])
    if http.transport is not None:
        http.transport.close()
    return response
