"""Actions of sets in a graph: what waits for the turn of an instance, and what does not."""

from __future__ import annotations

from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan
from gitops.decisions import actions, plan_inputs, rollout_records
from gitops.decisions.actions import set_plan
from gitops.decisions.permissions import IN_TURN
from gitops.decisions.set_plans import prospective_plan
from renderer.identity import ObjectKey
from tests.support.graph_fleet import PLATFORM, instance_key
from tests.support.rollout_fleet import NAME, RolloutFleet, carry, rolling

X0, X1 = map(instance_key, ("x0", "x1"))


def planned(fleet: RolloutFleet, parent: ObjectKey = X0) -> ApplySetPlan:
    plan = set_plan(fleet.graph, parent)
    assert plan
    return plan


def cause(plan: ApplySetPlan | None) -> Reason | None:
    """Return why the object waits that the revisions make different."""
    assert plan
    blocked = plan.nodes[0].blocked
    return blocked.reason if blocked else None


def between_revisions() -> RolloutFleet:
    """Return a fleet in which `x0` has begun to move to revision 2, and revision 3 is not its turn."""
    fleet = rolling()
    fleet.carry_out()
    carry(fleet, 2)
    fleet.set((plan_inputs.granted_revision.at(X0), 0))
    fleet.roll_out("three")
    fleet.tick()
    return fleet


def test_an_instance_between_revisions_changes_no_content_and_is_judged_as_if_it_did() -> None:
    fleet = between_revisions()
    assert cause(planned(fleet)) is Reason.PACE_REACHED
    assert cause(prospective_plan(fleet.graph, X0)) is None
    fleet.set((plan_inputs.granted_revision.at(X0), 2))
    assert cause(planned(fleet)) is None
    assert planned(fleet).target_revision == 2


def test_an_instance_whose_rollout_stores_nothing_says_why() -> None:
    fleet = between_revisions()
    forbidden = Cause(Reason.APPLY_FAILED, "forbidden")
    fleet.set((rollout_records.unrecorded_cause.at(NAME), forbidden))
    assert actions.turn_of(fleet.graph, X0).cause == forbidden
    assert cause(planned(fleet)) is Reason.APPLY_FAILED


def test_an_instance_that_a_person_makes_anew_plans_its_target() -> None:
    fleet = RolloutFleet(1)
    assert planned(fleet).target_revision == 1
    assert actions.turn_of(fleet.graph, X0) == IN_TURN._replace(restated_revision=1)


def test_a_source_has_its_turn() -> None:
    fleet = between_revisions()
    assert actions.turn_of(fleet.graph, PLATFORM) == IN_TURN
    assert actions.turn_of(fleet.graph, X1).cause is None


def test_a_grant_plans_the_set_of_its_instance_alone_among_any_number() -> None:
    costs = []
    for count in (10, 100):
        fleet = rolling(count)
        fleet.tick()
        cost = fleet.set((plan_inputs.granted_revision.at(X1), 2))
        costs.append((cost["_set_plan"], cost["turn_of"], cost["node_state"]))
    assert costs[0] == costs[1]
