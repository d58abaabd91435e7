"""Bodies of hooks, read side by side: slow ones hold up nobody, and all together hold no more memory than they may.

Whoever sends them has proven nothing yet. So each is bounded by size and by time, and all of them by number and by size.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from gitops.server.webhooks import LARGEST
from renderer.frozen import dataclass

TOGETHER: Final = 16 * LARGEST
"""Bytes that all bodies under way may hold."""

AT_ONCE: Final = 256
"""Bodies under way; a slow one costs a connection and little else."""

SLOWEST: Final = 10.0
"""Seconds in which a body has to be there."""


@dataclass(slots=True)
class BodyReader:
    """What is under way: how many, and how many bytes of them have arrived."""

    count: int = 0
    held: int = 0

    async def read(self, request: web.Request) -> bytes:
        """The whole body. Raises HTTPRequestEntityTooLarge, HTTPRequestTimeout, and HTTPServiceUnavailable where too much is under way."""
        if (request.content_length or 0) > LARGEST:
            raise _too_large(request.content_length or 0)
        if self.count >= AT_ONCE:
            raise busy()
        body = bytearray()
        self.count += 1
        try:
            async with asyncio.timeout(SLOWEST):
                async for piece in request.content.iter_any():
                    body += piece
                    self.held += len(piece)
                    if len(body) > LARGEST:
                        raise _too_large(len(body))
                    if self.held > TOGETHER:
                        raise busy()
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        finally:
            self.count -= 1
            self.held -= len(body)
        return bytes(body)


def _too_large(size: int) -> web.HTTPException:
    return web.HTTPRequestEntityTooLarge(max_size=LARGEST, actual_size=size)


def busy() -> web.HTTPException:
    """To whom may try again soon."""
    return web.HTTPServiceUnavailable(headers={"Retry-After": "5"})
