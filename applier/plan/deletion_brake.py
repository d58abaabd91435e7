"""Deletion brake: a person has to approve a commit with many deletions. The module is pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from applier.applyset import member
from applier.plan.model import ApplySetPlan
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent


@dataclass(frozen=True, slots=True)
class DeletionBrake:
    """Limit of the deletions that one commit of a source may cause without approval.

    A commit may delete `deletions` objects, or `percent` percent of the source's live members, whichever is more.
    """

    deletions: int = 5
    percent: int = 20

    def permits(self, deleted_count: int, live_count: int) -> bool:
        """Return whether the deletion of `deleted_count` objects of `live_count` live members needs no approval."""
        return deleted_count <= self.deletions or deleted_count * 100 <= live_count * self.percent


DEFAULT_BRAKE = DeletionBrake()
"""Brake of a source whose configuration contains no brake."""


def eventual_deletions(
    sets: Mapping[ObjectKey, ApplySetPlan], source: str, lost_instances: Iterable[ObjectKey]
) -> frozenset[ObjectKey]:
    """Return the objects that the present commit of `source` deletes, now or later.

    Deletions of members of the source's set count. If an instance of `source` is missing, or its set deletes the
    instance, the deletions of the instance's members count too. Protected members also count, because otherwise later
    plans would delete the protected members a few at a time. The deletion of a single instance is exempt, so the
    result is then empty.

    Args:
        sets: plan of each set, by parent.
        lost_instances: missing instances of `source` that still have members.
    """
    direct_deletions = [*_deleted_members(sets[source_parent(source)]), *lost_instances]
    if len(direct_deletions) == 1 and direct_deletions[0] in sets:
        return frozenset()
    deleted_keys, pending = set(direct_deletions), list(direct_deletions)
    while pending:
        if set_plan := sets.get(pending.pop()):
            nested_deletions = set(_deleted_members(set_plan)) - deleted_keys
            deleted_keys |= nested_deletions
            pending += nested_deletions
    return frozenset(deleted_keys)


def _deleted_members(set_plan: ApplySetPlan) -> Iterator[ObjectKey]:
    return (candidate.member.key for candidate in set_plan.prune_candidates if candidate.is_eventually_deleted)


def brake_message(deleted_count: int, live_count: int, source: str, commit: str) -> str:
    """Return the reason why a person has to approve the deletions of `source`.

    Args:
        deleted_count: number of objects that the commit deletes.
        live_count: number of live members of all sets of the source.
        commit: commit to approve, or an empty string if the commit has no id yet.
    """
    approval = f"levelgate approve source/{source} --commit {member.short_commit(commit) or 'COMMIT'}"
    return (
        f"{deleted_count} of {live_count} objects would be deleted; "
        f"restore them in Git, or approve the deletion: {approval}"
    )
