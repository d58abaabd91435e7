"""A closed window in words: what a status, an event and the terminal say of it."""

from __future__ import annotations

from applier.reasons import Because, Blocked, Reason
from gitops.propagation.judge import Closing, Verdict
from gitops.propagation.window import Kind, Window


def blocked(verdict: Verdict) -> Blocked:
    """A verdict that is closed, as a cause of waiting."""
    assert verdict.reason
    because = tuple(Because("Window", one.window.name, one.reason, one.since, one.until) for one in verdict.closings)
    return Blocked(verdict.reason, _message(verdict), until=verdict.until, because=because)


def named(window: Window) -> str:
    return f"window {window.name} ({window.ticket})" if window.ticket else f"window {window.name}"


def _message(verdict: Verdict) -> str:
    if verdict.reason is Reason.CLOCK_SKEW:
        return "the clock went back by more than five minutes; no Allow counts until it has caught up"
    words = " and ".join(dict.fromkeys(map(_words, verdict.closings))) or "no window allows it"
    if verdict.until is None or not verdict.closings:
        return words
    zone = verdict.closings[0].window.zone
    local = verdict.until.astimezone(zone)
    return f"{words}, opens {verdict.until:%Y-%m-%dT%H:%MZ} ({local:%a %H:%M} {zone.key})"


def _words(closing: Closing) -> str:
    if closing.reason is Reason.NEVER_OPENS:
        return f"{named(closing.window)} never opens again"
    return (
        f"{named(closing.window)} is closed"
        if closing.window.kind is Kind.DENY
        else f"waits for {named(closing.window)}"
    )
