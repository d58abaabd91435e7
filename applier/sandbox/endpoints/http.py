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
from applier.sandbox.endpoints.transport import Door
from applier.sandbox.wire import LARGEST_BODY, DroppedError, Refusal, Request, Response

HOST = "127.0.0.1"

_CONTEXT = "levelgate-sandbox"


@asynccontextmanager
async def served(door: Door, *, port: int = 0) -> AsyncIterator[str]:
    """Serve until the block ends; gives the URL. `port` 0 takes a free one.

    Raises ConfigurationError if the port cannot be had.
    """
    stopping = asyncio.Event()
    server = web.Server(_Handler(door, stopping), access_log=None, tcp_keepalive=True)
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


_OURSELVES = frozenset({HOST, "localhost"})
_OTHER_HOST = Refusal(403, "Forbidden", f"the sandbox answers to {HOST} and localhost only").response
"""A page in a browser can make a name of its own lead here (DNS rebinding); its requests still carry that name."""

_TOO_LARGE = Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY}").response


class _Handler:
    def __init__(self, door: Door, stopping: asyncio.Event) -> None:
        self._door = door
        self._stopping = stopping

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await _body(request)
        if body is None:
            return _whole(_TOO_LARGE)
        headers = {name.lower(): value for name, value in request.headers.items()}
        if _host(headers.get("host", "")) not in _OURSELVES:
            return _whole(_OTHER_HOST)
        try:
            response = await self._door(Request(request.method, request.raw_path, headers, body))
        except DroppedError:
            return _dropped(request)
        return _whole(response) if response.stream is None else await self._stream(request, response, response.stream)

    async def _stream(
        self, request: web.BaseRequest, response: Response, events: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Until the watch or the client ends, or the server stops."""
        stream = web.StreamResponse(status=response.status, headers={"Content-Type": response.content_type})
        await stream.prepare(request)
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                more = asyncio.ensure_future(anext(events, None))
                await asyncio.wait((more, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not more.done():
                    more.cancel()
                    await asyncio.gather(more, return_exceptions=True)
                    break
                chunk = more.result()
                if chunk is None:
                    break
                if chunk:
                    await stream.write(chunk)
        except DroppedError:
            return _dropped(request)
        except ConnectionResetError:
            pass
        finally:
            stopped.cancel()
            await events.aclose()  # type: ignore[attr-defined]
        return stream


def _host(header: str) -> str:
    return header.rpartition(":")[0] or header


async def _body(request: web.BaseRequest) -> bytes | None:
    """The body, None if it is too large."""
    if not request.body_exists:
        return b""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > LARGEST_BODY:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _whole(response: Response) -> web.Response:
    headers = {"Content-Type": response.content_type, "Cache-Control": "no-cache, private", **response.headers}
    return web.Response(status=response.status, body=response.body, headers=headers)


def _dropped(request: web.BaseRequest) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
