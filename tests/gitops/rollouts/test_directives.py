"""Directives from annotations in Git and on live objects, and the time for which each of them counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applier.cluster import CONTENT_MANAGER
from gitops.rollouts.directives import NO_DIRECTIVES, Directives
from gitops.rollouts.policy import Policy

NOW = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOLD, HOLD_UNTIL = "levelgate.dev/hold", "levelgate.dev/hold-until"


def annotated(annotations: dict[str, str], manager: str = "kubectl-annotate") -> dict[str, Any]:
    """A live object whose annotations one field manager owns."""
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}
    entry = {"manager": manager, "operation": "Update", "fieldsV1": fields}
    return {"metadata": {"name": "shop", "annotations": annotations, "managedFields": [entry]}}


def test_an_annotation_in_git_wins_over_the_live_one() -> None:
    git = {"metadata": {"annotations": {HOLD: "from Git"}}}
    directives = Directives.from_objects(git, annotated({HOLD: "by hand"}))
    assert (directives.hold_reason, directives.hold_by) == ("from Git", "")


def test_a_live_annotation_counts_unless_it_came_from_git() -> None:
    by_hand = Directives.from_objects({"metadata": {}}, annotated({HOLD: "by hand"}))
    assert (by_hand.hold_reason, by_hand.hold_by) == ("by hand", "kubectl-annotate")
    assert not Directives.from_objects({"metadata": {}}, annotated({HOLD: "was in Git"}, CONTENT_MANAGER)).hold_reason
    assert Directives.from_objects({"metadata": {}}, {"metadata": {"name": "shop"}}) is NO_DIRECTIVES


def test_a_hold_ends_as_requested_and_at_max_hold_at_the_latest() -> None:
    policy = Policy(max_hold=2 * HOUR)
    forever, short = Directives(hold_reason="INC-7"), Directives(hold_reason="INC-7", hold_until=NOW + HOUR)
    assert forever.active_hold(policy, NOW + HOUR, since=NOW)
    assert forever.active_hold(policy, NOW + 2 * HOUR, since=NOW) is None
    assert short.active_hold(policy, NOW + HOUR, since=NOW) is None


def test_an_unreadable_end_keeps_a_suspension_and_refuses_a_break_glass() -> None:
    """Broken input fails safe: fewer writes, and no bypass."""
    suspended = Directives.from_objects(
        None, annotated({"levelgate.dev/suspend": "INC-7", "levelgate.dev/suspend-until": "soon"})
    )
    assert suspended.active_suspension(NOW)
    bypass = Directives.from_objects(
        None, annotated({"levelgate.dev/break-glass-reason": "INC-7", "levelgate.dev/break-glass-until": "soon"})
    )
    assert bypass.windows_overridden_until(NOW) is None
    assert "is not a time" in bypass.break_glass_refusal(NOW, NOW)


@pytest.mark.parametrize(("hours", "refusal"), [(1, ""), (4, ""), (5, "more than 4h ahead"), (-1, "ended at")])
def test_a_break_glass_lasts_at_most_four_hours(hours: int, refusal: str) -> None:
    bypass = Directives(break_glass_reason="INC-7", break_glass_until=NOW + hours * HOUR)
    found = bypass.break_glass_refusal(NOW, NOW)
    assert refusal in found
    assert bool(found) == bool(refusal)
