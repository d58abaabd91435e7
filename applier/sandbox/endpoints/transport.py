"""In-process endpoint, through which `KubeCluster`, the adapter of real servers, calls a sandbox without a socket.

Through this endpoint, real servers and sandboxes share the code for discovery, pages, retries and the translation of
refusals. The endpoint imports neither aiohttp nor `kubernetes`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

from applier.kube.cluster import KubeCluster
from applier.kube.transport_port import BrokenError, HttpAnswer, NotSentError, StreamedAnswer
from applier.sandbox.wire import ConnectionDroppedError, Request, Response

RequestHandler = Callable[[Request], Awaitable[Response]]
"""Function that answers requests, such as `Sandbox.answer`.

Raises: ConnectionDroppedError if the sandbox drops the connection.
"""


def cluster_of(
    handler: RequestHandler,
    *,
    name: str = "sandbox",
    concurrency: int = 16,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: Callable[[], float] = random.random,
) -> KubeCluster:
    """Return an adapter of `applier.cluster.Cluster` to a sandbox in this process: `cluster_of(sandbox.answer)`."""
    return KubeCluster(SandboxTransport(handler, name), concurrency=concurrency, sleep=sleep, rng=rng)


class SandboxTransport:
    """Transport (`applier.kube.transport_port.Transport`) that passes requests to a handler in this process."""

    namespace = "default"

    def __init__(self, handler: RequestHandler, name: str) -> None:
        self.name = name
        self._handler = handler

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        lower_headers = {key.lower(): value for key, value in headers.items()}
        await asyncio.sleep(0)  # as with a real server, other tasks may run before the answer
        try:
            response = await self._handler(Request(method, path, lower_headers, body or b""))
        except ConnectionDroppedError as dropped:
            raise (BrokenError if dropped.request_sent else NotSentError)(str(dropped)) from None
        assert response.stream is None, "`send` cannot read a watch; use `stream`"
        return HttpAnswer(response.status, {"Content-Type": response.content_type, **response.headers}, response.body)

    @asynccontextmanager
    async def stream(self, path: str, *, headers: Mapping[str, str], silence: float) -> AsyncIterator[StreamedAnswer]:
        lower_headers = {key.lower(): value for key, value in headers.items()}
        try:
            response = await self._handler(Request("GET", path, lower_headers, b""))
            async with aclosing(_read_chunks(response, silence)) as chunks:
                yield StreamedAnswer(response.status, response.headers, response.body, chunks)
        except ConnectionDroppedError as dropped:
            raise (BrokenError if dropped.request_sent else NotSentError)(str(dropped)) from None

    async def renew(self) -> bool:
        """Return True, because a sandbox has no credentials to renew."""
        return True

    async def close(self) -> None:
        """Do nothing, because a sandbox has no connection to close."""


async def _read_chunks(response: Response, silence: float) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a watch.

    If the response is a refusal, yield no chunk, because a refusal has a body and no stream.
    """
    if response.stream is None:
        return
    stream = aiter(response.stream)
    while True:
        try:
            async with asyncio.timeout(silence):  # not `wait_for`, which may swallow a cancellation
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise BrokenError(f"no answer within {silence:g} s", seconds=silence) from None
        yield chunk
