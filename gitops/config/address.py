"""Where the daemon listens: `ADDR:PORT`, or `off`."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from renderer.frozen import dataclass

_ADDRESS_PATTERN: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9.-]*)):(?P<port>[0-9]{1,5})")
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An empty `host` stands for all addresses of the machine, port 0 for any that is free."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Can only this machine (or this pod) reach it?"""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


DEFAULT_ADDRESS: Final = ListenAddress("127.0.0.1", 8480)


def parse_address(text: str) -> ListenAddress | None:
    """Of `127.0.0.1:8480`, `[::1]:8480`, `:8480` (all addresses); None for `off`. Raises ValueError with what to write."""
    if text == OFF:
        return None
    match = _ADDRESS_PATTERN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(
            f"{text!r} is no address; write ADDR:PORT such as {DEFAULT_ADDRESS}, :8480 for all addresses, or off"
        )
    return ListenAddress(match["v6"] or match["host"], int(match["port"]))
