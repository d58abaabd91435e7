"""The HTTP side: which path answers what, and the headers that every answer carries. Only GET and HEAD, but for hooks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from importlib import resources
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gitops.config.address import ListenAddress
from gitops.errors import GitopsError
from gitops.server import health, page, webhooks
from gitops.server.metrics import CONTENT_TYPE, Metrics
from gitops.server.monitor import Monitor
from gitops.server.webhook_endpoint import PATH, WebhookEndpoint
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_STATIC: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_STREAMS: Final = 64
"""People who look at the page at the same time and are told at once; further ones look every few seconds."""
_GRACE: Final = 2.0
_HEARTBEAT: Final = 15.0
_RETRY: Final = 3000
"""Milliseconds after which a page calls again that lost us."""


class NotListening(GitopsError):
    """The address cannot be listened on; the text says why and what to do."""


@dataclass
class HttpServer:
    """What is served of one daemon. `hint` asks sources soon; `sources` and `secrets` (files, by provider) are those of the configuration now."""

    monitor: Monitor
    metrics: Metrics
    hint: Callable[..., Awaitable[None]]
    sources: Callable[[], tuple[SourceConfig, ...]]
    secrets: Callable[[], Mapping[str, Path]]
    _streams: int = 0
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def app(self, *, is_local: bool) -> web.Application:
        """`is_local`: a browser must name this machine, so that no page of another site gets here by a name of its own (DNS rebinding)."""
        receiver = WebhookEndpoint(self.hint, self.sources, self.secrets, self.metrics.hook, self.monitor.elapsed)
        app = web.Application(middlewares=[_guarded(is_local=is_local)], client_max_size=webhooks.LARGEST)
        app.add_routes(
            [
                web.get("/healthz", self._alive),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
                web.get("/", self._overview),
                web.get("/instances/{group}/{kind}/{namespace:[^/]+}/{name:[^/]+}", self._instance),
                web.get("/events", self._events),
                web.get("/static/{name}", _static),
                web.post(PATH, receiver.answer),
            ]
        )
        app.on_shutdown.append(self._shutdown)
        return app

    async def _shutdown(self, _: web.Application) -> None:
        self._stopping.set()

    async def _alive(self, _: web.Request) -> web.Response:
        return _health(health.alive(self.monitor))

    async def _ready(self, _: web.Request) -> web.Response:
        return _health(health.ready(self.monitor))

    async def _metrics(self, _: web.Request) -> web.Response:
        text = await self.metrics.text(self.monitor.clock.now())
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def _overview(self, request: web.Request) -> web.Response:
        return _html(await page.overview(self.monitor, page.PageQuery.of(request.query)))

    async def _instance(self, request: web.Request) -> web.Response:
        found = await page.instance(self.monitor, **request.match_info)
        return _html(found or page.missing(self.monitor), status=200 if found else 404)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """The number of each pass as it ends (server-sent events), and the last one again while nothing happens, as a sign of life."""
        if self._streams >= _STREAMS:
            raise web.HTTPServiceUnavailable(text="too many look already; ask again later\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **_HEADERS})
        self._streams += 1
        try:
            await response.prepare(request)
            told: int | None = self.monitor.number
            await response.write(f"retry: {_RETRY}\n".encode())
            while told is not None:
                await response.write(f"data: {told}\n\n".encode())
                told = await self._next(told)
        except ConnectionError:
            pass
        finally:
            self._streams -= 1
        return response

    async def _next(self, told: int) -> int | None:
        """What is to be told next, after a pass that ended while that one was written too; None at the end."""
        waits = {asyncio.ensure_future(self.monitor.next(told)), asyncio.ensure_future(self._stopping.wait())}
        try:
            await asyncio.wait(waits, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return None if self._stopping.is_set() else self.monitor.number


def _guarded(*, is_local: bool) -> Middleware:
    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_local and not request.path.startswith("/hooks/") and _host(request) not in _LOCAL_NAMES:
            raise web.HTTPMisdirectedRequest(text="this address is for this machine only\n", headers=_HEADERS)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    return guarded


def _host(request: web.Request) -> str:
    try:
        return urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return ""


def _health(found: health.ProbeResult) -> web.Response:
    return web.Response(status=200 if found.ok else 503, text=f"{found.why}\n")


def _html(text: str, *, status: int = 200) -> web.Response:
    return web.Response(status=status, text=text, content_type="text/html")


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in _STATIC:
        raise web.HTTPNotFound
    data = resources.files("gitops.server").joinpath("static", name).read_bytes()
    return web.Response(body=data, content_type=_STATIC[name], charset="utf-8", headers={"Cache-Control": "no-cache"})


def only_hooks(receiver: WebhookEndpoint) -> web.Application:
    """For a process of which nothing else is to be seen."""
    app = web.Application(middlewares=[_guarded(is_local=False)], client_max_size=webhooks.LARGEST)
    app.add_routes([web.post(PATH, receiver.answer)])
    return app


@asynccontextmanager
async def listening(app: web.Application, address: ListenAddress) -> AsyncIterator[ListenAddress]:
    """Serve as long as the context lasts; answers where (port 0 becomes the one that was free). Raises NotListening."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_GRACE)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host or None, address.port)
        try:
            await site.start()
        except OSError as error:
            raise NotListening(_why(address, error)) from None
        port = next((name[1] for name in runner.addresses), address.port)
        yield ListenAddress(address.host, port)
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(runner.cleanup(), 2 * _GRACE)


def _why(address: ListenAddress, error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"cannot listen on {address}: {reason.lower()}; choose another address with --listen ADDR:PORT, or none with --listen off"
