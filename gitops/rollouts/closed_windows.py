"""Causes and sentences about closed windows for statuses, Events and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from applier.causes import Cause, CauseRef, Reason
from gitops.rollouts.policy import Policy
from gitops.windows.verdict import WindowPeriod, WindowVerdict, find_window_period, start_state
from gitops.windows.window import Window, WindowKind


def closed_window_cause(verdict: WindowVerdict) -> Cause:
    """Return the cause that explains the closed `verdict`."""
    assert verdict.reason
    return Cause(
        verdict.reason,
        _verdict_message(verdict),
        until=verdict.until,
        references=tuple(map(window_ref, verdict.closed_windows)),
    )


def find_closed_waves(policy: Policy, windows: Mapping[str, Window], now: datetime) -> Iterator[tuple[str, Cause]]:
    """Yield the name and the cause of each wave of `policy` that names a closed or missing window.

    All windows of a wave must be open. So the cause names all closed windows, and ends when the last of them opens.
    """
    for wave in policy.waves:
        if missing := [name for name in wave.windows if name not in windows]:
            verb = "is missing; declare it" if len(missing) == 1 else "are missing; declare them"
            noun = "window" if len(missing) == 1 else "windows"
            yield wave.name, Cause(Reason.GATE_ERROR, f"wave {wave.name}: {noun} {' and '.join(missing)} {verb}")
            continue
        closed = [
            find_window_period(windows[name], now)
            for name in wave.windows
            if not start_state(windows[name], now).is_open
        ]
        if closed:
            # The window that opens last comes first, because reports show the first reference.
            closed.sort(key=lambda one: one.until or datetime.max.replace(tzinfo=UTC), reverse=True)
            names = " and ".join(format_window_name(one.window) for one in closed)
            references = tuple(map(window_ref, closed))
            message = f"wave {wave.name} waits for {names}"
            yield wave.name, Cause(closed[0].reason, message, until=closed[0].until, references=references)


def window_ref(period: WindowPeriod) -> CauseRef:
    """Return the entry for the window of `period` in the `references` of a cause."""
    return CauseRef("Window", period.window.name, period.reason, period.since, period.until)


def format_window_name(window: Window) -> str:
    """Return `window NAME`, followed by the ticket of the window, if any, in parentheses."""
    return f"window {window.name} ({window.ticket})" if window.ticket else f"window {window.name}"


def _verdict_message(verdict: WindowVerdict) -> str:
    if verdict.reason is Reason.CLOCK_SKEW:
        return (
            "the clock went back by more than five minutes, or differs by more than 30 seconds from the API server's; "
            "no Allow window opens; correct the clock"
        )
    return (
        format_closed_windows(verdict.closed_windows, verdict.until)
        if verdict.closed_windows
        else "no window allows the change"
    )


def format_closed_windows(closed: Sequence[WindowPeriod], until: datetime | None) -> str:
    """Return a sentence about the windows in `closed`.

    If `until` is not None, the sentence also contains `until`, in UTC and in the time zone of the first window.

    Example: `waits for window dba-hours (CHG-2210), opens 2026-11-23T08:00Z (Mon 09:00 Europe/Berlin)`.
    """
    description = " and ".join(dict.fromkeys(map(_describe_closed_window, closed)))
    if until is None:
        return description
    zone = closed[0].window.zone
    return f"{description}, opens {until:%Y-%m-%dT%H:%MZ} ({until.astimezone(zone):%a %H:%M} {zone.key})"


def _describe_closed_window(closed_window: WindowPeriod) -> str:
    if closed_window.reason is Reason.NEVER_OPENS:
        return f"{format_window_name(closed_window.window)} never opens again"
    return (
        f"{format_window_name(closed_window.window)} is closed"
        if closed_window.window.kind is WindowKind.DENY
        else f"waits for {format_window_name(closed_window.window)}"
    )
