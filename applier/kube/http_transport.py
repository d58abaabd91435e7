"""Requests to one API server: TLS, time limits, credentials that are rotated. Bytes go out, bytes come in.

Each request is sent once; `client` decides whether it is sent again. Requests go by `connection_pool`. Watches, and all
that a proxy passes on, go by the session of `kubernetes.aio`'s REST layer. The layer's own `request` is used for neither:
it serialises bodies again, and asks the environment for a proxy on each request.

What failed is said by two exceptions: `NotSentError` (the server has certainly not seen the request) and `BrokenError`
(it may have).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Any, Self

import aiohttp
from yarl import URL

from applier.kube.connection_pool import ConnectionPool, ServerAddress, describe_os_error
from applier.kube.kubeconfig import Endpoint, KubeconfigSource
from applier.kube.transport_port import BrokenError, HttpAnswer, NotSentError, StreamedAnswer

CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, TOTAL_TIMEOUT_SECONDS = 5.0, 30.0, 300.0

_READ_TIMEOUT = aiohttp.ClientTimeout(
    TOTAL_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=READ_TIMEOUT_SECONDS
)
_WRITE_TIMEOUT = aiohttp.ClientTimeout(READ_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS)
"""The answer to a write is short: one timer for the whole of it does what a new one for each of its parts would."""

_LINE_END = re.compile(r"[\r\n\0]")


class HttpTransport:
    """What is sent to one API server; credentials and certificates are read again once when either side does not accept the other's."""

    def __init__(self, source: KubeconfigSource, endpoint: Endpoint) -> None:
        self._source = source
        self._retired: list[tuple[aiohttp.ClientSession, ConnectionPool | None]] = []
        self._renewal_lock = asyncio.Lock()
        self._epoch = 0
        self._use(endpoint)

    @classmethod
    async def open(cls, source: KubeconfigSource) -> Self:
        """Raises ConfigurationError."""
        return cls(source, await source.load())

    def _use(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session, self._pool = _create_session(endpoint), _create_pool(endpoint)
        configuration = endpoint.configuration
        url = URL(configuration.host, encoded=True)
        self._host, self._path_prefix = url.host_port_subcomponent or "", url.raw_path.rstrip("/")
        options = {"proxy": configuration.proxy, "server_hostname": configuration.tls_server_name}
        self._options = {name: value for name, value in options.items() if value}

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def namespace(self) -> str:
        return self._endpoint.namespace

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        """One request. A 401, and a server whose certificate is not trusted, is tried again once with credentials and certificates as they are
        now: either may have been rotated. `path` is percent-encoded, with its query.

        Raises NotSentError, BrokenError, and ConfigurationError if credentials can no longer be read.
        """
        epoch = self._epoch
        try:
            answer = await self._send_once(method, path, headers=headers, body=body)
        except NotSentError as error:
            if not error.is_final:
                raise
        else:
            if answer.status != 401:
                return answer
        await self._renew(epoch)
        return await self._send_once(method, path, headers=headers, body=body)

    async def _send_once(self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        timeout = _READ_TIMEOUT if method == "GET" else _WRITE_TIMEOUT
        try:
            if self._pool:
                pool, head = self._pool, _encode_head(self._host, tuple((await self._all_headers(headers)).items()))
                request = _encode_request(method, self._path_prefix + path, head, body)
                return await pool.exchange(method, request, timeout)
            async with await self._request(method, path, headers, data=body, timeout=timeout) as response:
                try:
                    return HttpAnswer(response.status, response.headers, await response.read())
                finally:
                    abort_connection(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _translate_failure(error, READ_TIMEOUT_SECONDS) from None

    @asynccontextmanager
    async def stream(self, path: str, *, headers: Mapping[str, str], silence: float) -> AsyncIterator[StreamedAnswer]:
        """One GET whose answer goes on; a 401 renews the credentials for the next one."""
        epoch = self._epoch
        timeout = aiohttp.ClientTimeout(None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=silence)
        try:
            async with await self._request("GET", path, headers, timeout=timeout) as response:
                try:
                    is_refusal = response.status >= 400
                    body = await response.read() if is_refusal else b""
                    if response.status == 401:
                        await self._renew(epoch)
                    yield StreamedAnswer(response.status, response.headers, body, response.content.iter_any())
                finally:
                    abort_connection(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _translate_failure(error, silence) from None

    async def _request(
        self, method: str, path: str, headers: Mapping[str, str], **options: Any
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """An answer of which the body is still to be read."""
        url = URL(self._endpoint.configuration.host + path, encoded=True)
        all_headers = await self._all_headers(headers)
        return self._session.request(
            method, url, headers=all_headers, allow_redirects=False, **self._options, **options
        )

    async def _all_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request with those of the configuration."""
        # Asks the configuration each time: in a pod it reads the token file again once a minute.
        token = await self._endpoint.configuration.get_api_key_with_prefix("BearerToken")
        # Who asks in somebody's name does so with nothing of the name that the kubeconfig would ask in, such as its uid.
        all_headers = {**headers} if "Impersonate-User" in headers else {**headers, **self._endpoint.headers}
        if token:
            all_headers["Authorization"] = token.strip()
        return all_headers

    async def _renew(self, epoch: int) -> None:
        """Read the configuration again, once for all requests that were refused with the same credentials."""
        async with self._renewal_lock:
            if self._epoch != epoch:
                return
            endpoint = await self._source.load()
            self._retired.append((self._session, self._pool))  # other requests may still be using them
            if self._pool:
                self._pool.retire()
            self._use(endpoint)
            self._epoch += 1

    async def close(self) -> None:
        for session, pool in (*self._retired, (self._session, self._pool)):
            if pool:
                pool.close()
            await session.close()


def abort_connection(response: aiohttp.ClientResponse) -> None:
    """End an answer that is not read to its end, such as a watch, with its connection: a farewell over TLS waits for the server, and asyncio
    leaves the socket open where the loop ends first.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def _create_session(endpoint: Endpoint) -> aiohttp.ClientSession:
    endpoint.configuration.client_session_kwargs = {
        "trust_env": False,
        "cookie_jar": aiohttp.DummyCookieJar(),
    }
    session = endpoint.client._create_pool_manager()
    assert isinstance(session, aiohttp.ClientSession)
    return session


def _create_pool(endpoint: Endpoint) -> ConnectionPool | None:
    """Return the connections to the server itself; None where a proxy, or a password in the URL, has to be dealt with."""
    configuration, url = endpoint.configuration, URL(endpoint.configuration.host, encoded=True)
    if configuration.proxy or url.raw_user or not url.raw_host or not url.port:
        return None
    tls = endpoint.client.ssl_context if url.scheme == "https" else None
    host = url.raw_host.rstrip(".")
    return ConnectionPool(ServerAddress(host, url.port, tls, configuration.tls_server_name or host))


def _encode_request(method: str, target: str, head: bytes, body: bytes | None) -> bytes:
    """Return the bytes of a request. Raises ValueError where the target would end the line that it stands in."""
    if not (target.isascii() and target.isprintable()) or " " in target:
        raise ValueError(f"{method} {target!r}: not percent-encoded")
    if body is None:
        return b"%b %b HTTP/1.1\r\n%b\r\n" % (method.encode(), target.encode(), head)
    return b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
        method.encode(),
        target.encode(),
        head,
        len(body),
        body,
    )


@lru_cache(maxsize=256)
def _encode_head(host: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return the lines of the headers that many requests have. Raises ValueError, without the value, where one would end its line."""
    lines = []
    for name, value in (("Host", host), ("Accept-Encoding", "gzip, deflate"), *headers):
        if not value or _LINE_END.search(value):
            raise ValueError(f"header {name}: empty, or more than one line")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode()


def _translate_failure(error: Exception, silence: float) -> NotSentError | BrokenError:
    """What went wrong until the body was read; `silence`: so many seconds without a byte are too long."""
    match error:
        case aiohttp.ClientSSLError():
            return NotSentError(_error_text(error), is_final=True)
        case aiohttp.ConnectionTimeoutError():
            return NotSentError(f"no connection within {CONNECT_TIMEOUT_SECONDS:g} s")
        case aiohttp.ClientConnectorError():
            return NotSentError(f"{error.host}:{error.port}: {describe_os_error(error.os_error)}")
        case TimeoutError():
            return BrokenError(f"no answer within {silence:g} s", seconds=silence)
        case _:
            return BrokenError(_error_text(error))


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
