"""Wait for something to come about in a cluster: watches say when to look again, and where they say nothing it is looked at from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

from applier.cluster import Cluster, WatchTarget
from applier.errors import Unavailable
from applier.read.watches import Watches

SELDOM: Final = 10.0
"""Seconds between two looks where no watch tells of anything."""

OFTEN: Final = 0.2
"""Seconds between two looks however much is told."""


async def until(
    cluster: Cluster,
    subjects: Collection[WatchTarget],
    look: Callable[[], Awaitable[bool]],
    *,
    seconds: float | None,
    missed: Callable[[Unavailable], None],
) -> bool:
    """Whether `look` found it within so many seconds (None: however long it takes); it is called at least once. A server that goes away after the
    first look is looked at again, once `missed` is told. Raises what else `look` raises.
    """
    changed = asyncio.Event()
    async with Watches(
        cluster, changed=lambda _: changed.set(), begun=lambda _: changed.set(), failed=lambda _subject, _error: None
    ) as watches:
        if await look():
            return True
        await watches.want(subjects)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(SELDOM):
                            await changed.wait()
                    changed.clear()
                    try:
                        if await look():
                            return True
                    except Unavailable as error:
                        missed(error)
                    await asyncio.sleep(OFTEN)
        return False
