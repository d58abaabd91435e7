"""Requests of people to a source: stay at a commit (pin), or reconcile now.

A pin also approves its commit, even if the history was rewritten. The brake on deletions still applies. When the pin
ends, the source continues from the commit before the pin, or from the pinned commit.

A request to reconcile opens no gate. When the Git server has answered and a reconciliation has ended, the request is
answered. Then the record of the source, or the status of the instance, repeats the value of the request. The functions
of the module are pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.plan.model import ApplySetPlan
from applier.state.observed import annotation
from gitops.records.source_record import SourceRecord
from gitops.rollouts.directives import requester_of
from gitops.timestamps import parse_timestamp, timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import SOURCE_PREFIX, ObjectKey
from renderer.levelgate_status import LevelgateStatus

COMMIT_PATTERN: Final = re.compile(r"[0-9a-f]{7,64}")
"""Id of a commit, or at least its first seven characters."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Commit at which a person keeps a source, with the author, the reason and the end of the pin."""

    commit: str
    """Id of the commit, or at least its first seven characters."""
    until: datetime | None
    """End of the pin, or None for a pin that a person has to end."""
    why: str
    by: str

    @property
    def cause(self) -> Cause:
        """Return the cause that a pinned source reports."""
        return Cause(Reason.HELD, str(self), until=self.until)

    def __str__(self) -> str:
        until_text = f" until {timestamp(self.until)}" if self.until else ""
        return f"pinned to {self.commit[:12]}{until_text} by {self.by}: {self.why or 'no reason given'}"


def pin_of(record: Object | None, now: datetime) -> Pin | None:
    """Return the pin in the record of a source, or None if no pin applies at `now`.

    If the end of a pin is unreadable, the pin lasts until a person removes it.
    """
    commit = annotation(record, well_known.PIN).strip().lower() if record else ""
    if not record or not commit:
        return None
    until = parse_timestamp(annotation(record, well_known.PIN_UNTIL))
    if until and now >= until:
        return None
    by = requester_of(record, well_known.PIN, well_known.PIN_BY)
    return Pin(commit, until, annotation(record, well_known.PIN_REASON), by)


SyncRequests = dict[str, dict[ObjectKey, str]]
"""Value of each request to reconcile, by source and then by object."""


def find_sync_requests(sets: Iterable[ApplySetPlan]) -> SyncRequests:
    """Return the requests to reconcile that are on the parents of `sets` and not answered yet."""
    pending: SyncRequests = {}
    for set_plan in sets:
        value = annotation(set_plan.parent, well_known.SYNC_REQUESTED_AT) if set_plan.parent else ""
        if set_plan.parent and value and value != last_answered_request(set_plan.parent):
            pending.setdefault(set_plan.rendered.source, {})[set_plan.rendered.parent] = value
    return pending


def last_answered_request(obj: Object) -> str:
    """Return the value of the last answered request to reconcile `obj`, or an empty string if none was answered.

    Args:
        obj: record of a source, or an instance.
    """
    is_record = obj["kind"] == "ConfigMap" and obj["metadata"]["name"].startswith(SOURCE_PREFIX)
    return SourceRecord.from_object(obj).synced if is_record else LevelgateStatus.from_instance(obj).synced
