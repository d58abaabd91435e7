"""Why something is not as Git says: one closed vocabulary, the same words in conditions, events, output and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from applier.errors import (
    AdoptionWouldChange,
    ClusterError,
    Denied,
    FieldConflict,
    Immutable,
    NamespaceTerminating,
    StaleWrite,
    Unavailable,
    UnknownOutcome,
    WriteInFlight,
)
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


class Reason(StrEnum):
    SETTLED = "Settled"
    PROGRESSING = "Progressing"
    BAKING = "Baking"
    PACE_REACHED = "PaceReached"
    WAVE_NOT_REACHED = "WaveNotReached"
    DEPENDENCY_NOT_READY = "DependencyNotReady"
    WAITING_FOR_DATA = "WaitingForData"
    WINDOW_CLOSED = "WindowClosed"
    NEVER_OPENS = "NeverOpens"
    CLOCK_SKEW = "ClockSkew"
    GATE_CLOSED = "GateClosed"
    GATE_ERROR = "GateError"
    DEADLOCKED = "Deadlocked"
    APPROVAL_REQUIRED = "ApprovalRequired"
    HELD = "Held"
    SUSPENDED = "Suspended"
    HALTED = "Halted"
    BRAKE_ENGAGED = "BrakeEngaged"
    HISTORY_REWRITTEN = "HistoryRewritten"
    UNSIGNED = "Unsigned"
    LEFT_BEHIND = "LeftBehind"
    RENDER_FAILED = "RenderFailed"
    APPLY_FAILED = "ApplyFailed"
    CONFLICT = "Conflict"
    OWNED_ELSEWHERE = "OwnedElsewhere"
    UNHEALTHY = "Unhealthy"
    DELETION_BLOCKED = "DeletionBlocked"
    STILL_READ = "StillRead"
    NOT_IN_GIT = "NotInGit"

    @property
    def is_queued(self) -> bool:
        """One of many waits until others have come further: by itself, and for nobody who could let it pass."""
        return self in {Reason.PACE_REACHED, Reason.WAVE_NOT_REACHED}

    @property
    def is_missing_permission(self) -> bool:
        """The calendar, a rollout, a condition or a person says that a change may not start now."""
        return self.is_queued or self in {
            Reason.WINDOW_CLOSED,
            Reason.NEVER_OPENS,
            Reason.CLOCK_SKEW,
            Reason.GATE_CLOSED,
            Reason.GATE_ERROR,
            Reason.DEADLOCKED,
            Reason.APPROVAL_REQUIRED,
            Reason.HELD,
            Reason.HALTED,
        }

    @property
    def is_hold(self) -> bool:
        """Only gates, people and the calendar stand in the way: nothing is wrong and nothing is under way."""
        return self.is_missing_permission or self in {
            Reason.SUSPENDED,
            Reason.BRAKE_ENGAGED,
            Reason.HISTORY_REWRITTEN,
            Reason.UNSIGNED,
            Reason.LEFT_BEHIND,
        }

    @property
    def is_failure(self) -> bool:
        """Somebody has to change something; time alone will not help."""
        return self in {
            Reason.RENDER_FAILED,
            Reason.APPLY_FAILED,
            Reason.CONFLICT,
            Reason.OWNED_ELSEWHERE,
            Reason.UNHEALTHY,
        }


class EventReason(StrEnum):
    """What has happened to something, where no reason to wait says it: the other words of events."""

    UPDATED = "Updated"
    SETTLED = "Settled"
    HEALED = "Healed"
    PRUNED = "Pruned"
    ADOPTED = "Adopted"
    BLOCKED = "Blocked"
    UNBLOCKED = "Unblocked"
    BREAK_GLASS_USED = "BreakGlassUsed"


@dataclass(frozen=True, slots=True)
class CauseRef:
    """Reference to what stands behind a cause, such as a window; `since` and `until` are None where they are not known."""

    kind: str
    name: str
    reason: Reason
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something waits: a reason, a sentence, the node that waits (empty: the set itself) and the object to look at.

    `until` is the earliest time at which that can end; None, as in `since`, is a time that is not known. `blockers` are
    the nodes of the same set, or the instances of the same rollout, that it waits for; `references` are what stands behind
    it, each with its own reason; `dependents` are nodes that wait only because of this one. `details` is what a report
    says besides, as JSON. Of a shared cause (`is_shared`), the record of the rollout says until when and for what all wait.
    """

    reason: Reason
    message: str = ""
    node: str = ""
    object_key: ObjectKey | None = None
    since: datetime | None = None
    until: datetime | None = None
    blockers: tuple[str, ...] = ()
    references: tuple[CauseRef, ...] = ()
    dependents: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    is_shared: bool = False

    @classmethod
    def from_error(cls, error: ClusterError) -> Cause:
        match error:
            case FieldConflict():
                advice = f"remove the field from Git, or take it over with the annotation {well_known.CONFLICTS}: force"
                return cls(Reason.CONFLICT, f"{error}; {advice}")
            case AdoptionWouldChange():
                return cls(Reason.CONFLICT, str(error))
            case Immutable():
                advice = (
                    f"change it back, or let the object be deleted and created again with {well_known.REPLACE}: allowed"
                )
                return cls(Reason.APPLY_FAILED, f"{error}; {advice}")
            case NamespaceTerminating() | WriteInFlight() | Unavailable() | UnknownOutcome() | StaleWrite():
                return cls(Reason.PROGRESSING, str(error))
            case Denied():
                return cls(Reason.APPLY_FAILED, f"not allowed: {error}")
        return cls(Reason.APPLY_FAILED, str(error))
