"""What a cluster has of us while it is removed: whether all that is to go has gone."""

from __future__ import annotations

from applier.plan.prune import PruneOutcome
from gitops.reconcile.context import ReconcileResult
from renderer.identity import ObjectKey


def is_drained(result: ReconcileResult) -> bool:
    """Return whether a pass over everything, which wanted nothing, has found nothing that is still to go.

    What a person keeps from being pruned stays, with all that it owns, and is not waited for. A kind that cannot be listed may hold more.
    """
    if result.touched is not None or result.holds_pruning or result.observed.unreadable or result.propagation.stopped:
        return False
    sets = {plan.rendered.parent: plan for plan in result.plan.sets}
    kept = {
        candidate.member.key
        for plan in sets.values()
        for candidate in plan.prune_candidates
        if candidate.outcome is PruneOutcome.KEEP and not candidate.is_protected
    }
    owners, pending = set[ObjectKey](), list(kept)
    while pending:
        if (owner := pending.pop()) in sets and owner not in owners:
            owners.add(owner)
            owned = result.observed.members.get(sets[owner].rendered.id, ())
            kept.update(owned)
            pending += owned
    return all(key in kept for plan in sets.values() for key in result.observed.members.get(plan.rendered.id, ()))
