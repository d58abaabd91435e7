"""What people ask by annotations, in Git or on the live object: hold, suspend, priority, and going past a window.

A hold, a suspension and a break-glass can be asked of an instance, a plain object and a source; of a definition a suspension and a break-glass; of
the whole installation a suspension. What cannot be read of a hold or of a suspension still holds or suspends; what cannot be read of a break-glass
opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.state.managed_fields import annotation_managers
from applier.state.observed import annotation
from gitops.durations import format_duration
from gitops.rollouts.policy import Policy
from gitops.timestamps import parse_timestamp, timestamp
from renderer import well_known
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import Manifest
from renderer.levelgate_status import LevelgateStatus

if TYPE_CHECKING:
    from renderer.catalog.file_content import DeclaredObject

_ANNOTATION_KEYS: Final = frozenset(
    {
        well_known.HOLD,
        well_known.HOLD_UNTIL,
        well_known.SUSPEND,
        well_known.SUSPEND_UNTIL,
        well_known.KRO_RECONCILE,
        well_known.BREAK_GLASS_REASON,
        well_known.BREAK_GLASS_UNTIL,
        well_known.PRIORITY,
    }
)
"""Most instances carry none of them, and each is looked at in every decision."""

MAX_BREAK_GLASS_DURATION: Final = timedelta(hours=4)
"""A break-glass ends at most so long after the commit, or the annotation, that asks for it was first seen."""
_MINUTE_FORMAT: Final = "%Y-%m-%dT%H:%MZ"
_UNKNOWN_PERSON: Final = "an unknown person"


@dataclass(frozen=True, slots=True)
class Directives:
    """What people say of one thing. `glass` is a break-glass: why windows are to be passed."""

    hold_reason: str = ""
    hold_until: datetime | None = None
    hold_by: str = ""
    suspend_reason: str = ""
    suspend_until: datetime | None = None
    break_glass_reason: str = ""
    break_glass_until: datetime | None = None
    break_glass_by: str = ""
    priority: int = 0

    @classmethod
    def from_objects(cls, manifest: Manifest | None, live: Object | None) -> Directives:
        """Git's word first, else that on the live object. There, what only we have written was Git's word once, and counts no more."""
        if _ANNOTATION_KEYS.isdisjoint(_annotations(manifest)) and _ANNOTATION_KEYS.isdisjoint(_annotations(live)):
            return NO_DIRECTIVES

        def said(key: str) -> str:
            return annotation(manifest or {}, key) or (
                annotation(live, key) if live and _is_set_by_others(live, key) else ""
            )

        def why(key: str) -> str:
            is_blank = live is not None and not annotation(live, key).strip() and _is_set_by_others(live, key)
            return said(key).strip() or ("no reason given" if is_blank else "")

        suspension = why(well_known.SUSPEND) or (
            f"{well_known.KRO_RECONCILE}: suspended" if said(well_known.KRO_RECONCILE) == "suspended" else ""
        )
        return cls(
            hold_reason=why(well_known.HOLD),
            hold_until=parse_timestamp(said(well_known.HOLD_UNTIL)),
            hold_by=_author(manifest, live, well_known.HOLD, well_known.REQUESTED_BY) if why(well_known.HOLD) else "",
            suspend_reason=suspension,
            suspend_until=parse_timestamp(said(well_known.SUSPEND_UNTIL)),
            break_glass_reason=said(well_known.BREAK_GLASS_REASON),
            break_glass_until=parse_timestamp(said(well_known.BREAK_GLASS_UNTIL)),
            break_glass_by=_author(manifest, live, well_known.BREAK_GLASS_REASON, well_known.BREAK_GLASS_BY),
            priority=_parse_integer(said(well_known.PRIORITY)),
        )

    def with_wider_break_glass(self, wider: Directives | None) -> Directives:
        """With the break-glass of something wider, where it has none of its own."""
        return (
            self
            if wider is None or self.break_glass_reason
            else replace(
                self,
                break_glass_reason=wider.break_glass_reason,
                break_glass_until=wider.break_glass_until,
                break_glass_by=wider.break_glass_by,
            )
        )

    @property
    def end_times(self) -> tuple[datetime, ...]:
        """When something of it may end."""
        return tuple(filter(None, (self.hold_until, self.suspend_until, self.break_glass_until)))

    def active_hold(self, policy: Policy, now: datetime, *, since: datetime, subject: str = "") -> Cause | None:
        """The hold, while it lasts: as long as was said, and no longer than the policy allows after it was first seen.

        `subject` is what is held, where that is more than one object: `source platform is`.
        """
        if not self.hold_reason:
            return None
        ends = policy.hold_end(since, self.hold_until)
        if now >= ends:
            return None
        by = f" by {self.hold_by}" if self.hold_by else " by Git"
        message = f"{subject} held{by} until {ends:{_MINUTE_FORMAT}}: {self.hold_reason}".lstrip()
        return Cause(Reason.HELD, message, until=ends)

    def active_suspension(self, now: datetime, subject: str = "") -> Cause | None:
        """The suspension, while it lasts; `what` is suspended, where that is more than one instance: `source platform is`."""
        if not self.suspend_reason or (self.suspend_until and now >= self.suspend_until):
            return None
        until = f" until {self.suspend_until:{_MINUTE_FORMAT}}" if self.suspend_until else ""
        message = f"{subject} suspended{until}: {self.suspend_reason}".lstrip()
        return Cause(Reason.SUSPENDED, message, until=self.suspend_until)

    def windows_overridden_until(self, since: datetime) -> datetime | None:
        """Until when windows are passed; None where nobody asked, without a reason, or for longer than is allowed."""
        return None if self.break_glass_refusal(since, since) else self.break_glass_until

    def break_glass_refusal(self, since: datetime, now: datetime) -> str:
        """Why the break-glass opens nothing now; empty where it does, or nobody asked for one."""
        if not self.break_glass_reason:
            return ""
        if self.break_glass_until is None:
            return (
                f"{well_known.BREAK_GLASS_UNTIL} holds no time; write for example {timestamp(now + timedelta(hours=1))}"
            )
        if self.break_glass_until > since + MAX_BREAK_GLASS_DURATION:
            limit = format_duration(MAX_BREAK_GLASS_DURATION)
            return f"until {self.break_glass_until:{_MINUTE_FORMAT}} is more than {limit} ahead of {since:{_MINUTE_FORMAT}}"
        return f"over since {self.break_glass_until:{_MINUTE_FORMAT}}" if now >= self.break_glass_until else ""


NO_DIRECTIVES: Final = Directives()


def find_ineffective_break_glass(
    declared_objects: Iterable[DeclaredObject], now: datetime
) -> Iterator[tuple[Problem, bool]]:
    """A break-glass in Git that opens nothing now because of its end, and whether that is over; else it is further ahead than it may be."""
    path = f"metadata.annotations[{well_known.BREAK_GLASS_UNTIL}]"
    for declared in declared_objects:
        ends = parse_timestamp(annotation(declared.manifest, well_known.BREAK_GLASS_UNTIL))
        if ends is None or now < ends <= now + MAX_BREAK_GLASS_DURATION:
            continue
        latest = f"write at most {timestamp(now + MAX_BREAK_GLASS_DURATION)}"
        message = (
            "is in the past; remove it"
            if ends <= now
            else f"is more than {format_duration(MAX_BREAK_GLASS_DURATION)} ahead and bypasses no window; {latest}"
        )
        yield Problem(declared.origin.file, declared.line_of(path), path, message), ends <= now


def first_seen_at(instance: Object | None, name: str, value: str) -> datetime | None:
    """When this word of somebody was first seen, as the status of the instance remembers it."""
    stored = LevelgateStatus.from_instance(instance).asked.get(name) or {}
    return parse_timestamp(stored.get("since")) if stored.get("said") == value else None


def requester_of(record: Object, key: str, name_key: str = well_known.REQUESTED_BY) -> str:
    """Who has annotated a record with `key`: the name that is given with it, else the field manager that wrote it last."""
    return annotation(record, name_key) or next(reversed(annotation_managers(record, key)), _UNKNOWN_PERSON)


def _is_set_by_others(live: Object, key: str) -> bool:
    """Does the object carry this annotation by anybody's word but ours?"""
    is_set = key in (live["metadata"].get("annotations") or {})
    return is_set and (not (managers := annotation_managers(live, key)) or set(managers) != {CONTENT_MANAGER})


def _author(manifest: Manifest | None, live: Object | None, key: str, name_key: str) -> str:
    """Who gives the word that counts; empty where Git says it. On the live object that is the field manager that annotated it, or whom it names."""
    if annotation(manifest or {}, key) or live is None:
        return ""
    manager = next(
        (name for name in reversed(annotation_managers(live, key)) if name != CONTENT_MANAGER), _UNKNOWN_PERSON
    )
    return (annotation(live, name_key) if manager in annotation_managers(live, name_key) else "") or manager


def _annotations(obj: Mapping[str, Any] | None) -> Mapping[str, str]:
    annotations = ((obj or {}).get("metadata") or {}).get("annotations")
    return annotations if isinstance(annotations, Mapping) else {}


def _parse_integer(text: str) -> int:
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else 0
