"""Directives of people: hold, suspend, priority and break-glass, read from annotations in Git or on the live object.

Instances, plain objects and sources can be held, suspended and given a break-glass. Definitions can be suspended and
given a break-glass. The whole installation can be suspended.

An unreadable part fails safe: a hold or suspension with an unreadable end still applies, and a break-glass does not.
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
"""Annotations that this module reads. Most instances carry none, so one set operation spares them the parsing."""

MAX_BREAK_GLASS_DURATION: Final = timedelta(hours=4)
"""Longest time from the first observation of a break-glass to its end. A later end makes it ineffective."""
_MINUTE_FORMAT: Final = "%Y-%m-%dT%H:%MZ"
_UNKNOWN_PERSON: Final = "an unknown person"


@dataclass(frozen=True, slots=True)
class Directives:
    """Directives for one object, source or installation. A directive is set where its reason is not empty."""

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
        """Return the directives for an object. An annotation in Git wins over the one on the live object.

        An annotation that only Levelgate manages on the live object came from Git earlier, so it no longer counts.
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
        """Return these directives with the break-glass of a wider scope if they have none themselves."""
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
        """Return the times at which a directive is to end."""
        return tuple(filter(None, (self.hold_until, self.suspend_until, self.break_glass_until)))

    def active_hold(self, policy: Policy, now: datetime, *, since: datetime, subject: str = "") -> Cause | None:
        """Return the cause of a hold that has not ended; it lasts for `maxHold` of the policy at most.

        Args:
            since: first observation of the hold.
            subject: opening of the message where more than one object is held, such as `source platform is`.
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
        """Return the cause of a suspension that has not ended; `subject` as for `active_hold`."""
        if not self.suspend_reason or (self.suspend_until and now >= self.suspend_until):
            return None
        until = f" until {self.suspend_until:{_MINUTE_FORMAT}}" if self.suspend_until else ""
        message = f"{subject} suspended{until}: {self.suspend_reason}".lstrip()
        return Cause(Reason.SUSPENDED, message, until=self.suspend_until)

    def windows_overridden_until(self, since: datetime) -> datetime | None:
        """Return the end of the break-glass; None if it was not effective when first observed, at `since`."""
        return None if self.break_glass_refusal(since, since) else self.break_glass_until

    def break_glass_refusal(self, since: datetime, now: datetime) -> str:
        """Return the reason why the break-glass is ineffective now; empty if it is effective or there is none."""
        if not self.break_glass_reason:
            return ""
        if self.break_glass_until is None:
            return (
                f"{well_known.BREAK_GLASS_UNTIL} holds no time; write for example {timestamp(now + timedelta(hours=1))}"
            )
        if self.break_glass_until > since + MAX_BREAK_GLASS_DURATION:
            limit = format_duration(MAX_BREAK_GLASS_DURATION)
            end, start = f"{self.break_glass_until:{_MINUTE_FORMAT}}", f"{since:{_MINUTE_FORMAT}}"
            return f"until {end} is more than {limit} ahead of {start}"
        return f"over since {self.break_glass_until:{_MINUTE_FORMAT}}" if now >= self.break_glass_until else ""


NO_DIRECTIVES: Final = Directives()


def find_ineffective_break_glass(
    declared_objects: Iterable[DeclaredObject], now: datetime
) -> Iterator[tuple[Problem, bool]]:
    """Yield a problem for each break-glass in Git that its end makes ineffective, and whether that end is in the past.

    An end in the past is harmless. An end that is too far ahead means that the author expects a bypass and gets none.
    """
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
    """Return when this value of a directive was first observed, from the status of the instance; None if unknown."""
    stored = LevelgateStatus.from_instance(instance).asked.get(name) or {}
    return parse_timestamp(stored.get("since")) if stored.get("said") == value else None


def requester_of(record: Object, key: str, name_key: str = well_known.REQUESTED_BY) -> str:
    """Return the author of an annotation: the name under `name_key`, else the field manager that wrote `key` last."""
    return annotation(record, name_key) or next(reversed(annotation_managers(record, key)), _UNKNOWN_PERSON)


def _is_set_by_others(live: Object, key: str) -> bool:
    """Return whether the object has this annotation from another field manager, or from an unknown one."""
    is_set = key in (live["metadata"].get("annotations") or {})
    return is_set and (not (managers := annotation_managers(live, key)) or set(managers) != {CONTENT_MANAGER})


def _author(manifest: Manifest | None, live: Object | None, key: str, name_key: str) -> str:
    """Return the author of the annotation that counts; empty if it is in Git.

    On the live object that is the field manager of the annotation, or the name that this manager wrote under
    `name_key`.
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
