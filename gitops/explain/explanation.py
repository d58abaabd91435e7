"""Explanation that `levelgate explain` prints: the shortest chain of causes from an object to the last cause.

Each link waits for the next link. For example, an instance waits for its pace because another instance is in flight.
The other instance waits for the gate of one of its nodes, and the gate waits for a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from itertools import islice

from applier.causes import Cause, CauseRef, Reason
from gitops.records.display_state import DisplayState
from gitops.records.instance_state import InstanceState
from gitops.records.left_behind import LeftBehindMember
from gitops.records.source_record import SourceRecord
from gitops.rollouts.state import RolloutState
from gitops.windows.verdict import WindowPeriod, find_window_period
from gitops.windows.window import Window, WindowKind
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

MAX_OPENINGS = 3
"""Maximum number of openings of a closed window in a link."""


@dataclass(frozen=True, slots=True)
class WaitingLink:
    """Link of a chain at which an object waits, with the cause and its details."""

    key: ObjectKey
    cause: Cause
    instance: InstanceState | None = None
    settled: tuple[str, ...] = ()
    """Names of the settled instances of the wave, if the object waits for its pace."""
    unsettled: tuple[str, ...] = ()
    """Names of the instances or nodes that the object waits for."""


@dataclass(frozen=True, slots=True)
class ClosedWindowLink:
    """Link of a chain at which a closed window holds up changes, with the times at which the window opens."""

    closed_window: WindowPeriod
    opens: tuple[datetime, ...]
    """Next times at which changes may start. If the window never opens again, the tuple is empty."""

    @classmethod
    def from_window(cls, now: datetime, window: Window, source: str) -> ClosedWindowLink:
        """Return the link for a closed window.

        Args:
            now: current time in UTC, at which the window is closed.
        """
        span = window.timeline.span(now)
        if window.kind is WindowKind.DENY and span.active:
            ends = (span.until,) if span.until else ()
            return cls(WindowPeriod(window, source, Reason.WINDOW_CLOSED, span.since, span.until), ends)
        starts = (opens for opens, _ in window.timeline.intervals(now) if opens and opens > now)
        return cls(find_window_period(window, now, source), tuple(islice(starts, MAX_OPENINGS)))


Link = WaitingLink | ClosedWindowLink


@dataclass(frozen=True, slots=True)
class CauseChain:
    """Explanation of an object, source, rollout or window."""

    subject: str
    """Key of the object as text, possibly with a node, or a reference such as `source/platform`."""
    state: DisplayState
    key: ObjectKey | None = None
    """Key of the object, or None for a rollout or a window."""
    instance: InstanceState | None = None
    """State of the instance. For a member, the field contains the state of its parent instance."""
    chain: tuple[Link, ...] = ()
    """Links from the worst cause to the last cause."""
    other_causes: tuple[Cause, ...] = ()
    """Further causes of the same subject."""
    open_windows: tuple[Window, ...] = ()
    """Open windows that govern the subject."""
    externals: Mapping[str, datetime] = field(default_factory=dict)
    """True external facts that gates of the subject read, each with the time since which the fact has been true."""
    record: SourceRecord | None = None
    """Record of the source, if the subject is a source."""
    is_unconfigured: bool = False
    """True if the subject is a source that is no longer in the configuration of the daemon."""
    rollout: RolloutState | None = None
    """State of the rollout, if the subject is a rollout."""
    instances: tuple[InstanceState, ...] = ()
    """Instances of the source or rollout, or instances that the window holds up."""
    object_causes: tuple[Cause, ...] = ()
    """Causes of objects outside of `instances` that the window holds up."""
    source: str = ""
    """Name of the subject's source, or an empty string if the source is unknown."""
    commit: str = ""
    """Current commit of the subject's source."""
    offered: str = ""
    """Commit of the subject's source that waits for an approval, or an empty string if no commit waits."""
    left_behind: tuple[LeftBehindMember, ...] = ()
    """Objects left behind: the subject itself, or the objects that the subject, a source, has left behind."""

    @property
    def unsettled_instances(self) -> tuple[InstanceState, ...]:
        return tuple(instance for instance in self.instances if not instance.is_settled)

    @property
    def blockers_of(self) -> tuple[CauseRef, ...]:
        """Return the references of the first link of the chain."""
        first = next((link for link in self.chain if isinstance(link, WaitingLink)), None)
        return tuple(blockers_of(first)) if first else ()

    @property
    def not_before(self) -> datetime | None:
        """Return the earliest time at which the subject can continue, or None if the time is unknown."""
        return next(
            (link.cause.until for link in self.chain if isinstance(link, WaitingLink) and link.cause.until), None
        )

    @property
    def last_object(self) -> ObjectKey | None:
        """Return the object at the end of the chain, or None if the chain ends at a window."""
        last = self.chain[-1] if self.chain else None
        return last.cause.object_key if isinstance(last, WaitingLink) else None

    @property
    def failures(self) -> tuple[WaitingLink, ...]:
        """Return the links of the chain whose reason is a failure."""
        return tuple(link for link in self.chain if isinstance(link, WaitingLink) and link.cause.reason.is_failure)


def blockers_of(link: WaitingLink) -> Iterator[CauseRef]:
    """Yield the references of the cause of `link`. Without references, yield the rollout, or else the object itself."""
    cause = link.cause
    if cause.references:
        yield from cause.references
    elif link.instance and link.instance.rollout and not cause.node and cause.reason.is_missing_permission:
        yield CauseRef("Rollout", link.instance.rollout, cause.reason, cause.since, cause.until)
    else:
        name = str(cause.object_key or cause.node or link.key)
        yield CauseRef("Object", name, cause.reason, cause.since, cause.until)
