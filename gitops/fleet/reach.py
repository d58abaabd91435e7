"""Reachability of a cluster, tracked by a circuit breaker with half-open probes.

A closed breaker lets calls pass. After repeated silence, the breaker opens, and calls fail at once. A half-open breaker
sends one probe. If a subject, such as a kind, cannot be read although the cluster answers, the subject has a trouble
message.

Invariants:

- From every state, one answer closes the breaker.
- While the breaker is open, the cluster gets no call except one probe at a time.
- Only silence opens the breaker. A refusal by the server is an answer.

The functions are pure: times and jitter are arguments. Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from applier.backoff import exponential_backoff
from renderer.frozen import dataclass

MAX_FAILURES: Final = 5
"""Number of consecutive failures that open the breaker."""

MAX_SILENCE_SECONDS: Final = 10.0
"""Minimum time in seconds from the first consecutive failure until the breaker opens.

Many requests that fail at the same moment are one event, which must not open the breaker.
"""

_FIRST_PROBE_SECONDS: Final = 1.0
_LAST_PROBE_SECONDS: Final = 30.0
"""Longest wait in seconds between two probes, before jitter. Jitter can double each wait."""

SLOW_SECONDS: Final = 10.0
"""Seconds after which the answer to one read counts as slow, including retries and their waits."""

_MAX_SLOW_ANSWERS: Final = 3
"""Number of consecutive slow answers after which a cluster counts as slow."""


class ReachState(StrEnum):
    """State of a cluster in the fleet, in the words that people see."""

    ENGAGED = "Engaged"
    DEGRADED = "Degraded"
    UNREACHABLE = "Unreachable"
    PAUSED = "Paused"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class Reach:
    """Reachability of one cluster, derived from all calls so far."""

    has_answered: bool
    """True from the first answer on."""

    silent_since: float | None
    """Time in monotonic seconds of the first of the `failures`, or None after an answer."""

    failures: int = 0
    """Number of calls without an answer since the last answer."""

    opened_at: float | None = None
    """Time in monotonic seconds at which the breaker opened, or None if the breaker is closed."""

    failed_probes: int = 0
    """Number of probes that have failed since the breaker opened."""

    probe_at: float = 0.0
    """Time in monotonic seconds at which the next probe is due."""

    is_probing: bool = False
    """True while a probe is in flight."""

    slow_answers: int = 0
    """Number of consecutive slow answers."""

    troubles: Mapping[str, str] = field(default_factory=dict)
    """Error messages by subject. The cluster answers, but Levelgate cannot read the subject, such as a kind."""

    max_silence_seconds: float = MAX_SILENCE_SECONDS
    """Seconds of silence that open the breaker. The value never changes."""

    @property
    def is_open(self) -> bool:
        """Return whether the breaker is open. An open breaker lets only probes pass."""
        return self.opened_at is not None

    @property
    def is_slow(self) -> bool:
        """Return whether the last answers were all slow."""
        return self.slow_answers >= _MAX_SLOW_ANSWERS


def begin_reach(now: float, *, max_silence_seconds: float = MAX_SILENCE_SECONDS) -> Reach:
    """Return the state before the first call. The breaker is closed, but the cluster counts as unreachable."""
    return Reach(has_answered=False, silent_since=now, max_silence_seconds=max_silence_seconds)


def record_answer(reach: Reach, *, seconds: float = 0.0) -> Reach:
    """Return the state after an answer, or a refusal, that took `seconds`. Troubles remain."""
    return Reach(
        has_answered=True,
        silent_since=None,
        is_probing=reach.is_probing,
        slow_answers=reach.slow_answers + 1 if seconds >= SLOW_SECONDS else 0,
        troubles=reach.troubles,
        max_silence_seconds=reach.max_silence_seconds,
    )


def record_failure(reach: Reach, now: float, *, jitter: float) -> Reach:
    """Return the state after a call without an answer.

    Args:
        jitter: random number in [0, 1).
    """
    # A call that fails while the breaker is open was sent before the opening, so its failure adds no information.
    if reach.is_open:
        return reach
    silent_since = now if reach.silent_since is None or not reach.failures else reach.silent_since
    failed = replace(reach, failures=reach.failures + 1, silent_since=silent_since)
    if failed.failures < MAX_FAILURES or now - silent_since < reach.max_silence_seconds:
        return failed
    return replace(failed, opened_at=now, failed_probes=0, probe_at=now + probe_wait(0, jitter))


def begin_probe(reach: Reach, now: float) -> Reach | None:
    """Return the state with a probe in flight, or None if no probe may start now."""
    if not reach.is_open or reach.is_probing or now < reach.probe_at:
        return None
    return replace(reach, is_probing=True)


def end_probe(reach: Reach, now: float, *, is_answered: bool, jitter: float) -> Reach:
    """Return the state after a probe. If another call has closed the breaker, the probe counts as an ordinary call."""
    ended = replace(reach, is_probing=False)
    if is_answered:
        return record_answer(ended)
    if not ended.is_open:
        return record_failure(ended, now, jitter=jitter)
    failed_probes = ended.failed_probes + 1
    return replace(ended, failed_probes=failed_probes, probe_at=now + probe_wait(failed_probes, jitter))


def probe_wait(failed_probes: int, jitter: float) -> float:
    """Return the seconds until the next probe.

    The first wait is 1 to 2 seconds. Each failed probe doubles the wait, up to 30 to 60 seconds.
    """
    return exponential_backoff(failed_probes, _FIRST_PROBE_SECONDS, _LAST_PROBE_SECONDS) * (1.0 + jitter)


def record_trouble(reach: Reach, subject: str, message: str) -> Reach:
    """Return the state with the trouble `message` for `subject`."""
    return replace(reach, troubles={**reach.troubles, subject: message})


def clear_trouble(reach: Reach, subject: str) -> Reach:
    """Return the state without a trouble for `subject`."""
    if subject not in reach.troubles:
        return reach
    return replace(reach, troubles={name: text for name, text in reach.troubles.items() if name != subject})


def reach_state(reach: Reach, *, is_paused: bool, is_removed: bool) -> ReachState:
    """Return the state that people see. A removal or a pause in Git overrides the result of the calls."""
    if is_removed:
        return ReachState.REMOVED
    if is_paused:
        return ReachState.PAUSED
    if reach.is_open or not reach.has_answered:
        return ReachState.UNREACHABLE
    return ReachState.DEGRADED if reach.troubles or reach.is_slow else ReachState.ENGAGED


def describe_troubles(reach: Reach) -> tuple[str, ...]:
    """Return the causes of the degraded state of a cluster, one clause for each cause.

    While a cause lasts, its clause does not change, because Levelgate logs and records each new text.
    """
    slow = (f"its last answers took more than {SLOW_SECONDS:g} s each",) if reach.is_slow else ()
    return (*(f"{subject}: {message}" for subject, message in sorted(reach.troubles.items())), *slow)
