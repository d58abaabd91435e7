"""A running daemon, seen through its HTTP server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.support.command import RunningCommand
from tests.support.command_platform import CommandPlatform


@dataclass(frozen=True)
class DaemonClient:
    """A running daemon, by the URL of its HTTP server."""

    url: str

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a path."""
        return self.send(Request(f"{self.url}{path}"))

    def send(self, request: Request) -> tuple[int, str]:
        """Return status and body of a request."""
        try:
            with urlopen(request, timeout=60) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


@contextmanager
def following(platform: CommandPlatform, *arguments: str) -> Iterator[DaemonClient]:
    """Start the daemon, and yield it when its HTTP server is up."""
    environment = {name: value for name, value in platform.environment.items() if name != "LEVELGATE_LISTEN"}
    with RunningCommand(("run", *arguments), environment) as process:
        found = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stdout)
        yield DaemonClient(next(match[0] for match in found if match))
