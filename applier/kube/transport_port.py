"""What the client needs of a transport: one request, one answer, and two ways to fail.

Apart from the transports, so that a cluster behind another one (the sandbox) needs neither aiohttp nor `kubernetes`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from renderer.frozen import dataclass


class NotSentError(Exception):
    """No connection, so no request. `final`: trying again cannot help (the server's certificate is not trusted)."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class BrokenError(Exception):
    """The connection ended after the request may have been read. `seconds`: how long the server kept silent."""

    def __init__(self, message: str, *, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class HttpAnswer(NamedTuple):
    """One HTTP answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer that goes on: `parts` of its body as they come, lines cut anywhere. One that refuses has its whole `body` instead."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    parts: AsyncIterator[bytes]


class Transport(Protocol):
    """Carries requests to one API server."""

    @property
    def name(self) -> str:
        """What the cluster is called."""

    @property
    def namespace(self) -> str:
        """Where a person names none."""

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        """One request; `path` is percent-encoded, with its query. Raises NotSentError, BrokenError, ConfigurationError."""

    def stream(
        self, path: str, *, headers: Mapping[str, str], silence: float
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        """One GET. Raises as `send`; reading raises BrokenError, also after so many seconds of `silence`."""

    async def renew(self) -> bool:
        """Read credentials again and use them from here on; what is under way goes on. False where they are of another server, which is not taken.
        Raises ConfigurationError.
        """

    async def close(self) -> None:
        """Give back connections."""
