"""When a system has come to rest, by the audit log as a file: the server that it works with is not asked."""

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
"""Seconds without a request after which a system has come to rest. kro, as shipped, looks again after three."""

STALLED: Final = 120.0
"""Seconds without a request in a state that is not the wanted one, after which there is no hope."""

LONGEST, LONGEST_FOR_EACH = 900.0, 0.6
"""Seconds for a row at most, and so many more for each object of the fleet."""

LOOK, TOLD = 0.2, 15.0
"""Seconds between two looks at the file, and between two words of how far it is."""

_HEAD: Final = 1_000
_ASKED = re.compile(rb'"stage":"(\w+)".*?"verb":"(\w+)","user":\{"username":"([^"]+)"')
_CONTINUAL = (b"/leases/", b"watch=true", b"watch=1")


class StuckError(Exception):
    """A wait is over without what was awaited: the message says what, and how far it was."""


@dataclass
class Tail:
    """Requests of a user as they are written to the audit log, but those that never end: of Leases, and watches."""

    path: Path
    user: str
    offset: int = 0
    requests: int = 0

    def __post_init__(self) -> None:
        self.offset = self.path.stat().st_size

    def advance(self) -> bool:
        """Read what is new, and return whether there was a request or an answer among it."""
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
    """The wait for a system to be done with a row.

    `check` raises where a process has ended. `missing` reads the cluster once all is still, and names what differs.
    """

    what: str
    tail: Tail
    check: Callable[[], None]
    missing: Callable[[], list[str]]
    longest: float
    still: float = STILL
    _begun: float = field(default_factory=time.monotonic)

    def wait(self) -> None:
        """Until the system is still and nothing is missing. Raises StuckError."""
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
    """Seconds that a row of a fleet with so many objects may take."""
    return LONGEST + LONGEST_FOR_EACH * objects
