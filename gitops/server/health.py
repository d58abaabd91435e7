"""Is it alive, and is it ready? Both answers are decided from what the monitor was told."""

from __future__ import annotations

from typing import Final

from gitops.server.monitor import Monitor
from renderer.frozen import dataclass

STUCK_PASS_SECONDS: Final = 900.0
"""Seconds: a pass that lasts longer does not end any more, and the process is better started anew."""

FIRST_SYNC_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that a source may take to be read for the first time; after that readiness waits for it no longer."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`why` is one line, for people."""

    is_ok: bool
    message: str


def check_liveness(monitor: Monitor) -> ProbeResult:
    """Whoever answers has a loop that lives; a pass must not be stuck in it."""
    if monitor.longest_pass_seconds > STUCK_PASS_SECONDS:
        return ProbeResult(
            False,
            f"a pass has lasted for {monitor.longest_pass_seconds:.0f}s, longer than {STUCK_PASS_SECONDS:.0f}s: it is stuck",
        )
    return ProbeResult(True, "ok")


def check_readiness(monitor: Monitor) -> ProbeResult:
    """Whoever knows who leads, and waits, is ready to follow. Whoever leads is, once every source was read and a pass is over; a
    source that cannot be read is waited for no longer than `FIRST_SYNC`, because the others must not suffer.
    """
    if not monitor.leads():
        if monitor.stands_by():
            return ProbeResult(True, "standing by: another replica leads")
        return ProbeResult(False, f"cluster {monitor.cluster} has not told yet who leads")
    unread_names = monitor.unread_sources()
    if not monitor.number:
        unread_text = f"; not read yet: {', '.join(unread_names)}" if unread_names else ""
        return ProbeResult(False, f"the first pass is not over yet{unread_text}")
    leading_seconds = monitor.elapsed() - (monitor.leading_since or 0.0)
    if unread_names and leading_seconds < FIRST_SYNC_TIMEOUT_SECONDS:
        return ProbeResult(False, f"not read yet: {', '.join(unread_names)}")
    return ProbeResult(True, f"ok, but not read yet: {', '.join(unread_names)}" if unread_names else "ok")
