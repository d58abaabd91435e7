"""HTTP transport to one API server: TLS, time limits, rotated credentials.

The transport sends each request once, and `client` decides on retries. Plain requests use `connection_pool`. Watches,
and all requests through a proxy, use the session of the REST layer of `kubernetes.aio`. The transport avoids the
`request` method of that layer. On each request, that method serialises the body again, and looks for a proxy in the
environment.

Two exceptions distinguish failures. After `NotSentError` the server has certainly not seen the request. After
`BrokenError` the server may have seen the request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any, Self

import aiohttp
from yarl import URL

from applier.errors import ConfigurationError
from applier.kube.connection_pool import ConnectionPool, ServerAddress, describe_os_error
from applier.kube.kubeconfig import Endpoint, KubeconfigSource
from applier.kube.transport_port import BrokenError, HttpAnswer, NotSentError, StreamedAnswer

CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, TOTAL_TIMEOUT_SECONDS = 5.0, 30.0, 300.0

_LINE_END = re.compile(r"[\r\n\0]")


class _Connections:
    """All connections with one client certificate. `requests` counts requests in flight, including watches."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.session, self.pool = _create_session(endpoint), _create_pool(endpoint)
        self.requests = 0

    def retire(self) -> None:
        """Close idle connections, and keep no connection from now on. Requests in flight continue."""
        if self.pool:
            self.pool.retire()

    @contextmanager
    def use(self) -> Iterator[Self]:
        self.requests += 1
        try:
            yield self
        finally:
            self.requests -= 1

    async def close(self) -> None:
        if self.pool:
            self.pool.close()
        await self.session.close()


