"""Whether a cluster answers: a breaker and five states, as one table of transitions. Pure: times and jitter come in as arguments.

Invariants: whatever has happened, one answer leads back to calls that are sent. While the breaker is open no call is sent but one probe at a time.
Only silence opens it: a refusal is an answer. Times are seconds of one clock that only goes forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from applier.backoff import exponential_backoff
from renderer.frozen import dataclass

MAX_FAILURES: Final = 5
"""Failures in a row, at least, before the breaker opens."""

MAX_SILENCE_SECONDS: Final = 10.0
"""Seconds since the first of these failures, without an answer, before it opens: many requests that fail at once are one event."""

_FIRST_PROBE_SECONDS: Final = 1.0
_LAST_PROBE_SECONDS: Final = 30.0
"""Each wait is up to twice as long, by its jitter: from 1 to 60 s."""

SLOW_SECONDS: Final = 10.0
"""Seconds after which an answer to one read, tries and waits included, is slow."""

_MAX_SLOW_ANSWERS: Final = 3
"""Slow answers in a row that make a cluster slow."""


class ReachState(StrEnum):
    ENGAGED = "Engaged"
    DEGRADED = "Degraded"
    UNREACHABLE = "Unreachable"
    PAUSED = "Paused"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of one cluster's answers: whether it `has_answered` at all, and `failures` in a row since `silent_since`, which is None where its
    last call was answered.

    The breaker is open from `opened_at` on; by then `failed_probes` have failed, and the next one is due at `probe_at`. `is_probing`: one is under
    way. `slow_answers` in a row; `troubles` are what cannot be read though the cluster answers: a subject (`Secret`) and what is wrong with it.
    The breaker opens after `max_silence_seconds`, which never change.
    """

    has_answered: bool
    silent_since: float | None
    failures: int = 0
    opened_at: float | None = None
    failed_probes: int = 0
    probe_at: float = 0.0
    is_probing: bool = False
    slow_answers: int = 0
    troubles: Mapping[str, str] = field(default_factory=dict)
    max_silence_seconds: float = MAX_SILENCE_SECONDS

    @property
    def is_open(self) -> bool:
        """Are calls not sent?"""
        return self.opened_at is not None

    @property
    def is_slow(self) -> bool:
        return self.slow_answers >= _MAX_SLOW_ANSWERS


def begin_reach(now: float, *, max_silence_seconds: float = MAX_SILENCE_SECONDS) -> Reach:
    """Of a cluster that was not asked yet: it may be asked, and does not count as reachable before its first answer."""
    return Reach(has_answered=False, silent_since=now, max_silence_seconds=max_silence_seconds)


def record_answer(reach: Reach, *, seconds: float = 0.0) -> Reach:
    """The server has answered, with whatever it was, after so many seconds. What cannot be read still cannot."""
    return Reach(
        has_answered=True,
        silent_since=None,
        is_probing=reach.is_probing,
        slow_answers=reach.slow_answers + 1 if seconds >= SLOW_SECONDS else 0,
        troubles=reach.troubles,
        max_silence_seconds=reach.max_silence_seconds,
    )


def record_failure(reach: Reach, now: float, *, jitter: float) -> Reach:
    """A call was not answered. `jitter` is in [0, 1). While the breaker is open this tells nothing new: it is a call from before."""
    if reach.is_open:
        return reach
    silent_since = now if reach.silent_since is None or not reach.failures else reach.silent_since
    failed = replace(reach, failures=reach.failures + 1, silent_since=silent_since)
    if failed.failures < MAX_FAILURES or now - silent_since < reach.max_silence_seconds:
        return failed
    return replace(failed, opened_at=now, failed_probes=0, probe_at=now + probe_wait(0, jitter))


def begin_probe(reach: Reach, now: float) -> Reach | None:
    """The state in which the one request of a half-open breaker is under way; None where none may be sent now."""
    if not reach.is_open or reach.is_probing or now < reach.probe_at:
        return None
    return replace(reach, is_probing=True)


def end_probe(reach: Reach, now: float, *, is_answered: bool, jitter: float) -> Reach:
    """The probe has ended. Where another call was answered meanwhile, its failure is that of any call."""
    ended = replace(reach, is_probing=False)
    if is_answered:
        return record_answer(ended)
    if not ended.is_open:
        return record_failure(ended, now, jitter=jitter)
    failed_probes = ended.failed_probes + 1
    return replace(ended, failed_probes=failed_probes, probe_at=now + probe_wait(failed_probes, jitter))


def probe_wait(failed_probes: int, jitter: float) -> float:
    """Seconds until the next probe: 1 to 2, doubled by each that failed, at most 30 to 60."""
    return exponential_backoff(failed_probes, _FIRST_PROBE_SECONDS, _LAST_PROBE_SECONDS) * (1.0 + jitter)


def record_trouble(reach: Reach, subject: str, message: str) -> Reach:
    """The cluster answers, and this cannot be read."""
    return replace(reach, troubles={**reach.troubles, subject: message})


def clear_trouble(reach: Reach, subject: str) -> Reach:
    """It can be read again."""
    if subject not in reach.troubles:
        return reach
    return replace(reach, troubles={name: text for name, text in reach.troubles.items() if name != subject})


def reach_state(reach: Reach, *, is_paused: bool, is_removed: bool) -> ReachState:
    """What people see: what somebody has ordered goes before what was found."""
    if is_removed:
        return ReachState.REMOVED
    if is_paused:
        return ReachState.PAUSED
    if reach.is_open or not reach.has_answered:
        return ReachState.UNREACHABLE
    return ReachState.DEGRADED if reach.troubles or reach.is_slow else ReachState.ENGAGED


def describe_troubles(reach: Reach) -> tuple[str, ...]:
    """Why a cluster is degraded, one sentence for each cause. A sentence stays as long as its cause: every other one is told and recorded anew."""
    slow = (f"its last answers took more than {SLOW_SECONDS:g} s each",) if reach.is_slow else ()
    return (*(f"{subject}: {message}" for subject, message in sorted(reach.troubles.items())), *slow)
