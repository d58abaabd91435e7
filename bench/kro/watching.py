"""Rest of a system, by the audit log as a file. So the wait sends no request to the server of the system."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.kro.fleet import summarize

STILL: Final = 5.0
"""Seconds without a request after which a system is at rest. kro as shipped looks again after three seconds."""

STALLED: Final = 120.0
"""Seconds without a request in a state other than the wanted state, after which the bench stops."""

LONGEST, LONGEST_FOR_EACH = 900.0, 0.6
"""Longest time of a row in seconds, and further seconds for each object of the fleet."""

LOOK, TOLD = 0.2, 15.0
"""Seconds between two looks at the file, and between two reports of progress."""

_HEAD: Final = 1_000
_ASKED = re.compile(rb'"stage":"(\w+)".*?"verb":"(\w+)","user":\{"username":"([^"]+)"')
_CONTINUAL = (b"/leases/", b"watch=true", b"watch=1")


class StuckError(Exception):
    """Error of a wait whose goal did not come. The message names the goal and the progress."""


@dataclass
class Tail:
    """Requests of a user in the audit log, without requests for Leases and watches, which never end."""

    path: Path
    user: str
    offset: int = 0
    requests: int = 0

    def __post_init__(self) -> None:
        self.offset = self.path.stat().st_size

    def advance(self) -> bool:
        """Read the new lines, and return whether they contain a request or an answer."""
        found = False
        with self.path.open("rb") as file:
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.offset += len(line)
                asked = _ASKED.search(line[:_HEAD])
                if asked and asked[3].decode() == self.user and not any(word in line[:_HEAD] for word in _CONTINUAL):
                    found = True
                    self.requests += asked[1] != b"RequestReceived"
        return found


@dataclass
class Rest:
    """Wait for a system to complete a row.

    If a process has ended, `check` raises an error. When the system is at rest, `missing` reads the cluster, and
    returns the differences.
    """

    what: str
    tail: Tail
    check: Callable[[], None]
    missing: Callable[[], list[str]]
    longest: float
    still: float = STILL
    _begun: float = field(default_factory=time.monotonic)

    def wait(self) -> None:
        """Wait until the system is at rest and nothing is missing. Raises: StuckError."""
        told = last = self._begun
        looked_at: float | None = None
        missing: list[str] = []
        while True:
            self.check()
            now = time.monotonic()
            if self.tail.advance():
                last = now
            elif now - last >= self.still and looked_at != last:
                looked_at = last
                if not (missing := self.missing()):
                    return
            if now - told >= TOLD:
                told = now
                print(f"{self._progress(now)}", file=sys.stderr, flush=True)
            if now - self._begun > self.longest:
                raise StuckError(
                    f"{self._progress(now)}, and may take {self.longest:.0f} s at most. {summarize(missing)}"
                )
            if now - last > STALLED:
                raise StuckError(f"{self._progress(now)}, the last one {STALLED:.0f} s ago. {summarize(missing)}")
            time.sleep(LOOK)

    def _progress(self, now: float) -> str:
        return f"{self.what}: {self.tail.requests:,} requests after {now - self._begun:.0f} s"


def longest(objects: int) -> float:
    """Return the longest time in seconds of a row of a fleet with `objects` objects."""
    return LONGEST + LONGEST_FOR_EACH * objects
