"""Hooks of a forge for a process of which nothing else is to be seen: they wake it, whatever they say. It would have found that by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gitops.config.address import ListenAddress
from gitops.forge.connect import ForgeKind
from gitops.server.http import listening, only_hooks
from gitops.server.webhook_endpoint import WebhookEndpoint
from gitops.source_config import SourceConfig


@asynccontextmanager
async def waking(
    woken: asyncio.Event, source: SourceConfig, forge: ForgeKind, secrets: Path, address: ListenAddress
) -> AsyncIterator[str]:
    """Whoever proves, by `secrets`, that the repository has changed sets `woken`, as long as the context lasts; answers the URL at which hooks are
    taken. Raises NotListening.
    """

    async def wake(*_: str) -> None:
        woken.set()

    elapsed = asyncio.get_running_loop().time
    receiver = WebhookEndpoint(wake, lambda: (source,), lambda: {forge: secrets}, lambda *_: None, elapsed)
    async with listening(only_hooks(receiver), address) as where:
        yield f"http://{where}/hooks/{forge}"
