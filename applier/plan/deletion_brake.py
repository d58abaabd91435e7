"""The brake: many deletions at once wait for a person."""

from __future__ import annotations

from applier.applyset import member
from applier.plan.model import DeletionBrake, Plan
from applier.state.observed import Observed


def brake(decided: Plan, observed: Observed, source: str, most: DeletionBrake, commit: str) -> str:
    """Why a source's deletions wait for a person: more of its members would go than `most` allows; empty where they need not. `commit` is the one to
    be approved, empty where its id is not known yet.

    Counted are members of the source's set and of instances that go with it, against all live members, also those that stay until something is
    written, a window opens or a person lets them go: else they would go later, a few at a time. One instance alone is exempt.
    """
    sets = {one.rendered.parent: one for one in decided.sets}
    own = next(one for one in decided.sets if one.rendered.is_source and one.rendered.source == source)
    first = [orphan.member.key for orphan in own.orphans if orphan.is_to_go]
    if len(first) == 1 and first[0] in sets:
        return ""
    leaving, pending = set(first), list(first)
    while pending:
        if one := sets.get(pending.pop()):
            below = {orphan.member.key for orphan in one.orphans if orphan.is_to_go} - leaving
            leaving |= below
            pending += below
    mine = [one.rendered.id for one in decided.sets if one.rendered.source == source or one.rendered.parent in leaving]
    live = sum(len(observed.members.get(set_id, ())) for set_id in mine)
    if len(leaving) <= most.deletions or len(leaving) * 100 <= live * most.percent:
        return ""
    approval = f"levelgate approve source/{source} --commit {member.short(commit) or 'COMMIT'}"
    return f"{len(leaving)} of {live} objects would be deleted; bring them back in Git, or agree to it: {approval}"
