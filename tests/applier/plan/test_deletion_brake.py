"""The deletion brake: how many deletions of one commit wait for a person."""

from __future__ import annotations

import pytest

from applier.causes import Reason
from applier.plan.constraints import PlanConstraints
from applier.plan.deletion_brake import DeletionBrake
from tests.support.apply_sets import PAIR, bundle, decided, live
from tests.support.properties.repositories import plain


@pytest.mark.parametrize(
    ("removed", "limit", "approved", "is_braked"),
    [
        (3, DeletionBrake(2, 20), False, True),
        (2, DeletionBrake(2, 20), False, False),
        (3, DeletionBrake(2, 60), False, False),
        (3, DeletionBrake(2, 20), True, False),
    ],
    ids=["more than both limits", "at the number", "at the share", "approved"],
)
def test_the_brake_holds_what_exceeds_both_limits(
    removed: int, limit: DeletionBrake, approved: bool, is_braked: bool
) -> None:
    """Two of five members stay: three deletions are 60 percent."""
    names = [f"old-{index}" for index in range(removed)]
    before = bundle(*(plain(name) for name in names)).sources["platform"]
    orphans = [live(before, name) for name in names]
    records = PlanConstraints(brakes={"platform": limit}, approved_sources=frozenset({"platform"} if approved else ()))
    kept = PAIR.sources["platform"]
    found = decided(live(kept, "a"), live(kept, "b"), *orphans, records=records).prune_candidates
    assert len(found) == removed
    assert all(
        (candidate.blocked is not None and candidate.blocked.reason is Reason.BRAKE_ENGAGED) is is_braked
        for candidate in found
    )
    assert all(candidate.allowed is not is_braked for candidate in found)
