"""A source that is to stay at one commit: an annotation of its record, by a person, until it is taken away or until a time.

The word is its own approval of that commit, whatever history says; the brake on deletions counts. When the pin ends, the source goes on from the
commit at which it was before, or from the pinned one. Pure.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.state.observed import annotation
from gitops.records.cause_rows import timestamp
from gitops.rollouts.directives import parse_time, requester_of
from renderer import well_known
from renderer.frozen import dataclass

COMMIT_PATTERN: Final = re.compile(r"[0-9a-f]{7,64}")
"""What one can be pinned to: the id of a commit, or so much of it that no other can be meant."""


@dataclass(frozen=True, slots=True)
class Pin:
    """`revision` is the id of the commit, or its beginning."""

    commit: str
    until: datetime | None
    why: str
    by: str

    @property
    def cause(self) -> Cause:
        """What the source says of itself meanwhile."""
        return Cause(Reason.HELD, str(self), until=self.until)

    def __str__(self) -> str:
        until_text = f" until {timestamp(self.until)}" if self.until else ""
        return f"pinned to {self.commit[:12]}{until_text} by {self.by}: {self.why or 'no reason given'}"


def pin_of(record: Object | None, now: datetime) -> Pin | None:
    """The pin of a source that holds now. A time that cannot be read does not end it."""
    commit = annotation(record, well_known.PIN).strip().lower() if record else ""
    if not record or not commit:
        return None
    until = parse_time(annotation(record, well_known.PIN_UNTIL))
    if until and now >= until:
        return None
    by = requester_of(record, well_known.PIN, well_known.PIN_BY)
    return Pin(commit, until, annotation(record, well_known.PIN_REASON), by)
