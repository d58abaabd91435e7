"""May a source go from the commit that was accepted to another one? A branch goes forward; anything else waits for a person.

History that was rewritten, a tag that was moved, a repository that was replaced: none of them says that what they no longer hold is to be deleted.
A commit in the configuration is its own approval, and so is a change of URL, ref or path there.
"""

from __future__ import annotations

from typing import NamedTuple

from applier.cluster import Object
from applier.observed import annotation
from applier.reasons import Reason
from gitops.records.record import SourceRecord, is_approval
from gitops.source import Commit, Mirror, Tag, Target, Verification, Versions
from renderer import keys


class Offer(NamedTuple):
    """A commit that a source stands at and that is not taken, and why."""

    commit: str
    why: str
    reason: Reason = Reason.HISTORY_REWRITTEN


def accepted(record: Object | None, target: Target) -> str:
    """The commit of this target that was worked on last, by the record of its source; empty where it was another target, or none."""
    if record is None:
        return ""
    found = SourceRecord.read(record)
    same = (found.url, found.ref, found.path) == (str(target), str(target.ref), target.path)
    return found.target if same else ""


def objection(mirror: Mirror, before: str, commit: str, record: Object | None) -> Offer | None:
    """Why the source may not go from `before` to `commit`; None where it may. Both are in the copy. Blocks."""
    if not before or before == commit or (record and is_approval(annotation(record, keys.APPROVED), commit)):
        return None
    match mirror.target.ref:
        case Commit() | Versions():
            return None
        case Tag(name):
            return Offer(commit, f"tag {name} was moved from {before[:7]} to {commit[:7]}")
    if mirror.is_ancestor(before, commit):
        return None
    return Offer(commit, f"history was rewritten: {commit[:7]} does not follow from {before[:7]}")


def unsigned(
    mirror: Mirror, verification: Verification, before: str, commit: str, record: Object | None
) -> Offer | None:
    """Why the signatures of what leads from `before` to `commit` do not do; None where they do, or where a person has approved the commit. Blocks."""
    if before == commit or (record and is_approval(annotation(record, keys.APPROVED), commit)):
        return None
    why = mirror.unsigned(verification, before, commit)
    return Offer(commit, why, Reason.UNSIGNED) if why else None
