"""Switch that cuts off a sandbox. During a cut, the sandbox accepts connections and sends no answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import orjson

from applier.sandbox.endpoints.transport import RequestHandler
from applier.sandbox.wire import Request, Response

CUT_PATH: Final = "/sandbox/cut"
"""Path of the switch. PUT cuts off the sandbox, and DELETE heals the cut. Web pages of other origins cannot send these
two methods.
"""


class CutSwitch:
    """Request handler that can withhold the answers of a sandbox's request handler: `CutSwitch(sandbox.answer)`.

    During a cut, requests get no answer, and watches receive no events. When the cut ends, the sandbox executes the
    waiting requests, like an API server process that continues after a stop.
    """

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._whole = asyncio.Event()
        self._whole.set()

    @property
    def is_cut(self) -> bool:
        return not self._whole.is_set()

    def cut(self) -> None:
        """Cut off the sandbox. If the sandbox is already cut off, do nothing."""
        self._whole.clear()

    def heal(self) -> None:
        """End the cut. If the sandbox is not cut off, do nothing."""
        self._whole.set()

    async def answer(self, request: Request) -> Response:
        """Return the sandbox's response to `request`, as soon as the sandbox is not cut off.

        A request to `CUT_PATH` turns the switch, and gets its answer at once.

        Raises: ConnectionDroppedError if the sandbox drops the connection.
        """
        match request.method, request.target:
            case "PUT", target if target == CUT_PATH:
                self.cut()
            case "DELETE", target if target == CUT_PATH:
                self.heal()
            case _:
                await self._whole.wait()
                response = await self._handler(request)
                return replace(response, stream=self._hold(response.stream)) if response.stream else response
        return Response(200, orjson.dumps({"cut": self.is_cut}))

    async def _hold(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async with aclosing(events):  # type: ignore[type-var]
            async for chunk in events:
                await self._whole.wait()
                yield chunk
            await self._whole.wait()
