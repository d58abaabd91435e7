"""Places of instances in a graph: before and after a grant, without a rollout, and made anew by a person."""

from __future__ import annotations

from applier.causes import Cause, Reason
from gitops.decisions import resources
from gitops.decisions.placements import carried_revision, decided_placement, is_frozen, restated_revision
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.rollout_records import unrecorded_cause
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.revisions import AppliedSnapshot
from tests.support.graph_fleet import instance_key
from tests.support.rollout_fleet import NAME, RolloutFleet, carry, rolling

X0, X1 = map(instance_key, ("x0", "x1"))


def test_an_instance_stays_at_what_was_applied_until_a_grant_is_stored() -> None:
    fleet = rolling()
    assert fleet.step().grants == {X0: 2}
    assert decided_placement(fleet.graph, X0) == RevisionPlacement(1, 2)
    fleet.carry_out()
    assert decided_placement(fleet.graph, X0) == RevisionPlacement(2, 2)
    assert decided_placement(fleet.graph, X1) == RevisionPlacement(1, 2)


def test_an_instance_goes_where_it_carries_to_go() -> None:
    fleet = rolling()
    carry(fleet, 2)
    assert carried_revision(fleet.graph, X0) == 2
    assert decided_placement(fleet.graph, X0) == RevisionPlacement(2, 2)
    fleet.set((granted_revision.at(X0), 3))
    assert decided_placement(fleet.graph, X0) == RevisionPlacement(3, 2)


def test_without_a_rollout_an_instance_stays_where_it_is() -> None:
    fleet = rolling()
    fleet.set((unrecorded_cause.at(NAME), Cause(Reason.APPLY_FAILED, "forbidden")))
    assert decided_placement(fleet.graph, X0) == RevisionPlacement(1, 0)
    assert is_frozen(fleet.graph, X0)
    assert restated_revision(fleet.graph, X0) == 0


def test_an_instance_that_waits_for_its_turn_is_healed_where_it_is() -> None:
    fleet = rolling()
    assert not is_frozen(fleet.graph, X0)
    fleet.carry_out()
    assert not is_frozen(fleet.graph, X0)
    carry(fleet, 2)
    fleet.set((granted_revision.at(X0), 0))
    fleet.roll_out("three")
    fleet.tick()
    assert is_frozen(fleet.graph, X0), "it is between revision 1 and 2, and 3 is not its turn"
    fleet.set((granted_revision.at(X0), 2))
    assert not is_frozen(fleet.graph, X0), "its grant for 2 was stored"


def test_a_new_instance_without_a_turn_is_frozen_until_it_starts() -> None:
    fleet = rolling()
    fleet.set((resources.applied_snapshot.at(X1), None))
    fleet.tick()
    assert is_frozen(fleet.graph, X1)
    fleet.set((granted_revision.at(X1), 1))
    assert not is_frozen(fleet.graph, X1)
    carry(fleet, 1)
    fleet.set((granted_revision.at(X0), 0), (resources.applied_snapshot.at(X0), None))
    assert not is_frozen(fleet.graph, X0), "it has started at the completed revision"


def test_an_instance_that_a_person_makes_anew_carries_its_target_again() -> None:
    fleet = RolloutFleet(1)
    assert restated_revision(fleet.graph, X0) == 1
    fleet.set((granted_revision.at(X0), 1))
    assert restated_revision(fleet.graph, X0) == 0
    fleet = rolling()
    assert restated_revision(fleet.graph, X0) == 0, "it is not at its target"


def test_a_deleted_instance_keeps_the_target_that_it_carries() -> None:
    fleet = rolling()
    carry(fleet, 1)
    assert restated_revision(fleet.graph, X0) == 0
    carry(fleet, 1, deletionTimestamp="2026-01-01T00:00:00Z")
    assert restated_revision(fleet.graph, X0) == 1


def test_an_instance_that_is_not_rendered_at_its_target_yet_restates_nothing() -> None:
    fleet = rolling()
    fleet.set((resources.applied_snapshot.at(X0), AppliedSnapshot(2, "d2", "r", "platform")))
    assert restated_revision(fleet.graph, X0) == 0
