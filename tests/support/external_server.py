"""An HTTP server for external facts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from aiohttp import web

from gitops.external_facts import ExternalFactSource
from tests.support.loopback import listening

MINUTE = timedelta(minutes=1)


@dataclass
class ExternalServer:
    """The answer of the server to every request, and the count of requests."""

    text: str = "true\n"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    asked: int = 0
    url: str = ""
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.hangs:
            await self.closing.wait()
        return web.Response(text=self.text, status=self.status, headers=self.headers)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ExternalServer]:
        """Serve on loopback until the end of the `with`."""
        app = web.Application()
        app.router.add_get("/ok", self.answer)
        async with listening(app) as url:
            self.url = f"{url}/ok"
            try:
                yield self
            finally:
                self.closing.set()

    def external(self, *, name: str = "budget", timeout: timedelta = timedelta(seconds=10)) -> ExternalFactSource:
        """Return the configuration of a fact that this server answers."""
        return ExternalFactSource(name, self.url, "true", MINUTE, timeout)
