"""HTTP endpoint on loopback, for kubectl and for Levelgate on the same machine.

The endpoint listens on 127.0.0.1 only. The endpoint has no authentication, so every client that can connect may send
every request. A request body uses at most `MAX_BODY_BYTES` of memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from applier.errors import ConfigurationError
from applier.sandbox.endpoints.cut_switch import CUT_PATH
from applier.sandbox.endpoints.transport import RequestHandler
from applier.sandbox.wire import MAX_BODY_BYTES, ConnectionDroppedError, Refusal, Request, Response

HOST = "127.0.0.1"

_SOLE_NAME = "levelgate-sandbox"
_SWITCH_SECONDS = 10.0


@asynccontextmanager
async def serve(handler: RequestHandler, *, port: int = 0) -> AsyncIterator[str]:
    """Serve `handler` until the block ends, and yield the URL.

    If `port` is 0, the operating system chooses a free port.

    Raises: ConfigurationError if `port` cannot be used.
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
            message = f"port {port} of {HOST} cannot be used: {error.strerror}; choose another port with --port"
            raise ConfigurationError(message) from None
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        stopping.set()
        await runner.cleanup()


def context_names(clusters: int) -> list[str]:
    """Return the names of the contexts for a sandbox and `clusters` further clusters: `hub`, `c0`, `c1`, and so on.

    If `clusters` is 0, the only name is `levelgate-sandbox`.
    """
    return ["hub", *(f"c{number}" for number in range(clusters))] if clusters else [_SOLE_NAME]


def write_kubeconfig(file: Path, url: str, *others: str) -> None:
    """Write a kubeconfig to `file`, with a context for the server at `url` and a context for each URL in `others`.

    The contexts have the names of `context_names`. The context for `url` is the current context.

    Raises: OSError if the file cannot be written.
    """
    names = context_names(len(others))
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server}} for name, server in zip(names, (url, *others), strict=True)
        ],
        "users": [{"name": _SOLE_NAME, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": _SOLE_NAME}} for name in names],
        "current-context": names[0],
    }
    file.write_text(json.dumps(config, indent=2) + "\n")


async def set_cut(url: str, *, is_cut: bool) -> None:
    """If `is_cut` is true, cut off the sandbox at `url`. Otherwise heal the cut.

    Raises: ConfigurationError if the sandbox cannot be reached, or has no switch.
    """
    timeout = ClientTimeout(_SWITCH_SECONDS)
    try:
        async with (
            ClientSession(timeout=timeout) as session,
            session.request("PUT" if is_cut else "DELETE", url + CUT_PATH) as response,
        ):
            if response.status == 200:
                return
            detail = f"it answers with status {response.status}"
    except (ClientError, TimeoutError):
        detail = "it does not answer"
    raise ConfigurationError(f"the sandbox at {url} cannot be cut off or healed: {detail}; start the sandbox again")


_ALLOWED_HOSTS = frozenset({HOST, "localhost"})
_FOREIGN_HOST_RESPONSE = Refusal(
    403, "Forbidden", f"the sandbox answers to {HOST} and localhost only; use one of these hosts"
).response
"""Answer to a request with a foreign Host header. The refusal prevents DNS rebinding: a web page can make its own host
name resolve to this address, but cannot change the Host header.
"""

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
        """Send `events` to the client until the watch ends, the client disconnects, or the server stops."""
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
    """Return the body of `request`, or None if the body is larger than `MAX_BODY_BYTES`."""
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
    """Close the connection of `request` without an answer.

    The returned response never reaches the client.
    """
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
