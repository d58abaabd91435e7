"""Closed vocabulary of reasons why an object differs from Git, for conditions, Events, output and metrics."""

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
    """Reason in CamelCase for a state, a wait or a failure. The values are part of the API and never change."""

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
        """Return whether the reason stands for a wait that ends as soon as other instances of the rollout proceed."""
        return self in {Reason.PACE_REACHED, Reason.WAVE_NOT_REACHED}

    @property
    def is_missing_permission(self) -> bool:
        """Return whether the change may not start now because a window, rollout, gate or person does not permit it."""
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
        """Return whether only gates, people and windows prevent progress.

        A hold means that no request has failed, and that no change is in flight.
        """
        return self.is_missing_permission or self in {
            Reason.SUSPENDED,
            Reason.BRAKE_ENGAGED,
            Reason.HISTORY_REWRITTEN,
            Reason.UNSIGNED,
            Reason.LEFT_BEHIND,
        }

    @property
    def is_failure(self) -> bool:
        """Return whether a person has to change something, because time alone does not help."""
        return self in {
            Reason.RENDER_FAILED,
            Reason.APPLY_FAILED,
            Reason.CONFLICT,
            Reason.OWNED_ELSEWHERE,
            Reason.UNHEALTHY,
        }


class EventReason(StrEnum):
    """Reasons of Events about completed changes. Events about waits use the class `Reason`."""

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
    """Reference to an object that contributes to a cause, such as a window."""

    kind: str
    name: str
    reason: Reason
    since: datetime | None = None
    """Start of the contribution, or None if the time is unknown."""
    until: datetime | None = None
    """End of the contribution, or None if the time is unknown."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Explanation of why a set, or a node of the set, waits or has failed."""

    reason: Reason
    message: str = ""
    node: str = ""
    """Id of the node that waits. If the set itself waits, the id is empty."""
    object_key: ObjectKey | None = None
    """Object that a person has to inspect."""
    since: datetime | None = None
    """Start of the cause, or None if the time is unknown."""
    until: datetime | None = None
    """Earliest time at which the wait can end, or None if the time is unknown."""
    blockers: tuple[str, ...] = ()
    """Nodes of the same set, or instances of the same rollout, that have to proceed first."""
    references: tuple[CauseRef, ...] = ()
    """Objects that contribute to the cause, such as windows. Each reference has its own reason."""
    dependents: tuple[str, ...] = ()
    """Nodes that wait only because of this cause."""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further facts for reports, as JSON."""
    is_shared: bool = False
    """True if the record of the rollout stores the times and the references once, for all instances of the rollout."""

    @classmethod
    def from_error(cls, error: ClusterError) -> Cause:
        """Return the cause that represents `error`, the error of a failed request."""
        match error:
            case FieldConflict():
                advice = f"remove the field from Git, or take it over with the annotation {well_known.CONFLICTS}: force"
                return cls(Reason.CONFLICT, f"{error}; {advice}")
            case AdoptionWouldChange():
                return cls(Reason.CONFLICT, str(error))
            case Immutable():
                # A replacement deletes the object, perhaps with data, so only a person may permit a replacement.
                advice = (
                    f"restore the old value, or permit a replacement of the object with {well_known.REPLACE}: allowed"
                )
                return cls(Reason.APPLY_FAILED, f"{error}; {advice}")
            case NamespaceTerminating() | WriteInFlight() | Unavailable() | UnknownOutcome() | StaleWrite():
                return cls(Reason.PROGRESSING, str(error))
            case Denied():
                return cls(Reason.APPLY_FAILED, f"not allowed: {error}")
        return cls(Reason.APPLY_FAILED, str(error))
