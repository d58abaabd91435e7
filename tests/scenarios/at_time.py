"""`levelgate` for which the time stands still: `python -m tests.scenarios.at_time 2026-11-21T10:00:00+00:00 ARGS...`. The API server has its own."""

from __future__ import annotations

import sys
from datetime import datetime

from gitops.cli import run
from gitops.clock import SystemClock

if __name__ == "__main__":
    moment = datetime.fromisoformat(sys.argv[1])
    SystemClock.now = lambda _: moment  # type: ignore[method-assign]
    sys.exit(run(sys.argv[2:]))
