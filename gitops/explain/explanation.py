"""What `levelgate explain` finds: the shortest chain from what was asked about to what holds it up.

One link waits for the next: an instance for its pace because of another instance, that for the gate of one of its nodes, that for a window.
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
from gitops.windows.verdict import ClosedWindow, make_closed_window
from gitops.windows.window import Window, WindowKind
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

MAX_OPENINGS = 3


@dataclass(frozen=True, slots=True)
class WaitingLink:
    """`key` waits. Of one in a rollout, `settled` and `unsettled` are the others of its wave that moved, by name."""

    key: ObjectKey
    cause: Cause
    instance: InstanceState | None = None
    settled: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedWindowLink:
    """A window that is closed: since and until when, and the next times at which it lets pass."""

    closed_window: ClosedWindow
    opens: tuple[datetime, ...]

    @classmethod
    def from_window(cls, now: datetime, window: Window, source: str) -> ClosedWindowLink:
        span = window.timeline.span(now)
        if window.kind is WindowKind.DENY and span.active:
            ends = (span.until,) if span.until else ()
            return cls(ClosedWindow(window, source, Reason.WINDOW_CLOSED, span.since, span.until), ends)
        starts = (opens for opens, _ in window.timeline.intervals(now) if opens and opens > now)
        return cls(make_closed_window(window, now, source), tuple(islice(starts, MAX_OPENINGS)))


Link = WaitingLink | ClosedWindowLink


@dataclass(frozen=True, slots=True)
class CauseChain:
    """Of one thing that a person named: `unit`, as objects are written, or our own word and a name.

    `chain` begins with its worst cause, `others` are its further causes. `open` are the windows that govern it and let pass, `externals` the
    external facts that its definition asks for and that are so, with since when. `record` is that of a source, which `is_left` where the daemon is
    not configured with it any more, `rollout` that of a rollout; `instances` are those of these, or behind a window, and `objects` why others are
    there, that are plain or do not exist yet. `source` is the name of the source that it comes from, where it comes from one, `commit` where
    that is, and `offered` the commit that waits for a person's word there. `left_behind` are the members concerned that were left behind.
    """

    subject: str
    state: DisplayState
    key: ObjectKey | None = None
    instance: InstanceState | None = None
    chain: tuple[Link, ...] = ()
    other_causes: tuple[Cause, ...] = ()
    open_windows: tuple[Window, ...] = ()
    externals: Mapping[str, datetime] = field(default_factory=dict)
    record: SourceRecord | None = None
    is_unconfigured: bool = False
    rollout: RolloutState | None = None
    instances: tuple[InstanceState, ...] = ()
    object_causes: tuple[Cause, ...] = ()
    source: str = ""
    commit: str = ""
    offered: str = ""
    left_behind: tuple[LeftBehindMember, ...] = ()

    @property
    def unsettled_instances(self) -> tuple[InstanceState, ...]:
        """Instances that have not settled."""
        return tuple(instance for instance in self.instances if not instance.is_settled)

    @property
    def blockers_of(self) -> tuple[CauseRef, ...]:
        """What it waits for itself, the rest of the chain aside."""
        first = next((link for link in self.chain if isinstance(link, WaitingLink)), None)
        return tuple(blockers_of(first)) if first else ()

    @property
    def not_before(self) -> datetime | None:
        """The earliest time at which it can go on, as far as that is known."""
        return next(
            (link.cause.until for link in self.chain if isinstance(link, WaitingLink) and link.cause.until), None
        )

    @property
    def last_object(self) -> ObjectKey | None:
        """The object that everything waits for in the end; None where that is a window."""
        last = self.chain[-1] if self.chain else None
        return last.cause.object_key if isinstance(last, WaitingLink) else None

    @property
    def failures(self) -> tuple[WaitingLink, ...]:
        return tuple(link for link in self.chain if isinstance(link, WaitingLink) and link.cause.reason.is_failure)


def blockers_of(link: WaitingLink) -> Iterator[CauseRef]:
    """What stands behind a cause; where nothing does, its rollout, or the object itself."""
    cause = link.cause
    if cause.references:
        yield from cause.references
    elif link.instance and link.instance.rollout and not cause.node and cause.reason.is_missing_permission:
        yield CauseRef("Rollout", link.instance.rollout, cause.reason, cause.since, cause.until)
    else:
        name = str(cause.object_key or cause.node or link.key)
        yield CauseRef("Object", name, cause.reason, cause.since, cause.until)
