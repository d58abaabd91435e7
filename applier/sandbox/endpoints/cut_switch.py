"""A cluster that is cut off: its server takes connections and answers nothing, until it is healed."""

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
"""PUT to it cuts a sandbox, DELETE heals it. It is answered at any time. A page in a browser can send neither to another address."""


class CutSwitch:
    """A switch between a door and a sandbox: `CutSwitch(sandbox.answer)`.

    While it is cut, requests get no answer and watches tell nothing. Once it is healed, what was asked meanwhile is carried out, as by an API
    server that was stopped and continued.
    """

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._whole = asyncio.Event()
        self._whole.set()

    @property
    def is_cut(self) -> bool:
        return not self._whole.is_set()

    def cut(self) -> None:
        """Do nothing when it is cut already."""
        self._whole.clear()

    def heal(self) -> None:
        """End `cut`; do nothing when it is not cut."""
        self._whole.set()

    async def answer(self, request: Request) -> Response:
        """The sandbox's answer, when it is not cut; at once to whom turns the switch. Raises ConnectionDroppedError."""
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
