"""Prune candidates and what protects them, as values; `test_prune_decision.py` has their order."""

from __future__ import annotations

from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome, PruneProtection, protected_keys
from tests.support.properties.waves import key, member


def candidate(name: str, outcome: PruneOutcome = PruneOutcome.DELETE, blocked: Cause | None = None) -> PruneCandidate:
    return PruneCandidate(Member.from_object(member(name)), outcome, allowed=True, blocked=blocked)


def test_a_protected_candidate_is_kept_and_still_counts_for_the_brake() -> None:
    protection = PruneProtection("web", key("a").group_kind, None, waits_for_deletion=False)
    found = protection.protect(candidate("a"))
    assert (found.outcome, found.allowed, found.awaits_unwritten_node) == (PruneOutcome.KEEP, False, True)
    assert found.is_eventually_deleted
    kept = candidate("a", PruneOutcome.KEEP)
    assert protection.protect(kept) is kept


def test_what_a_held_candidate_uses_is_held_by_the_same_cause() -> None:
    held = Cause(Reason.WINDOW_CLOSED, "closed")
    waits = Cause(Reason.DEPENDENCY_NOT_READY, "used", object_key=key("a"))
    waits_too = Cause(Reason.DEPENDENCY_NOT_READY, "used", object_key=key("b"))
    found = protected_keys(
        [candidate("c", blocked=waits_too), candidate("b", blocked=waits), candidate("a", blocked=held)]
    )
    assert found == {key("a"): held, key("b"): held, key("c"): held}
