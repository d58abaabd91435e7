"""The door for everybody on this machine: plain HTTP on loopback, for kubectl and for Levelgate itself.

Invariants: it listens on 127.0.0.1 only, it knows nobody (whoever can connect may do everything), and no request can
make it keep more than one body of the largest size.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from applier.errors import ConfigurationError
from applier.sandbox.endpoints.transport import RequestHandler
from applier.sandbox.wire import MAX_BODY_BYTES, ConnectionDroppedError, Refusal, Request, Response

HOST = "127.0.0.1"

_CONTEXT = "levelgate-sandbox"


@asynccontextmanager
async def serve(handler: RequestHandler, *, port: int = 0) -> AsyncIterator[str]:
    """Serve until the block ends; gives the URL. `port` 0 takes a free one.

    Raises ConfigurationError if the port cannot be had.
    """
    stopping = asyncio.Event()
    server = web.Server(_Handler(handler, stopping), access_log=None, tcp_keepalive=True)
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        try:
            await site.start()
        except OSError as error:
            message = f"port {port} of {HOST} cannot be used: {error.strerror}: choose another one with --port"
            raise ConfigurationError(message) from None
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        stopping.set()
        await runner.cleanup()


def write_kubeconfig(file: Path, url: str) -> None:
    """A kubeconfig for the server at `url`, with one context. Raises OSError."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _CONTEXT, "cluster": {"server": url}}],
        "users": [{"name": _CONTEXT, "user": {}}],
        "contexts": [{"name": _CONTEXT, "context": {"cluster": _CONTEXT, "user": _CONTEXT}}],
        "current-context": _CONTEXT,
    }
    file.write_text(json.dumps(config, indent=2) + "\n")


_ALLOWED_HOSTS = frozenset({HOST, "localhost"})
_FOREIGN_HOST_RESPONSE = Refusal(403, "Forbidden", f"the sandbox answers to {HOST} and localhost only").response
"""A page in a browser can make a name of its own lead here (DNS rebinding); its requests still carry that name."""

_TOO_LARGE_RESPONSE = Refusal(
    413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}"
).response


class _Handler:
    def __init__(self, handler: RequestHandler, stopping: asyncio.Event) -> None:
        self._handler = handler
        self._stopping = stopping

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await _read_body(request)
        if body is None:
            return _to_web_response(_TOO_LARGE_RESPONSE)
        headers = {name.lower(): value for name, value in request.headers.items()}
        host = headers.get("host", "")
        if (host.rpartition(":")[0] or host) not in _ALLOWED_HOSTS:
            return _to_web_response(_FOREIGN_HOST_RESPONSE)
        try:
            response = await self._handler(Request(request.method, request.raw_path, headers, body))
        except ConnectionDroppedError:
            return _abort_connection(request)
        return (
            _to_web_response(response)
            if response.stream is None
            else await self._stream(request, response, response.stream)
        )

    async def _stream(
        self, request: web.BaseRequest, response: Response, events: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Until the watch or the client ends, or the server stops."""
        stream = web.StreamResponse(status=response.status, headers={"Content-Type": response.content_type})
        await stream.prepare(request)
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                next_chunk = asyncio.ensure_future(anext(events, None))
                await asyncio.wait((next_chunk, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not next_chunk.done():
                    next_chunk.cancel()
                    await asyncio.gather(next_chunk, return_exceptions=True)
                    break
                chunk = next_chunk.result()
                if chunk is None:
                    break
                if chunk:
                    await stream.write(chunk)
        except ConnectionDroppedError:
            return _abort_connection(request)
        except ConnectionResetError:
            pass
        finally:
            stopped.cancel()
            await events.aclose()  # type: ignore[attr-defined]
        return stream


async def _read_body(request: web.BaseRequest) -> bytes | None:
    """The body, None if it is too large."""
    if not request.body_exists:
        return b""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _to_web_response(response: Response) -> web.Response:
    headers = {"Content-Type": response.content_type, "Cache-Control": "no-cache, private", **response.headers}
    return web.Response(status=response.status, body=response.body, headers=headers)


def _abort_connection(request: web.BaseRequest) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
