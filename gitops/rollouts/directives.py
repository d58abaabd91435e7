"""What people ask by annotations, in Git or on the live object: hold, suspend, priority, and going past a window.

All of it can be asked of an instance, to suspend also of a definition, a source, and the whole installation. What cannot be read of a hold or of a
suspension still holds or suspends; what cannot be read of a break-glass opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from applier.causes import Reason
from applier.cluster import CONTENT, Object
from applier.state.managed_fields import annotators
from applier.state.observed import annotation
from gitops.rollouts.policy import Policy
from gitops.rollouts.queue_position import Wait
from renderer import well_known
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import Manifest
from renderer.levelgate_status import LevelgateStatus

if TYPE_CHECKING:
    from renderer.catalog.file_content import DeclaredObject

_WORDS: Final = frozenset(
    {
        well_known.HOLD,
        well_known.HOLD_UNTIL,
        well_known.SUSPEND,
        well_known.SUSPEND_UNTIL,
        well_known.KRO_RECONCILE,
        well_known.GLASS_REASON,
        well_known.GLASS_UNTIL,
        well_known.PRIORITY,
    }
)
"""Most instances carry none of them, and each is looked at in every decision."""

LONGEST_GLASS: Final = timedelta(hours=4)
"""A break-glass ends at most so long after the commit, or the annotation, that asks for it was first seen."""
_MINUTE: Final = "%Y-%m-%dT%H:%MZ"
_SOMEBODY: Final = "somebody"


@dataclass(frozen=True, slots=True)
class Directives:
    """What people say of one thing. `glass` is a break-glass: why windows are to be passed."""

    hold: str = ""
    hold_until: datetime | None = None
    suspend: str = ""
    suspend_until: datetime | None = None
    glass: str = ""
    glass_until: datetime | None = None
    glass_by: str = ""
    priority: int = 0

    @classmethod
    def of(cls, manifest: Manifest | None, live: Object | None) -> Directives:
        """Git's word first, else that on the live object. There, what only we have written was Git's word once, and counts no more."""
        if _WORDS.isdisjoint(_annotations(manifest)) and _WORDS.isdisjoint(_annotations(live)):
            return NOBODY

        def said(key: str) -> str:
            return annotation(manifest or {}, key) or (
                annotation(live, key) if live and _is_of_others(live, key) else ""
            )

        def why(key: str) -> str:
            is_blank = live is not None and not annotation(live, key).strip() and _is_of_others(live, key)
            return said(key).strip() or ("no reason given" if is_blank else "")

        suspend = why(well_known.SUSPEND) or (
            f"{well_known.KRO_RECONCILE}: suspended" if said(well_known.KRO_RECONCILE) == "suspended" else ""
        )
        return cls(
            hold=why(well_known.HOLD),
            hold_until=moment(said(well_known.HOLD_UNTIL)),
            suspend=suspend,
            suspend_until=moment(said(well_known.SUSPEND_UNTIL)),
            glass=said(well_known.GLASS_REASON),
            glass_until=moment(said(well_known.GLASS_UNTIL)),
            glass_by=_author(manifest, live, well_known.GLASS_REASON, well_known.GLASS_BY),
            priority=_whole(said(well_known.PRIORITY)),
        )

    def or_glass_of(self, wider: Directives | None) -> Directives:
        """With the break-glass of something wider, where it has none of its own."""
        return (
            self
            if wider is None or self.glass
            else replace(self, glass=wider.glass, glass_until=wider.glass_until, glass_by=wider.glass_by)
        )

    @property
    def ends(self) -> tuple[datetime, ...]:
        """When something of it may end."""
        return tuple(filter(None, (self.hold_until, self.suspend_until, self.glass_until)))

    def held(self, policy: Policy, now: datetime, *, since: datetime) -> Wait | None:
        """The hold, while it lasts: as long as was said, and no longer than the policy allows after it was first seen."""
        if not self.hold:
            return None
        ends = policy.hold_ends(since, self.hold_until)
        return Wait(Reason.HELD, f"held until {ends:{_MINUTE}}: {self.hold}", ends) if now < ends else None

    def suspended(self, now: datetime, what: str = "") -> Wait | None:
        """The suspension, while it lasts; `what` is suspended, where that is more than one instance: `source platform is`."""
        if not self.suspend or (self.suspend_until and now >= self.suspend_until):
            return None
        until = f" until {self.suspend_until:{_MINUTE}}" if self.suspend_until else ""
        return Wait(Reason.SUSPENDED, f"{what} suspended{until}: {self.suspend}".lstrip(), self.suspend_until)

    def past_windows_until(self, since: datetime) -> datetime | None:
        """Until when windows are passed; None where nobody asked, without a reason, or for longer than is allowed."""
        return None if self.glass_refusal(since, since) else self.glass_until

    def glass_refusal(self, since: datetime, now: datetime) -> str:
        """Why the break-glass opens nothing now; empty where it does, or nobody asked for one."""
        if not self.glass:
            return ""
        if self.glass_until is None:
            return f"{well_known.GLASS_UNTIL} says no time, write for example {now + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
        if self.glass_until > since + LONGEST_GLASS:
            hours = LONGEST_GLASS // timedelta(hours=1)
            return f"until {self.glass_until:{_MINUTE}} is more than {hours} hours ahead of {since:{_MINUTE}}"
        return f"over since {self.glass_until:{_MINUTE}}" if now >= self.glass_until else ""


NOBODY: Final = Directives()


def glass_beyond(written: Iterable[DeclaredObject], now: datetime) -> Iterator[tuple[Problem, bool]]:
    """A break-glass in Git that opens nothing now because of its end, and whether that is over; else it is further ahead than it may be."""
    path = f"metadata.annotations[{well_known.GLASS_UNTIL}]"
    for one in written:
        ends = moment(annotation(one.manifest, well_known.GLASS_UNTIL))
        if ends is None or now < ends <= now + LONGEST_GLASS:
            continue
        latest = f"write at most {now + LONGEST_GLASS:%Y-%m-%dT%H:%M:%SZ}"
        hours = LONGEST_GLASS // timedelta(hours=1)
        told = (
            "is over: take it out"
            if ends <= now
            else f"is more than {hours} hours ahead and passes no window; {latest}"
        )
        yield Problem(one.origin.file, one.line_of(path), path, told), ends <= now


def moment(text: Any) -> datetime | None:
    """A time in RFC 3339; None for any other text."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else None


