"""Bodies of hooks, read side by side: slow ones hold up nobody, and all together hold no more memory than they may.

Whoever sends them has proven nothing yet. So each is bounded by size and by time, and all of them by number and by size.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from gitops.server.webhooks import MAX_BODY_BYTES
from renderer.frozen import dataclass

MAX_TOTAL_BYTES: Final = 16 * MAX_BODY_BYTES
"""Bytes that all bodies under way may hold."""

MAX_BODIES: Final = 256
"""Bodies under way; a slow one costs a connection and little else."""

BODY_TIMEOUT_SECONDS: Final = 10.0
"""Seconds in which a body has to be there."""


@dataclass(slots=True)
class BodyReader:
    """What is under way: how many, and how many bytes of them have arrived."""

    count: int = 0
    held_bytes: int = 0

    async def read(self, request: web.Request) -> bytes:
        """The whole body. Raises HTTPRequestEntityTooLarge, HTTPRequestTimeout, and HTTPServiceUnavailable where too much is under way."""
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
    """To whom may try again soon."""
    return web.HTTPServiceUnavailable(headers={"Retry-After": "5"})
