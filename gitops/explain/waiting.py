"""Wait for something to come about in a cluster: watches say when to look again, and where they say nothing it is looked at from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

from applier.cluster import Cluster, WatchTarget
from applier.errors import Unavailable
from applier.read.watches import Watches

POLL_INTERVAL_SECONDS: Final = 10.0
"""Seconds between two looks where no watch tells of anything."""

MIN_CHECK_INTERVAL_SECONDS: Final = 0.2
"""Seconds between two looks however much is told."""


async def wait_until(
    cluster: Cluster,
    watch_targets: Collection[WatchTarget],
    check: Callable[[], Awaitable[bool]],
    *,
    timeout_seconds: float | None,
    on_unavailable: Callable[[Unavailable], None],
) -> bool:
    """Whether `look` found it within so many seconds (None: however long it takes); it is called at least once. A server that goes away after the
    first look is looked at again, once `missed` is told. Raises what else `look` raises.
    """
    changed = asyncio.Event()
    async with Watches(
        cluster,
        on_change=lambda _: changed.set(),
        on_begin=lambda _: changed.set(),
        on_failure=lambda _subject, _error: None,
    ) as watches:
        if await check():
            return True
        await watches.set_targets(watch_targets)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while True:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL_INTERVAL_SECONDS):
                            await changed.wait()
                    changed.clear()
                    try:
                        if await check():
                            return True
                    except Unavailable as error:
                        on_unavailable(error)
                    await asyncio.sleep(MIN_CHECK_INTERVAL_SECONDS)
        return False
