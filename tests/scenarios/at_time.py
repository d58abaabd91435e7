"""`levelgate` for which the time stands still. The API server has its own."""

from __future__ import annotations

from datetime import datetime

from gitops.clock import SystemClock


def stand_still(moment: datetime) -> None:
    SystemClock.now = lambda _: moment  # type: ignore[method-assign]
