"""Where hooks arrive: who sends one has to prove it, and all that comes of it is that something is looked at soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from aiohttp import web

from applier.errors import ClusterError
from gitops.server import webhooks
from gitops.server.bodies import BodyReader, busy
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

PATH: Final = "/hooks/{provider}"
_PATIENCE: Final = 5.0
_UNREAD: Final = {408: "truncated", 413: "too_large", 503: "busy"}
"""What a body that was not read to its end is called, by how it was answered."""


@dataclass
class WebhookEndpoint:
    """`hint` asks sources soon, by name; `sources` and `secrets` (files, by provider) are those of the configuration now. `told` hears of each hook
    the provider and what became of it; `elapsed` are seconds that never go back.
    """

    hint: Callable[..., Awaitable[None]]
    sources: Callable[[], tuple[SourceConfig, ...]]
    secrets: Callable[[], Mapping[str, Path]]
    told: Callable[[str, str], None]
    elapsed: Callable[[], float]
    _rate: webhooks.RateLimit = field(default_factory=webhooks.RateLimit)
    _bodies: BodyReader = field(default_factory=BodyReader)

    async def answer(self, request: web.Request) -> web.Response:
        """To a request at PATH."""
        name = request.match_info["provider"]
        provider, file = webhooks.PROVIDERS.get(name), self.secrets().get(name)
        if provider is None or file is None:
            raise web.HTTPNotFound
        body = await self._body(request, name)
        known = await asyncio.to_thread(webhooks.secrets_in, file)
        if not webhooks.is_genuine(provider, request.headers.get(provider.signature, ""), body, known):
            self.told(name, "refused")
            raise web.HTTPUnauthorized
        found = webhooks.concerned(webhooks.repositories(provider, body), self.sources())
        if not self._rate.allows(name, self.elapsed()):
            self.told(name, "throttled")
            raise web.HTTPTooManyRequests(headers={"Retry-After": "1"})
        if found:
            await self._hint(name, found)
        self.told(name, "accepted" if found else "unconcerned")
        return web.Response(status=202, text="\n")

    async def _hint(self, name: str, found: list[str]) -> None:
        """Where another process has to be told and cannot be, the caller learns that it may try again."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.hint(*found)
        except (ClusterError, TimeoutError):
            self.told(name, "failed")
            raise busy() from None

    async def _body(self, request: web.Request, name: str) -> bytes:
        try:
            return await self._bodies.read(request)
        except web.HTTPException as error:
            self.told(name, _UNREAD[error.status])
            raise
