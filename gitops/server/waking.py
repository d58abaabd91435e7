"""Hooks of a forge for a process of which nothing else is to be seen: they wake it, whatever they say. It would have found that by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gitops.config.address import ListenAddress
from gitops.forge.connect import ForgeKind
from gitops.server.http import listen, webhook_app
from gitops.server.webhook_endpoint import WebhookEndpoint
from gitops.source_config import SourceConfig


@asynccontextmanager
async def serve_wake_hooks(
    wake_event: asyncio.Event, source: SourceConfig, forge: ForgeKind, secrets: Path, address: ListenAddress
) -> AsyncIterator[str]:
    """Whoever proves, by `secrets`, that the repository has changed sets `woken`, as long as the context lasts; answers the URL at which hooks are
    taken. Raises NotListening.
    """

    async def wake(*_: str) -> None:
        wake_event.set()

    elapsed = asyncio.get_running_loop().time
    webhook_endpoint = WebhookEndpoint(wake, lambda: (source,), lambda: {forge: secrets}, lambda *_: None, elapsed)
    async with listen(webhook_app(webhook_endpoint), address) as bound_address:
        yield f"http://{bound_address}/hooks/{forge}"
