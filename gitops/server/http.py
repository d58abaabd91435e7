"""HTTP routes of the daemon and of `levelgate review`, with their common headers. Only webhooks accept POST."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gitops.config.fields import ListenAddress
from gitops.errors import GitopsError
from gitops.forge.connect import ForgeKind
from gitops.server import page, trace_endpoint, webhooks
from gitops.server.metrics import CONTENT_TYPE, Metrics
from gitops.server.monitor import ChangeCounter, Monitor, ProbeResult, check_liveness, check_readiness
from gitops.server.trace_endpoint import TraceEndpoint
from gitops.server.webhook_endpoint import PATH, WebhookEndpoint
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from gitops.server.fleet_view import FleetView

_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Host names that a request to a loopback address may contain."""
_STATIC: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_MAX_STREAMS: Final = 64
"""Maximum number of pages that receive each change by a stream. Further pages poll every few seconds."""
_SHUTDOWN_TIMEOUT_SECONDS: Final = 2.0
_HEARTBEAT_SECONDS: Final = 15.0
"""Seconds between two messages of a stream, so that proxies keep the connection open."""
_RETRY_MILLISECONDS: Final = 3000
"""Milliseconds between the end of a stream and the reconnection of its page."""


class ListenError(GitopsError):
    """Failure to listen at an address. The text contains the reason and advice."""


