"""Deletion brake: a person has to approve a commit with many deletions. The module is pure."""

from __future__ import annotations

from applier.applyset import member
from applier.plan.model import Plan
from applier.state.observed_view import ObservedView
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DeletionBrake:
    """Limit of the deletions that one commit of a source may cause without approval.

    A commit may delete `deletions` objects, or `percent` percent of the source's live members, whichever is more.
    """

    deletions: int = 5
    percent: int = 20


DEFAULT_BRAKE = DeletionBrake()
"""Brake of a source whose configuration contains no brake."""


def brake_message(plan: Plan, observed: ObservedView, source: str, limit: DeletionBrake, commit: str) -> str:
    """Return the reason why a person has to approve the deletions of `source`.

    If the deletions stay within `limit`, return an empty string.

    Deletions of members of the source's set count. If an instance of `source` is missing, or its set deletes the
    instance, the deletions of the instance's members count too. Protected members also count, because otherwise later
    plans would delete the protected members a few at a time. The deletion of a single instance is exempt.

    Args:
        commit: commit to approve, or an empty string if the commit has no id yet.
    """
    sets = {set_plan.rendered.parent: set_plan for set_plan in plan.sets}
    source_plan = next(
        set_plan for set_plan in plan.sets if set_plan.rendered.is_source and set_plan.rendered.source == source
    )
    direct_deletions = [
        candidate.member.key for candidate in source_plan.prune_candidates if candidate.is_eventually_deleted
    ]
    direct_deletions += [parent for parent, set_plan in sets.items() if set_plan.is_lost and set_plan.source == source]
    if len(direct_deletions) == 1 and direct_deletions[0] in sets:
        return ""
    deleted_keys, pending = set(direct_deletions), list(direct_deletions)
    while pending:
        if set_plan := sets.get(pending.pop()):
            nested_deletions = {
                candidate.member.key for candidate in set_plan.prune_candidates if candidate.is_eventually_deleted
            } - deleted_keys
            deleted_keys |= nested_deletions
            pending += nested_deletions
    source_set_ids = [
        set_plan.rendered.id
        for set_plan in plan.sets
        if set_plan.rendered.source == source or set_plan.rendered.parent in deleted_keys
    ]
    live_count = sum(len(observed.members.get(set_id, ())) for set_id in source_set_ids)
    if len(deleted_keys) <= limit.deletions or len(deleted_keys) * 100 <= live_count * limit.percent:
        return ""
    approval = f"levelgate approve source/{source} --commit {member.short_commit(commit) or 'COMMIT'}"
    return (
        f"{len(deleted_keys)} of {live_count} objects would be deleted; "
        f"restore them in Git, or approve the deletion: {approval}"
    )