class HttpTransport:
    """Transport to one API server, across changes of its credentials.

    If the server rejects the credentials, or the client rejects the certificate of the server, the transport reads the
    configuration again. `renew` does the same. Requests in flight, including watches, end with the credentials with
    which they began. A new token needs no new connections.

    Args:
        keeps_server: true if the transport rejects another address or certificate authority, which may belong to
            another cluster.
        silence_seconds: longest wait for the next bytes of a read, and for the answer to a write.
    """

    def __init__(
        self,
        source: KubeconfigSource,
        endpoint: Endpoint,
        *,
        keeps_server: bool = False,
        silence_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        self._source, self._keeps_server, self._silence_seconds = source, keeps_server, silence_seconds
        self._read_timeout = aiohttp.ClientTimeout(
            TOTAL_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=silence_seconds
        )
        # The answer to a write is short, so one timer for the whole answer replaces a new timer for each part.
        self._write_timeout = aiohttp.ClientTimeout(silence_seconds, sock_connect=CONNECT_TIMEOUT_SECONDS)
        self._retired: list[_Connections] = []
        self._renewal_lock = asyncio.Lock()
        self._epoch = 0
        self._connections = _Connections(endpoint)
        self._use(endpoint)

    @classmethod
    async def open(
        cls,
        source: KubeconfigSource,
        *,
        keeps_server: bool = False,
        silence_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> Self:
        """Return a transport with the configuration of `source`.

        Raises: ConfigurationError.
        """
        return cls(source, await source.load(), keeps_server=keeps_server, silence_seconds=silence_seconds)

    def _use(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
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
        """Send one request.

        After a 401, the credentials may have changed, so the transport sends the request again with the present
        credentials. If the client does not trust the certificate of the server, the transport sends the request again
        with the present certificates.

        Args:
            path: percent-encoded path with its query.

        Raises: NotSentError, BrokenError, and ConfigurationError if credentials can no longer be read.
        """
        epoch = self._epoch
        try:
            answer = await self._send_once(method, path, headers=headers, body=body)
        except NotSentError as error:
            if not error.is_final:
                raise
            await self._renew(epoch, connects_anew=True)
        else:
            if answer.status != 401:
                return answer
            await self._renew(epoch)
        return await self._send_once(method, path, headers=headers, body=body)

    async def _send_once(self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        timeout = self._read_timeout if method == "GET" else self._write_timeout
        try:
            with self._connections.use() as connections:
                if pool := connections.pool:
                    head = _encode_head(self._host, tuple((await self._all_headers(headers)).items()))
                    request = _encode_request(method, self._path_prefix + path, head, body)
                    return await pool.exchange(method, request, timeout)
            async with self._request(method, path, headers, data=body, timeout=timeout) as response:
                return HttpAnswer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            raise _translate_failure(error, self._silence_seconds) from None

    @asynccontextmanager
    async def stream(self, path: str, *, headers: Mapping[str, str], silence: float) -> AsyncIterator[StreamedAnswer]:
        """Send one GET whose answer has no end. After a 401, renew the credentials for the next request.

        Args:
            silence: seconds for which the server may send nothing.

        Raises: NotSentError, BrokenError, and ConfigurationError if credentials can no longer be read.
        """
        epoch = self._epoch
        timeout = aiohttp.ClientTimeout(None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=silence)
        try:
            async with self._request("GET", path, headers, timeout=timeout) as response:
                is_refusal = response.status >= 400
                body = await response.read() if is_refusal else b""
                if response.status == 401:
                    await self._renew(epoch)
                yield StreamedAnswer(response.status, response.headers, body, response.content.iter_any())
        except (aiohttp.ClientError, OSError) as error:
            raise _translate_failure(error, silence) from None

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, headers: Mapping[str, str], **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and yield the answer before reading its body."""
        url = URL(self._endpoint.configuration.host + path, encoded=True)
        all_headers = await self._all_headers(headers)
        with self._connections.use() as connections:
            async with connections.session.request(
                method, url, headers=all_headers, allow_redirects=False, **self._options, **options
            ) as response:
                try:
                    yield response
                finally:
                    abort_connection(response)

    async def _all_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return `headers` together with the headers of the configuration."""
        # The headers are built for each request, because in a pod the configuration reads the token file once a minute.
        token = await self._endpoint.configuration.get_api_key_with_prefix("BearerToken")
        # Two identities must not mix: the kubeconfig's own impersonation may include the uid of another user.
        all_headers = {**headers} if "Impersonate-User" in headers else {**headers, **self._endpoint.headers}
        if token:
            all_headers["Authorization"] = token.strip()
        return all_headers

    async def renew(self) -> bool:
        """Read a changed configuration and use the new configuration from now on.

        A transport never changes its server. If the configuration names another server or certificate
        authority, change nothing and return False.

        Raises: ConfigurationError if the configuration cannot be read. In this case, nothing changes.
        """
        async with self._renewal_lock:
            endpoint = await self._source.load()
            if endpoint.server != self._endpoint.server:
                return False
            await self._replace(endpoint)
            return True

    async def _renew(self, epoch: int, *, connects_anew: bool = False) -> None:
        """Read the configuration again, once for all requests that the server refused with the same credentials.

        Raises: ConfigurationError if the configuration cannot be read, or if the configuration is for another server.
        """
        async with self._renewal_lock:
            if self._epoch != epoch:
                return
            endpoint = await self._source.load()
            if self._keeps_server and endpoint.server != self._endpoint.server:
                raise ConfigurationError(
                    f"{self.name}: the server refuses the credentials, and the new credentials are for another server "
                    "or certificate authority; check that the kubeconfig belongs to the same cluster"
                )
            await self._replace(endpoint, connects_anew=connects_anew)

    async def _replace(self, endpoint: Endpoint, *, connects_anew: bool = False) -> None:
        """Use the credentials of `endpoint` from now on. Requests in flight may still use the former credentials."""
        if connects_anew or endpoint.connection != self._endpoint.connection:
            before, self._connections = self._connections, _Connections(endpoint)
            before.retire()
            self._retired.append(before)
        self._use(endpoint)
        self._epoch += 1
        unused = [connections for connections in self._retired if not connections.requests]
        self._retired = [connections for connections in self._retired if connections.requests]
        for connections in unused:
            await connections.close()

    async def close(self) -> None:
        for connections in (*self._retired, self._connections):
            await connections.close()


def abort_connection(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer, such as a watch, that the reader does not read to the end.

    A regular TLS shutdown would wait for the server. If the event loop ends first, asyncio leaves the socket open.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def _create_session(endpoint: Endpoint) -> aiohttp.ClientSession:
    endpoint.client.configuration.client_session_kwargs = {
        "trust_env": False,
        "cookie_jar": aiohttp.DummyCookieJar(),
    }
    session = endpoint.client._create_pool_manager()
    assert isinstance(session, aiohttp.ClientSession)
    return session


def _create_pool(endpoint: Endpoint) -> ConnectionPool | None:
    """Return a pool of direct connections, or None if requests have to use the session.

    A proxy, or a password in the URL, needs the session.
    """
    configuration, url = endpoint.configuration, URL(endpoint.configuration.host, encoded=True)
    if configuration.proxy or url.raw_user or not url.raw_host or not url.port:
        return None
    tls = endpoint.client.ssl_context if url.scheme == "https" else None
    host = url.raw_host.rstrip(".")
    return ConnectionPool(ServerAddress(host, url.port, tls, configuration.tls_server_name or host))


def _encode_request(method: str, target: str, head: bytes, body: bytes | None) -> bytes:
    """Return the bytes of a request.

    Raises: ValueError if the target has characters that would end the request line.
    """
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
    """Return the header lines that many requests share.

    Raises: ValueError, without the value, if a value is empty or has several lines.
    """
    lines = []
    for name, value in (("Host", host), ("Accept-Encoding", "gzip, deflate"), *headers):
        if not value or _LINE_END.search(value):
            raise ValueError(f"header {name}: empty, or more than one line")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode()


def _translate_failure(error: Exception, silence: float) -> NotSentError | BrokenError:
    """Return the exception of the transport port that corresponds to `error`.

    Args:
        silence: limit in seconds between two bytes.
    """
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
