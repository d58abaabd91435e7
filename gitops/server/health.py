"""Is it alive, and is it ready? Both answers are decided from what the monitor was told."""

from __future__ import annotations

from typing import Final

from gitops.server.monitor import Monitor
from renderer.frozen import dataclass

STUCK: Final = 900.0
"""Seconds: a pass that lasts longer does not end any more, and the process is better started anew."""

FIRST_SYNC: Final = 60.0
"""Seconds that a source may take to be read for the first time; after that readiness waits for it no longer."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`why` is one line, for people."""

    ok: bool
    why: str


def alive(monitor: Monitor) -> ProbeResult:
    """Whoever answers has a loop that lives; a pass must not be stuck in it."""
    if monitor.lasts > STUCK:
        return ProbeResult(False, f"a pass has lasted for {monitor.lasts:.0f}s, longer than {STUCK:.0f}s: it is stuck")
    return ProbeResult(True, "ok")


def ready(monitor: Monitor) -> ProbeResult:
    """Whoever knows who leads, and waits, is ready to follow. Whoever leads is, once every source was read and a pass is over; a
    source that cannot be read is waited for no longer than `FIRST_SYNC`, because the others must not suffer.
    """
    if not monitor.leads():
        if monitor.stands_by():
            return ProbeResult(True, "standing by: another replica leads")
        return ProbeResult(False, f"cluster {monitor.cluster} has not told yet who leads")
    missing = monitor.unread()
    if not monitor.number:
        unread = f"; not read yet: {', '.join(missing)}" if missing else ""
        return ProbeResult(False, f"the first pass is not over yet{unread}")
    since = monitor.elapsed() - (monitor.leading_since or 0.0)
    if missing and since < FIRST_SYNC:
        return ProbeResult(False, f"not read yet: {', '.join(missing)}")
    return ProbeResult(True, f"ok, but not read yet: {', '.join(missing)}" if missing else "ok")
