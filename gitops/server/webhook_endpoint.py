"""The endpoint of forge webhooks: bounded bodies, verified senders, and an early fetch as the only effect.

The endpoint reads the body of a request before it can verify the sender. So the endpoint limits the size and the time
of each body, and the number and the size of all bodies together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from aiohttp import web

from applier.errors import ClusterError
from gitops.server import webhooks
from gitops.server.webhooks import MAX_BODY_BYTES
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

MAX_TOTAL_BYTES: Final = 16 * MAX_BODY_BYTES
"""Maximum number of bytes of all unfinished bodies together."""

MAX_BODIES: Final = 256
"""Maximum number of unfinished bodies. A slow body costs a connection and little memory."""

BODY_TIMEOUT_SECONDS: Final = 10.0
"""Number of seconds within which a body must arrive."""


@dataclass(slots=True)
class BodyReader:
    """Reader of request bodies, within limits on the unfinished bodies."""

    count: int = 0
    held_bytes: int = 0
    """Number of received bytes of all unfinished bodies."""

    async def read(self, request: web.Request) -> bytes:
        """Return the whole body of a request.

        Raises: HTTPRequestEntityTooLarge; HTTPRequestTimeout; HTTPServiceUnavailable if the unfinished bodies are too
        many or too large.
        """
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise _too_large_error(request.content_length or 0)
        if self.count >= MAX_BODIES:
            raise busy_error()
        body = bytearray()
        self.count += 1
        try:
            async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
                async for piece in request.content.iter_any():
                    body += piece
                    self.held_bytes += len(piece)
                    if len(body) > MAX_BODY_BYTES:
                        raise _too_large_error(len(body))
                    if self.held_bytes > MAX_TOTAL_BYTES:
                        raise busy_error()
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        finally:
            self.count -= 1
            self.held_bytes -= len(body)
        return bytes(body)


def _too_large_error(size: int) -> web.HTTPException:
    return web.HTTPRequestEntityTooLarge(max_size=MAX_BODY_BYTES, actual_size=size)


def busy_error() -> web.HTTPException:
    """Return the response to a sender that may try again soon."""
    return web.HTTPServiceUnavailable(headers={"Retry-After": "5"})


PATH: Final = "/hooks/{provider}"
_HINT_TIMEOUT_SECONDS: Final = 5.0
_BODY_ERROR_RESULTS: Final = {408: "truncated", 413: "too_large", 503: "busy"}
"""Metric label of an incomplete body, by the HTTP status of the response."""


@dataclass
class WebhookEndpoint:
    """Handler of webhook calls."""

    hint: Callable[..., Awaitable[None]]
    """Function that causes an early fetch of the named sources."""
    sources: Callable[[], tuple[SourceConfig, ...]]
    """Function that returns the sources of the current configuration."""
    secrets: Callable[[], Mapping[str, Path]]
    """Function that returns the files with secrets in the current configuration, by provider."""
    on_webhook: Callable[[str, str], None]
    """Function that counts a call, by its provider and result."""
    elapsed: Callable[[], float]
    """Monotonic clock, in seconds."""
    _rate: webhooks.RateLimit = field(default_factory=webhooks.RateLimit)
    _bodies: BodyReader = field(default_factory=BodyReader)

    async def handle_request(self, request: web.Request) -> web.Response:
        """Handle a request at `PATH`.

        The rate limit counts only calls with a valid signature. So an unverified sender cannot exhaust the limit.
        """
        name = request.match_info["provider"]
        provider, file = webhooks.PROVIDERS.get(name), self.secrets().get(name)
        if provider is None or file is None:
            raise web.HTTPNotFound
        body = await self._read_body(request, name)
        known_secrets = await asyncio.to_thread(webhooks.read_secrets, file)
        if not webhooks.is_genuine(provider, request.headers.get(provider.signature, ""), body, known_secrets):
            self.on_webhook(name, "refused")
            raise web.HTTPUnauthorized
        source_names = webhooks.find_sources(webhooks.repository_urls(provider, body), self.sources())
        if not self._rate.allows(name, self.elapsed()):
            self.on_webhook(name, "throttled")
            raise web.HTTPTooManyRequests(headers={"Retry-After": "1"})
        if source_names:
            await self._send_hint(name, source_names)
        self.on_webhook(name, "accepted" if source_names else "unconcerned")
        return web.Response(status=202, text="\n")

    async def _send_hint(self, name: str, source_names: list[str]) -> None:
        """Send a hint about the sources. If the leading process does not get the hint, ask the sender to try again.

        Raises: HTTPServiceUnavailable if the hint fails.
        """
        try:
            async with asyncio.timeout(_HINT_TIMEOUT_SECONDS):
                await self.hint(*source_names)
        except (ClusterError, TimeoutError):
            self.on_webhook(name, "failed")
            raise busy_error() from None

    async def _read_body(self, request: web.Request, name: str) -> bytes:
        try:
            return await self._bodies.read(request)
        except web.HTTPException as error:
            self.on_webhook(name, _BODY_ERROR_RESULTS[error.status])
            raise
