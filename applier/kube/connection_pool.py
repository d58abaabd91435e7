"""Kept-alive connections to one server, each for one request at a time, on the response protocol of aiohttp.

The session of aiohttp needs more than half of the CPU time of a short request. The session spends this time on
cookies, redirects, forms, hooks, and a new URL and headers for each request. Requests to an API server need none of
these features. The protocol alone does the hard part, which is framing, decompression, and the end of connections. The
pool does not support proxies, for which `http_transport` uses the session.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from asyncio import get_running_loop
from functools import partial
from math import inf
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError

from applier.kube.transport_port import BrokenError, HttpAnswer, NotSentError
from renderer.frozen import dataclass

MAX_IDLE_SECONDS: Final = 15.0
"""Seconds for which the pool keeps an idle connection. The sessions of aiohttp keep connections for the same time.
Servers and load balancers keep connections for a longer time.
"""

_CHECK_SECONDS: Final = 1.0
"""Seconds between two checks for overdue requests."""

_READ_BUFFER_BYTES: Final = 2**21
_HAPPY_EYEBALLS_SECONDS: Final = 0.25
"""Seconds after which the pool tries the next address of the server in parallel (RFC 8305, section 5)."""

_SWITCHING_PROTOCOLS: Final = 101

_REPEATABLE_METHODS: Final = frozenset({"GET", "DELETE"})
"""Methods that the pool sends once more if a kept-alive connection turns out to be dead.

The preconditions of a second DELETE find the object deleted or changed, so the second DELETE does no harm.
"""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Host, port and TLS settings of a server."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    """TLS settings, or None for plain HTTP."""
    tls_name: str
    """Name that the certificate of the server must have."""

    async def connect(self, timeout_seconds: float | None) -> ResponseHandler:
        """Open a connection within `timeout_seconds`.

        Raises: NotSentError.
        """
        loop = get_running_loop()
        options: dict[str, Any] = {"ssl": self.tls, "server_hostname": self.tls_name} if self.tls else {}
        try:
            async with asyncio.timeout(timeout_seconds) as limit:
                _, connection = await loop.create_connection(
                    partial(ResponseHandler, loop),
                    self.host,
                    self.port,
                    happy_eyeballs_delay=_HAPPY_EYEBALLS_SECONDS,
                    **options,
                )
        except ssl.SSLError as error:
            raise NotSentError(f"{self.host}:{self.port}: {error}", is_final=True) from None
        except OSError as error:  # includes TimeoutError, also from the system
            if limit.expired():
                raise NotSentError(f"no connection within {timeout_seconds or 0:g} s") from None
            raise NotSentError(f"{self.host}:{self.port}: {describe_os_error(error)}") from None
        return connection


class ConnectionPool:
    """Kept-alive connections to one server.

    The sender limits requests in flight, and thereby the number of connections.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._idle: list[tuple[ResponseHandler, float]] = []
        self._deadlines: dict[ResponseHandler, float] = {}
        self._overdue: set[ResponseHandler] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_retired = self._is_closed = False

    async def exchange(self, method: str, request: bytes, limits: aiohttp.ClientTimeout) -> HttpAnswer:
        """Send one request and return its answer.

        Raises: NotSentError, BrokenError, TimeoutError, and errors of aiohttp for connections that end.
        """
        if (kept := self._take_idle()) is not None:  # a protocol of aiohttp is a queue: false if empty
            try:
                return await self._send(kept, request, limits)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                if method not in _REPEATABLE_METHODS or self._is_retired:
                    raise
        connection = await self._address.connect(limits.sock_connect)
        if self._is_closed:
            connection.abort()
            raise NotSentError("the connection pool is closed")
        return await self._send(connection, request, limits)

    def retire(self) -> None:
        """Close idle connections, and keep no connection from now on. Requests in flight still get their answers."""
        self._is_retired = True
        for connection, _ in self._idle:
            connection.abort()
        self._idle.clear()

    def close(self) -> None:
        """Close all connections, including connections with requests in flight."""
        self.retire()
        self._is_closed = True
        for connection in self._deadlines:
            _cut(connection)

    async def _send(self, connection: ResponseHandler, request: bytes, limits: aiohttp.ClientTimeout) -> HttpAnswer:
        transport = connection.transport
        if transport is None:
            raise NotSentError("the server closed the new connection at once")
        self._begin(connection, limits.total)
        try:
            connection.set_response_params(
                read_until_eof=True, read_timeout=limits.sock_read, read_bufsize=_READ_BUFFER_BYTES
            )
            transport.write(request)
            if limits.sock_read:
                connection.start_timeout()
            message, payload = await connection.read()
            while message.code < 200 and message.code != _SWITCHING_PROTOCOLS:  # RFC 9110, section 15.2
                message, payload = await connection.read()
            body = payload.read_nowait() if payload.is_eof() else await payload.read()
            if connection in self._overdue:  # without a Content-Length, a cut looks like the end of the answer
                raise TimeoutError
        except BaseException as error:  # also a cancellation: otherwise the next request would get this answer
            connection.abort()
            if connection in self._overdue:
                raise TimeoutError from None
            if isinstance(error, HttpProcessingError):  # the error quotes the answer, which may hold a Secret
                raise BrokenError(
                    "the answer is not HTTP; check the proxies between Levelgate and the server"
                ) from None
            raise
        finally:
            self._end(connection)
        if self._is_retired or connection.should_close or transport.get_write_buffer_size():
            connection.abort()
        else:
            self._idle.append((connection, get_running_loop().time()))
        return HttpAnswer(message.code, message.headers, body)

    def _begin(self, connection: ResponseHandler, seconds: float | None) -> None:
        """Set the deadline of a request, `seconds` from now. A single timer serves all deadlines."""
        loop = get_running_loop()
        self._deadlines[connection] = inf if seconds is None else loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(_CHECK_SECONDS, self._cut_overdue)

    def _end(self, connection: ResponseHandler) -> None:
        del self._deadlines[connection]
        self._overdue.discard(connection)
        if self._timer and not self._deadlines:
            self._timer.cancel()
            self._timer = None

    def _cut_overdue(self) -> None:
        loop = get_running_loop()
        now, self._timer = loop.time(), loop.call_later(_CHECK_SECONDS, self._cut_overdue)
        for connection, deadline in self._deadlines.items():
            if deadline <= now:
                self._overdue.add(connection)
                _cut(connection)

    def _take_idle(self) -> ResponseHandler | None:
        """Return the most recently used connection that is still usable, or None if no idle connection is usable.

        If the server has ended a connection, or if the connection has been idle for too long, the connection is not
        usable.
        """
        oldest = get_running_loop().time() - MAX_IDLE_SECONDS
        while self._idle:
            connection, idle_since = self._idle.pop()
            if idle_since >= oldest and connection.is_connected() and not connection.should_close:
                return connection
            connection.abort()
        return None


def _cut(connection: ResponseHandler) -> None:
    """Close a connection so that the reader of the answer receives an error."""
    if connection.transport is not None:
        connection.transport.abort()


def describe_os_error(error: OSError) -> str:
    """Return the reason of `error` as text, such as `Connection refused`.

    The error of a failed name lookup has a negative number, and contains its own text.
    """
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
