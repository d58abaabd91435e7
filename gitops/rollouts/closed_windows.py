"""A closed window in words: what a status, an event and the terminal say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from applier.causes import Cause, CauseRef, Reason
from gitops.rollouts.policy import Policy
from gitops.rollouts.queue_position import Wait
from gitops.windows.verdict import ClosedWindow, WindowVerdict, not_startable, startable
from gitops.windows.window import Window, WindowKind


def closed_window_cause(verdict: WindowVerdict) -> Cause:
    """A verdict that is closed, as a cause of waiting."""
    assert verdict.reason
    return Cause(verdict.reason, _message(verdict), until=verdict.until, because=tuple(map(because, verdict.closings)))


def waves(policy: Policy, windows: Mapping[str, Window], now: datetime) -> Iterator[tuple[str, Wait]]:
    """Waves whose own windows are not all open, each with why."""
    for wave in policy.waves:
        for name in wave.windows:
            window = windows.get(name)
            if window is None:
                yield wave.name, Wait(Reason.GATE_ERROR, f"wave {wave.name} names window {name}, which does not exist")
            elif not startable(window, now).open:
                closing = not_startable(window, now)
                told = f"wave {wave.name} waits for {named(window)}"
                yield wave.name, Wait(closing.reason, told, closing.until, because=(because(closing),))


def because(closing: ClosedWindow) -> CauseRef:
    return CauseRef("Window", closing.window.name, closing.reason, closing.since, closing.until)


def named(window: Window) -> str:
    return f"window {window.name} ({window.ticket})" if window.ticket else f"window {window.name}"


def _message(verdict: WindowVerdict) -> str:
    if verdict.reason is Reason.CLOCK_SKEW:
        return "the clock went back by more than five minutes, or is more than 30 seconds from the API server's; no Allow counts until that is over"
    return message(verdict.closings, verdict.until) if verdict.closings else "no window allows it"


def message(closings: Sequence[ClosedWindow], until: datetime | None) -> str:
    """`waits for window dba-hours (CHG-2210), opens 2026-11-23T08:00Z (Mon 09:00 Europe/Berlin)`"""
    words = " and ".join(dict.fromkeys(map(_words, closings)))
    if until is None:
        return words
    zone = closings[0].window.zone
    return f"{words}, opens {until:%Y-%m-%dT%H:%MZ} ({until.astimezone(zone):%a %H:%M} {zone.key})"


def _words(closing: ClosedWindow) -> str:
    if closing.reason is Reason.NEVER_OPENS:
        return f"{named(closing.window)} never opens again"
    return (
        f"{named(closing.window)} is closed"
        if closing.window.kind is WindowKind.DENY
        else f"waits for {named(closing.window)}"
    )
