"""States that users see: one word for a node, instance, source or rollout, the same in all outputs and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from applier.causes import Reason
from gitops.rollouts.state import WaveProgress


class DisplayState(StrEnum):
    """State that a user sees, in the order from worst to best. Source: docs/reference.md, "States"."""

    FAILED = "Failed"
    """A failure needs a correction by a person."""
    HALTED = "Halted"
    """The rollout has stopped after a failure."""
    SUSPENDED = "Suspended"
    """A person has stopped all writes."""
    HELD = "Held"
    """A person, a gate or a window has to let the change start."""
    WAITING = "Waiting"
    """The change starts later, after other changes."""
    PROGRESSING = "Progressing"
    """The change is applied, and not settled yet."""
    SETTLED = "Settled"
    """The objects match Git and are healthy."""
    TERMINATING = "Terminating"
    """The API server is deleting the object. Sources and rollouts never have this state."""

    @classmethod
    def from_reason(cls, reason: Reason) -> DisplayState:
        """Return the state of a node, instance or source that is blocked for `reason`."""
        return _STATE_OF_REASON[reason]

    @classmethod
    def from_reasons(cls, reasons: Iterable[Reason]) -> DisplayState:
        """Return the worst state that any of `reasons` gives, or Settled if `reasons` is empty."""
        return cls.worst(map(cls.from_reason, reasons))

    @classmethod
    def worst(cls, states: Iterable[DisplayState]) -> DisplayState:
        """Return the worst of `states`, or Settled if `states` is empty."""
        return min(states, key=lambda state: state.rank, default=cls.SETTLED)

    @property
    def rank(self) -> int:
        """Return the place in the order of states, where 0 is the worst."""
        return _RANKS[self]

    @property
    def needs_person_or_time(self) -> bool:
        """Return whether a person, a gate or a window has to let the change start: Halted, Suspended or Held."""
        return self in {DisplayState.HALTED, DisplayState.SUSPENDED, DisplayState.HELD}


_RANKS: Final[Mapping[DisplayState, int]] = {state: rank for rank, state in enumerate(DisplayState)}

_REASONS: Final[Mapping[DisplayState, tuple[Reason, ...]]] = {
    DisplayState.FAILED: (
        Reason.RENDER_FAILED,
        Reason.APPLY_FAILED,
        Reason.CONFLICT,
        Reason.OWNED_ELSEWHERE,
        Reason.UNHEALTHY,
        Reason.NOT_IN_GIT,
    ),
    DisplayState.HALTED: (Reason.HALTED,),
    DisplayState.SUSPENDED: (Reason.SUSPENDED,),
    DisplayState.HELD: (
        Reason.WINDOW_CLOSED,
        Reason.NEVER_OPENS,
        Reason.CLOCK_SKEW,
        Reason.GATE_CLOSED,
        Reason.GATE_ERROR,
        Reason.DEADLOCKED,
        Reason.APPROVAL_REQUIRED,
        Reason.HELD,
        Reason.BRAKE_ENGAGED,
        Reason.HISTORY_REWRITTEN,
        Reason.UNSIGNED,
        Reason.LEFT_BEHIND,
    ),
    DisplayState.WAITING: (
        Reason.PACE_REACHED,
        Reason.WAVE_NOT_REACHED,
        Reason.DEPENDENCY_NOT_READY,
        Reason.WAITING_FOR_DATA,
        Reason.DELETION_BLOCKED,
        Reason.STILL_READ,
    ),
    DisplayState.PROGRESSING: (Reason.PROGRESSING, Reason.BAKING),
    DisplayState.SETTLED: (Reason.SETTLED,),
}

_STATE_OF_REASON: Final[Mapping[Reason, DisplayState]] = {
    reason: state for state, reasons in _REASONS.items() for reason in reasons
}


def count_states(waves: Sequence[WaveProgress]) -> dict[DisplayState, int]:
    """Return the numbers of instances in `waves` that are Settled, Progressing, Waiting, Held and Failed."""
    return {
        DisplayState.SETTLED: sum(wave.settled for wave in waves),
        DisplayState.PROGRESSING: sum(wave.moving for wave in waves),
        DisplayState.WAITING: sum(wave.waiting for wave in waves),
        DisplayState.HELD: sum(wave.held for wave in waves),
        DisplayState.FAILED: sum(wave.failed for wave in waves),
    }
