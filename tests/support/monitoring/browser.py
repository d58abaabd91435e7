"""The status page in a real browser, which has to stay silent: a violation of its policy or an error on its console fails the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp.test_utils import TestServer
from playwright.async_api import Browser, Page, async_playwright

from tests.support.monitoring.scene import Scene

ARGUMENTS: Final = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@dataclass
class Browsing:
    browser: Browser
    said: list[str] = field(default_factory=list)
    server: TestServer | None = None

    @asynccontextmanager
    async def page(self, seen: Scene, path: str = "/", **context: Any) -> AsyncIterator[Page]:
        """What a person sees of this scene; `context` is as for playwright's new_context."""
        server = await self.serve(seen)
        opened = await self.browser.new_context(**context)
        opened.set_default_timeout(30_000)
        try:
            page = await opened.new_page()
            page.on("console", lambda message: self.said.append(message.text))
            page.on("pageerror", lambda error: self.said.append(str(error)))
            await page.goto(str(server.make_url(path)))
            yield page
            assert self.said == []
        finally:
            await opened.close()
            await self.stop()

    async def serve(self, seen: Scene, port: int | None = None) -> TestServer:
        self.server = TestServer(seen.server.create_app(is_local=True), port=port)
        await self.server.start_server()
        return self.server

    async def stop(self) -> int:
        """The server goes away; the port that it had."""
        assert self.server
        port = self.server.port or 0
        await self.server.close()
        return port


@asynccontextmanager
async def launched(executable: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield browser
        await browser.close()
