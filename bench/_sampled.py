"""`levelgate` with a thread that samples the event loop: `python -m bench._sampled FILE run ...`.

At its end, the process writes two tables to the file. The table `self` lists the lines of Levelgate in which the event
loop used CPU most often, without calls of other lines of Levelgate. The table `below` lists the functions on the stack
at these times.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

from gitops.cli import main

INTERVAL: Final = 0.01
SHOWN: Final = 60
_IDLE: Final = frozenset({"select", "wait", "poll"})


class Sampler(threading.Thread):
    """Sampler of the main thread."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.main_thread = threading.get_ident()
        self.samples = 0
        self.selves, self.below = Counter[str](), Counter[str]()

    def run(self) -> None:
        while True:
            time.sleep(INTERVAL)
            frame = sys._current_frames().get(self.main_thread)
            if frame is None or frame.f_code.co_name in _IDLE:
                continue
            self.samples += 1
            self._count(frame)

    def _count(self, frame: FrameType) -> None:
        seen: set[str] = set()
        found: FrameType | None = frame
        self.selves[f"{_place(frame)}:{frame.f_lineno}"] += 1
        while found is not None:
            if (place := _place(found)) not in seen:
                seen.add(place)
                self.below[place] += 1
            found = found.f_back

    def report(self) -> str:
        lines = [f"{self.samples} samples of {INTERVAL * 1_000:g} ms"]
        for what, counts in (("self", self.selves), ("below", self.below)):
            lines += ["", what, *(f"{count:>7}  {place}" for place, count in counts.most_common(SHOWN))]
        return "\n".join(lines) + "\n"


def _place(frame: FrameType) -> str:
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-3:])} {frame.f_code.co_qualname}"


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    sampler = Sampler()
    sampler.start()
    try:
        main()
    finally:
        file.write_text(sampler.report())
