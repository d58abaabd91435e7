"""Rollouts of a graph as explanations read them."""

from __future__ import annotations

from applier.causes import Cause, Reason
from gitops.decisions.decided_rollouts import decided_rollouts
from gitops.decisions.rollout_members import all_instances
from gitops.decisions.rollout_records import unrecorded_cause
from tests.support.rollout_fleet import NAME, RolloutFleet


def test_an_explanation_changes_no_decision() -> None:
    """Explanations ask gates about items whose turn it is not, so they work on a collection of their own."""
    fleet = RolloutFleet(2)
    state = fleet.step().state
    (decided,) = decided_rollouts(fleet.graph, {NAME: state}, all_instances(fleet.graph))
    assert (decided.name, list(decided.keys)) == (NAME, ["default/x0", "default/x1"])
    before = decided.collection["default/x0"]
    decided.collection.remove("default/x0")
    (again,) = decided_rollouts(fleet.graph, {NAME: state}, all_instances(fleet.graph))
    assert again.collection["default/x0"] == before


def test_a_rollout_without_a_readable_record_is_not_explained() -> None:
    """What such a rollout has decided is not known."""
    fleet = RolloutFleet(1)
    state = fleet.step().state
    fleet.set((unrecorded_cause.at(NAME), Cause(Reason.APPLY_FAILED, "cannot be read")))
    assert list(decided_rollouts(fleet.graph, {NAME: state}, all_instances(fleet.graph))) == []