@dataclass
class HttpServer:
    """Server of one daemon: the routes of pages, metrics, probes and webhooks."""

    monitor: Monitor
    metrics: Metrics
    hint: Callable[..., Awaitable[None]]
    """Function that causes an early fetch of the named sources."""
    sources: Callable[[], tuple[SourceConfig, ...]]
    """Function that returns the sources of the current configuration."""
    secrets: Callable[[], Mapping[str, Path]]
    """Function that returns the files with the secrets of webhooks in the current configuration, by provider."""
    traces: TraceEndpoint
    fleet: FleetView | None = None
    _streams: int = 0
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def create_app(self, *, is_local: bool) -> web.Application:
        """Return the application with all routes of the daemon.

        Args:
            is_local: True to reject requests to any host name except this machine. Without the check, a web page of
                another site can read the status page through a person's browser (DNS rebinding).
        """
        webhook_endpoint = WebhookEndpoint(
            self.hint, self.sources, self.secrets, self.metrics.record_webhook, self.monitor.elapsed
        )
        app = web.Application(middlewares=[_guard_requests(is_local=is_local)], client_max_size=webhooks.MAX_BODY_BYTES)
        app.add_routes(
            [
                web.get("/healthz", partial(self._serve_probe, check_liveness)),
                web.get("/readyz", partial(self._serve_probe, check_readiness)),
                web.get("/metrics", self._serve_metrics),
                web.get("/", self._serve_overview),
                web.get("/instances/{group}/{kind}/{namespace:[^/]+}/{name:[^/]+}", self._serve_instance),
                web.get("/events", self._stream_events),
                web.get(trace_endpoint.PATH, self.traces.handle_request),
                web.get("/static/{name}", _serve_static),
                web.post(PATH, webhook_endpoint.handle_request),
            ]
        )
        if self.fleet:
            app.add_routes(
                [
                    web.get("/clusters/{cluster:[^/]+}", _redirect_to_folder),
                    web.get("/clusters/{cluster:[^/]+}/", self._serve_overview),
                    web.get("/clusters/{cluster:[^/]+}/events", self._stream_events),
                    web.get(
                        "/clusters/{cluster:[^/]+}/instances/{group}/{kind}/{namespace:[^/]+}/{name:[^/]+}",
                        self._serve_instance,
                    ),
                ]
            )
        app.on_shutdown.append(self._shutdown)
        return app

    async def _shutdown(self, _: web.Application) -> None:
        self._stopping.set()

    async def _serve_probe(self, check: Callable[[Monitor], ProbeResult], _: web.Request) -> web.Response:
        probe = check(self.monitor)
        return web.Response(status=200 if probe.is_ok else 503, text=f"{probe.message}\n")

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        text = await self.metrics.render(self.monitor.clock.now())
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def _serve_overview(self, request: web.Request) -> web.Response:
        query = page.PageQuery.parse(request.query)
        if self.fleet is None:
            return _html_response(await page.render_overview(self.monitor, query))
        if "cluster" not in request.match_info:
            return _html_response(page.render_fleet(self.fleet, query))
        row = self.fleet.row(request.match_info["cluster"])
        if row is None:
            return _html_response(page.render_missing(self.monitor), status=404)
        return _html_response(await page.render_overview(self.fleet.monitor_of(row.name), query, row))

    async def _serve_instance(self, request: web.Request) -> web.Response:
        """Serve the page of an instance. A path without a cluster means the hub's own cluster."""
        match = dict(request.match_info)
        monitor = self._find_monitor(match.pop("cluster", None))
        html = await page.render_instance(monitor, **match) if monitor else None
        return _html_response(html or page.render_missing(monitor or self.monitor), status=200 if html else 404)

    def _find_monitor(self, cluster: str | None) -> Monitor | None:
        if cluster is None or self.fleet is None:
            return self.monitor
        row = self.fleet.row(cluster)
        return self.fleet.monitor_of(row.name) if row else None

    async def _stream_events(self, request: web.Request) -> web.StreamResponse:
        """Send a number after each change as a server-sent event. As a heartbeat, repeat the last number."""
        if self._streams >= _MAX_STREAMS:
            raise web.HTTPServiceUnavailable(text="too many clients are connected; try again later\n")
        cluster = request.match_info.get("cluster")
        monitor = self._find_monitor(cluster)
        if monitor is None:
            raise web.HTTPNotFound
        changes = self.fleet.changes if self.fleet and cluster is None else monitor.changes
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **_HEADERS})
        self._streams += 1
        try:
            await response.prepare(request)
            pass_number: int | None = changes.number
            await response.write(f"retry: {_RETRY_MILLISECONDS}\n".encode())
            while pass_number is not None:
                await response.write(f"data: {pass_number}\n\n".encode())
                pass_number = await self._wait_for_change(changes, pass_number)
        except ConnectionError:
            pass
        finally:
            self._streams -= 1
        return response

    async def _wait_for_change(self, changes: ChangeCounter, known_number: int) -> int | None:
        """Return the next number to send, or None at shutdown. A change during the last write also ends the wait."""
        tasks = {
            asyncio.ensure_future(changes.wait(known_number)),
            asyncio.ensure_future(self._stopping.wait()),
        }
        try:
            await asyncio.wait(tasks, timeout=_HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return None if self._stopping.is_set() else changes.number


def _guard_requests(*, is_local: bool) -> Middleware:
    """Return the middleware that checks the host and sets the headers.

    The middleware does not check the host of webhooks, because webhooks come from forges and carry a signature.
    """

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_local and not request.path.startswith("/hooks/") and _host(request) not in _LOCAL_NAMES:
            raise web.HTTPMisdirectedRequest(
                text="this address serves this machine only; use the host name localhost\n", headers=_HEADERS
            )
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


def _html_response(text: str, *, status: int = 200) -> web.Response:
    return web.Response(status=status, text=text, content_type="text/html")


async def _redirect_to_folder(request: web.Request) -> web.Response:
    """Redirect to the path with a final slash, because links of the page are relative to `/clusters/NAME/`."""
    raise web.HTTPPermanentRedirect(f"/clusters/{quote(request.match_info['cluster'], safe='')}/")


async def _serve_static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in _STATIC:
        raise web.HTTPNotFound
    data = resources.files("gitops.server").joinpath("static", name).read_bytes()
    return web.Response(body=data, content_type=_STATIC[name], charset="utf-8", headers={"Cache-Control": "no-cache"})


def webhook_app(webhook_endpoint: WebhookEndpoint) -> web.Application:
    """Return an application that serves only webhooks."""
    app = web.Application(middlewares=[_guard_requests(is_local=False)], client_max_size=webhooks.MAX_BODY_BYTES)
    app.add_routes([web.post(PATH, webhook_endpoint.handle_request)])
    return app


@asynccontextmanager
async def listen(app: web.Application, address: ListenAddress) -> AsyncIterator[ListenAddress]:
    """Serve as long as the context lasts. Yield the bound address. For port 0, the address contains a free port.

    Raises: ListenError if the process cannot listen at `address`.
    """
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_TIMEOUT_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host or None, address.port)
        try:
            await site.start()
        except OSError as error:
            raise ListenError(_listen_error_message(address, error)) from None
        yield ListenAddress(address.host, next((name[1] for name in runner.addresses), address.port))
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(runner.cleanup(), 2 * _SHUTDOWN_TIMEOUT_SECONDS)


def _listen_error_message(address: ListenAddress, error: OSError) -> str:
    reason = error.strerror or str(error)
    advice = "choose another address with --listen ADDR:PORT, or none with --listen off"
    return f"cannot listen on {address}: {reason.lower()}; {advice}"


@asynccontextmanager
async def serve_wake_hooks(
    wake_event: asyncio.Event, source: SourceConfig, forge: ForgeKind, secrets: Path, address: ListenAddress
) -> AsyncIterator[str]:
    """Set `wake_event` at each verified webhook about `source`, as long as the context lasts.

    Yield the URL of the webhook.

    Raises: ListenError if the process cannot listen at `address`.
    """

    async def wake(*_: str) -> None:
        wake_event.set()

    elapsed = asyncio.get_running_loop().time
    webhook_endpoint = WebhookEndpoint(wake, lambda: (source,), lambda: {forge: secrets}, lambda *_: None, elapsed)
    async with listen(webhook_app(webhook_endpoint), address) as bound_address:
        yield f"http://{bound_address}/hooks/{forge}"
