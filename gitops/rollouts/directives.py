"""Directives of people: hold, suspend, priority and break-glass, read from annotations in Git or on the live object.

A person can hold or suspend an instance, a plain object or a source, or give it a break-glass. A person can suspend a
definition or give it a break-glass. A person can suspend the whole installation.

If the end of a hold or suspension is unreadable, the hold or suspension still applies. If the end of a break-glass is
unreadable, the break-glass does not apply.
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
"""Keys of the annotations that this module reads.

For an instance without any of these annotations, one set operation replaces the parsing.
"""

MAX_BREAK_GLASS_DURATION: Final = timedelta(hours=4)
"""Longest time from the first observation of a break-glass to its end. A longer break-glass is ineffective."""
_MINUTE_FORMAT: Final = "%Y-%m-%dT%H:%MZ"
_UNKNOWN_PERSON: Final = "an unknown person"


@dataclass(frozen=True, slots=True)
class Directives:
    """Hold, suspension, break-glass and priority of one object, source or installation.

    An empty reason means that the hold, suspension or break-glass is not set. Times are in UTC.
    """

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
        """Return the directives for the object that `manifest` declares in Git and that is `live` in the cluster.

        An annotation in `manifest` wins over the same annotation on `live`. If only Levelgate manages an annotation on
        `live`, the annotation comes from an earlier commit. The function ignores an annotation from an earlier commit.
        """
        if _ANNOTATION_KEYS.isdisjoint(_annotations(manifest)) and _ANNOTATION_KEYS.isdisjoint(_annotations(live)):
            return NO_DIRECTIVES

        def value_of(key: str) -> str:
            return annotation(manifest or {}, key) or (
                annotation(live, key) if live and _is_set_by_others(live, key) else ""
            )

        def reason_of(key: str) -> str:
            is_blank = live is not None and not annotation(live, key).strip() and _is_set_by_others(live, key)
            return value_of(key).strip() or ("no reason given" if is_blank else "")

        is_suspended_for_kro = value_of(well_known.KRO_RECONCILE) == "suspended"
        hold_reason = reason_of(well_known.HOLD)
        return cls(
            hold_reason=hold_reason,
            hold_until=parse_timestamp(value_of(well_known.HOLD_UNTIL)),
            hold_by=_author(manifest, live, well_known.HOLD, well_known.REQUESTED_BY) if hold_reason else "",
            suspend_reason=reason_of(well_known.SUSPEND)
            or (f"{well_known.KRO_RECONCILE}: suspended" if is_suspended_for_kro else ""),
            suspend_until=parse_timestamp(value_of(well_known.SUSPEND_UNTIL)),
            break_glass_reason=value_of(well_known.BREAK_GLASS_REASON),
            break_glass_until=parse_timestamp(value_of(well_known.BREAK_GLASS_UNTIL)),
            break_glass_by=_author(manifest, live, well_known.BREAK_GLASS_REASON, well_known.BREAK_GLASS_BY),
            priority=_parse_integer(value_of(well_known.PRIORITY)),
        )

    def with_wider_break_glass(self, wider: Directives | None) -> Directives:
        """Return the directives with the break-glass of `wider`, or unchanged if they already contain a break-glass."""
        if wider is None or self.break_glass_reason:
            return self
        return replace(
            self,
            break_glass_reason=wider.break_glass_reason,
            break_glass_until=wider.break_glass_until,
            break_glass_by=wider.break_glass_by,
        )

    @property
    def end_times(self) -> tuple[datetime, ...]:
        """Return the known end times in UTC of the hold, the suspension and the break-glass."""
        return tuple(filter(None, (self.hold_until, self.suspend_until, self.break_glass_until)))

    def active_hold(self, policy: Policy, now: datetime, *, since: datetime, subject: str = "") -> Cause | None:
        """Return the cause of the hold, or None if no hold is set or the hold has ended at `now`.

        A hold lasts for at most `maxHold` of `policy`.

        Args:
            since: time in UTC of the first observation of the hold.
            subject: opening of the message if more than one object is held, such as `source platform is`.
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
        """Return the cause of the suspension, or None if no suspension is set or the suspension has ended at `now`.

        Args:
            subject: opening of the message, such as `source platform is`.
        """
        if not self.suspend_reason or (self.suspend_until and now >= self.suspend_until):
            return None
        until = f" until {self.suspend_until:{_MINUTE_FORMAT}}" if self.suspend_until else ""
        message = f"{subject} suspended{until}: {self.suspend_reason}".lstrip()
        return Cause(Reason.SUSPENDED, message, until=self.suspend_until)

    def windows_overridden_until(self, since: datetime) -> datetime | None:
        """Return the end of the break-glass in UTC, or None if the break-glass is not effective at `since`.

        Args:
            since: time in UTC of the first observation of the break-glass.
        """
        return None if self.break_glass_refusal(since, since) else self.break_glass_until

    def break_glass_refusal(self, since: datetime, now: datetime) -> str:
        """Return the reason why the break-glass is ineffective at `now`.

        If the break-glass is effective or not set, return an empty string.

        Args:
            since: time in UTC of the first observation of the break-glass.
        """
        if not self.break_glass_reason:
            return ""
        if self.break_glass_until is None:
            # The example follows from `since`, so that the message stays the same in each reconciliation.
            example = timestamp(since + timedelta(hours=1))
            return f"{well_known.BREAK_GLASS_UNTIL} is not a time; write for example {example}"
        if self.break_glass_until > since + MAX_BREAK_GLASS_DURATION:
            limit = format_duration(MAX_BREAK_GLASS_DURATION)
            end, start = f"{self.break_glass_until:{_MINUTE_FORMAT}}", f"{since:{_MINUTE_FORMAT}}"
            return f"until {end} is more than {limit} ahead of {start}; choose an earlier end"
        return f"ended at {self.break_glass_until:{_MINUTE_FORMAT}}" if now >= self.break_glass_until else ""


