"""Port of the client to a transport: a request, its answer, and two kinds of failure.

The port is a separate module, so that the transport of the sandbox needs neither aiohttp nor `kubernetes`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from renderer.frozen import dataclass


class NotSentError(Exception):
    """Failure to send a request, because no connection was possible.

    Args:
        is_final: true if a retry cannot help, because the client does not trust the certificate of the server.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class BrokenError(Exception):
    """Failure of a connection that ended after the server may have read the request.

    Args:
        seconds: seconds for which the server was silent.
    """

    def __init__(self, message: str, *, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class HttpAnswer(NamedTuple):
    """HTTP answer with its complete body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """Endless HTTP answer, or a refusal."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    """Complete body of a refusal, or empty."""
    parts: AsyncIterator[bytes]
    """Pieces of the body of an endless answer, cut at any byte."""


class Transport(Protocol):
    """Sender of single requests to one API server, without retries after refusals."""

    @property
    def name(self) -> str:
        """Return the name of the cluster."""

    @property
    def namespace(self) -> str:
        """Return the namespace for commands of a person who names no namespace."""

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        """Send one request.

        Args:
            path: percent-encoded path with its query.

        Raises: NotSentError, BrokenError, ConfigurationError.
        """

    def stream(
        self, path: str, *, headers: Mapping[str, str], silence: float
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        """Send one GET, and yield its endless answer.

        Args:
            silence: seconds without bytes after which the connection ends.

        Raises: NotSentError, BrokenError, ConfigurationError.
        """

    async def renew(self) -> bool:
        """Read the credentials again and use the new credentials from now on. Requests in flight continue.

        If the credentials belong to another server, change nothing and return False.

        Raises: ConfigurationError.
        """

    async def close(self) -> None:
        """Close all connections."""
