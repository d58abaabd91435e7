"""Targets of rollouts in a graph: what they follow from, and what they pass on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from gitops.decisions.definitions import stored_revisions
from gitops.decisions.rollout_records import rollout_state
from gitops.decisions.rollout_targets import aimed_state, completed_revision, shuffle_salt, wave_goal
from gitops.queries import QueryGraph, Roots, query
from gitops.rollouts.policy import DEFAULT_POLICY, ItemOrder
from gitops.rollouts.state import UNDATED, DecisionRecord
from tests.support.graph_fleet import LINK
from tests.support.graph_inputs import changed
from tests.support.rollout_fleet import NAME, RolloutFleet


@query
def waves(_: QueryGraph) -> frozenset[str]:
    return frozenset({"all"})


@query
def goal(graph: QueryGraph, wave: str) -> object:
    found = wave_goal(graph, NAME, wave)
    return found and (found.target.revision, found.target.commit, found.target.reverts, found.bake)


GOALS = Roots("goals", order=99, members=waves, result=goal)
BAKING = replace(DEFAULT_POLICY, name="p", bake=timedelta(minutes=5))


def test_a_new_revision_is_the_target_before_the_state_is_stored() -> None:
    fleet = RolloutFleet(1, BAKING)
    changed(fleet.graph, GOALS)
    fleet.roll_out("two")
    (answer,) = changed(fleet.graph, GOALS)
    assert answer.value == (2, "", 0, timedelta(minutes=5))
    state = aimed_state(fleet.graph, NAME)
    assert state
    assert (state.targets["all"].revision, state.decisions[-1].at) == (2, UNDATED)


def test_the_completed_revision_is_that_of_the_record() -> None:
    fleet = RolloutFleet(1)
    assert completed_revision(fleet.graph, NAME) == 1
    fleet.record()
    assert completed_revision(fleet.graph, NAME) == 0


def test_a_decision_in_the_record_concerns_no_target() -> None:
    fleet = RolloutFleet(1)
    changed(fleet.graph, GOALS)
    state = rollout_state(fleet.graph, NAME)
    assert state
    fleet.record(state.with_decision(DecisionRecord(fleet.graph.now, "granted", "x0")))
    assert changed(fleet.graph, GOALS) == []


def test_a_rollback_is_another_target_although_its_number_is_that_of_the_state() -> None:
    """A rollback skips the bake time, so the items have to know."""
    fleet = RolloutFleet(1, BAKING)
    fleet.roll_out("two")
    changed(fleet.graph, GOALS)
    fleet.roll_out("one")
    (answer,) = changed(fleet.graph, GOALS)
    assert answer.value == (3, "", 1, timedelta())


def test_only_a_shuffled_order_depends_on_the_target() -> None:
    assert shuffle_salt(RolloutFleet(1).graph, NAME) is None
    fleet = RolloutFleet(1, replace(DEFAULT_POLICY, name="p", order=ItemOrder.SHUFFLE_PER_REVISION))
    assert shuffle_salt(fleet.graph, NAME) == "r1"
    fleet.roll_out("two")
    assert shuffle_salt(fleet.graph, NAME) == "r2"


def test_a_rollout_without_instances_has_no_target() -> None:
    graph = RolloutFleet(1).graph
    assert (aimed_state(graph, "other"), wave_goal(graph, "other", "all")) == (None, None)
    assert (completed_revision(graph, "other"), shuffle_salt(graph, "other")) == (0, None)


def test_another_commit_of_the_same_revision_is_passed_on() -> None:
    fleet = RolloutFleet(1)
    fleet.record()
    changed(fleet.graph, GOALS)
    stored = stored_revisions(fleet.graph, LINK)
    fleet.set((stored_revisions.at(LINK), (replace(stored[0], commit="abc"),)))
    (answer,) = changed(fleet.graph, GOALS)
    assert answer.value == (1, "abc", 0, timedelta())
