"""May a source go from the commit that was accepted to another one? A branch goes forward; anything else waits for a person.

History that was rewritten, a tag that was moved or taken back, a repository that was replaced: none of them says that what is no longer there is
to be deleted.
A commit in the configuration is its own approval, and so is a change of URL, ref or path there.
"""

from __future__ import annotations

from typing import NamedTuple

from applier.causes import Reason
from applier.cluster import Object
from applier.state.observed import annotation
from gitops.records.source_record import SourceRecord, is_approval
from gitops.source import CommitRef, Mirror, SourceTarget, TagRef, Verification, VersionRef
from renderer import well_known
from renderer.cel.functions.semver import semver


class HeldCommit(NamedTuple):
    """A commit that a source stands at and that is not taken, and why."""

    commit: str
    why: str
    reason: Reason = Reason.HISTORY_REWRITTEN


class AcceptedCommit(NamedTuple):
    """Where a source stands: a commit, empty where it stands nowhere yet, and the tag of its version, where it follows a range of them."""

    commit: str
    version: str = ""


def accepted(record: Object | None, target: SourceTarget) -> AcceptedCommit:
    """What of this target was worked on last, by the record of its source; nowhere where it was another target."""
    found = SourceRecord.from_object(record or {"metadata": {}})
    same = (found.url, found.ref, found.path) == (str(target), str(target.ref), target.path)
    return AcceptedCommit(found.target, found.version) if same else AcceptedCommit("")


def objection(
    mirror: Mirror, before: AcceptedCommit, after: AcceptedCommit, record: Object | None
) -> HeldCommit | None:
    """Why the source may not go from `before` to `after`; None where it may. Both are in the copy. Blocks."""
    old, new = before.commit, after.commit
    if not old or old == new or (record and is_approval(annotation(record, well_known.APPROVED_COMMIT), new)):
        return None
    match mirror.target.ref:
        case CommitRef():
            return None
        case VersionRef(versions):
            why = _not_higher(before, after, str(versions)) if before.version else ""
            return HeldCommit(new, why) if why else None
        case TagRef(name):
            return HeldCommit(new, _moved(name, old, new))
    if mirror.is_ancestor(old, new):
        return None
    return HeldCommit(new, f"history was rewritten: {new[:7]} does not descend from {old[:7]}")


def _not_higher(before: AcceptedCommit, after: AcceptedCommit, versions: str) -> str:
    """A range goes to higher versions by itself, and to nothing else: what was released is not changed, and not taken back."""
    if before.version == after.version:
        return _moved(after.version, before.commit, after.commit)
    if semver(after.version, True).sort_key > semver(before.version, True).sort_key:
        return ""
    return f"the highest version in {versions} was {before.version} and is {after.version} now, which is not higher"


def _moved(tag: str, old: str, new: str) -> str:
    return f"tag {tag} was moved from {old[:7]} to {new[:7]}"


def unsigned(
    mirror: Mirror, verification: Verification, before: str, commit: str, record: Object | None
) -> HeldCommit | None:
    """Why the signatures of what leads from `before` to `commit` do not do; None where they do, or where a person has approved the commit. Blocks."""
    if before == commit or (record and is_approval(annotation(record, well_known.APPROVED_COMMIT), commit)):
        return None
    why = mirror.find_unsigned(verification, before, commit)
    return HeldCommit(commit, why, Reason.UNSIGNED) if why else None