def first_seen(instance: Object | None, name: str, word: str) -> datetime | None:
    """When this word of somebody was first seen, as the status of the instance remembers it."""
    found = LevelgateStatus.of(instance).asked.get(name) or {}
    return moment(found.get("since")) if found.get("said") == word else None


def asked_by(record: Object, key: str, named: str = well_known.REQUESTED_BY) -> str:
    """Who has annotated a record with `key`: the name that is given with it, else the field manager that wrote it last."""
    return annotation(record, named) or next(reversed(annotators(record, key)), _SOMEBODY)


def _is_of_others(live: Object, key: str) -> bool:
    """Does the object carry this annotation by anybody's word but ours?"""
    there = key in (live["metadata"].get("annotations") or {})
    return there and (not (managers := annotators(live, key)) or set(managers) != {CONTENT})


def _author(manifest: Manifest | None, live: Object | None, key: str, named: str) -> str:
    """Who gives the word that counts; empty where Git says it. On the live object that is the field manager that annotated it, or whom it names."""
    if annotation(manifest or {}, key) or live is None:
        return ""
    manager = next((name for name in reversed(annotators(live, key)) if name != CONTENT), _SOMEBODY)
    return (annotation(live, named) if manager in annotators(live, named) else "") or manager


def _annotations(obj: Mapping[str, Any] | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}


def _whole(text: str) -> int:
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else 0