NO_DIRECTIVES: Final = Directives()


def find_ineffective_break_glass(
    declared_objects: Iterable[DeclaredObject], now: datetime
) -> Iterator[tuple[Problem, bool]]:
    """Yield a problem for each ineffective break-glass in Git, and whether the end of the break-glass is in the past.

    An end in the past is harmless. If an end is too far ahead, the author expects a bypass and gets none.
    """
    path = f"metadata.annotations[{well_known.BREAK_GLASS_UNTIL}]"
    for declared in declared_objects:
        ends = parse_timestamp(annotation(declared.manifest, well_known.BREAK_GLASS_UNTIL))
        if ends is None or now < ends <= now + MAX_BREAK_GLASS_DURATION:
            continue
        latest = f"write at most {timestamp(now + MAX_BREAK_GLASS_DURATION)}"
        message = (
            "is in the past; remove the annotation"
            if ends <= now
            else f"is more than {format_duration(MAX_BREAK_GLASS_DURATION)} ahead and bypasses no window; {latest}"
        )
        yield Problem(declared.origin.file, declared.line_of(path), path, message), ends <= now


def first_seen_at(instance: Object | None, name: str, value: str) -> datetime | None:
    """Return the time of the first observation of a directive in UTC, from the status of `instance`.

    If the status has no observation of the directive `name` with this `value`, return None.
    """
    stored = LevelgateStatus.from_instance(instance).asked.get(name) or {}
    return parse_timestamp(stored.get("since")) if stored.get("said") == value else None


def requester_of(record: Object, key: str, name_key: str = well_known.REQUESTED_BY) -> str:
    """Return the author of the annotation `key`.

    The author is the value of the annotation `name_key`. If the annotation `name_key` is missing or empty, the author
    is the field manager that last wrote `key`.
    """
    return annotation(record, name_key) or next(reversed(annotation_managers(record, key)), _UNKNOWN_PERSON)


def _is_set_by_others(live: Object, key: str) -> bool:
    """Return whether a field manager other than Levelgate, or an unknown one, manages the annotation `key`."""
    is_set = key in (live["metadata"].get("annotations") or {})
    return is_set and (not (managers := annotation_managers(live, key)) or set(managers) != {CONTENT_MANAGER})


def _author(manifest: Manifest | None, live: Object | None, key: str, name_key: str) -> str:
    """Return the author of the annotation `key` on `live`, or an empty string if `manifest` in Git has the annotation.

    The author is the field manager of the annotation. If this manager also wrote the annotation `name_key`, the author
    is the value of `name_key`.
    """
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
