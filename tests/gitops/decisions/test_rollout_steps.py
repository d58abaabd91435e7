"""Steps of rollouts in a graph: what may move before and after it is recorded, and what people and time change."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from applier.causes import Cause, Reason
from applier.errors import Denied
from gitops.decisions import live, rollout_items, rules
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.rollout_items import TargetProgress
from gitops.decisions.rollout_records import rollout_requests, rollout_state, unrecorded_cause
from gitops.decisions.rollout_steps import closed_waves, rollout_step
from gitops.gates.evaluate import ExternalFact
from gitops.rollouts.policy import DEFAULT_POLICY, ApprovalPoint, NewInstances, Wave
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.shapes import Unpaced
from gitops.rollouts.source_rules import SourceRules
from gitops.rollouts.state import OVERRIDDEN, UNDATED, RolloutState
from renderer import well_known
from tests.support.graph_fleet import LINK, PLATFORM, instance_key
from tests.support.graph_inputs import observe_directives
from tests.support.properties.repositories import instance
from tests.support.rollout_fleet import MINUTE, NAME, RolloutFleet
from tests.support.windows.documents import window

X0, X1, X2 = map(instance_key, ("x0", "x1", "x2"))
PACED = replace(DEFAULT_POLICY, name="p")


def request(key: str, value: str = "because") -> RolloutRequest:
    return RolloutRequest(key, value, "eve", "because")


def rolling(count: int = 4, **changes: Any) -> RolloutFleet:
    """Return a fleet with a new revision, under a policy with these fields."""
    fleet = RolloutFleet(count, replace(PACED, **changes) if changes else None)
    fleet.roll_out("two")
    fleet.tick()
    return fleet


def test_a_rollout_moves_batch_by_batch_to_its_end() -> None:
    fleet, batches = rolling(5), []
    while batch := fleet.carry_out():
        batches.append(batch)
        assert fleet.step().grants == {}, "a grant counts once it is stored"
        for name in batch:
            fleet.bring(name)
        fleet.tick()
    assert batches == [["x0"], ["x1"], ["x2", "x3"], ["x4"]]
    state = fleet.step().state
    assert state.completed == state.targets["all"]
    assert fleet.step().grants == fleet.step().starts == {}


def test_a_decision_that_is_not_stored_is_made_again() -> None:
    fleet = rolling()
    first = fleet.step()
    assert first.grants == {X0: 2}
    assert first.state.decisions[-1].at == UNDATED
    assert first.state.waves[0].moving == 1, "the progress counts the grants"
    fleet.tick(MINUTE)
    assert fleet.step() == first
    fleet.record(first.state.dated(fleet.graph.now))
    again = fleet.step()
    assert again.grants == {X0: 2}, "the grant itself is not set yet"
    assert again.state == first.state.dated(fleet.graph.now), "a repeated decision is recorded once"


def test_a_halt_stops_all_and_a_resume_goes_on() -> None:
    fleet = rolling()
    stored = fleet.step().state.dated(fleet.graph.now)
    fleet.record(stored, request(well_known.HALT))
    halted = fleet.step()
    assert halted.grants == {}
    (halt,) = halted.state.halts
    assert (halt.target, halt.since, halt.by) == (2, UNDATED, "eve")
    fleet.record(halted.state.dated(fleet.graph.now), request(well_known.RESUME))
    assert (fleet.step().state.halts, fleet.step().grants) == ((), {X0: 2})


def test_a_halt_in_git_stops_all() -> None:
    fleet = rolling()
    definition = json.loads(fleet.files["l.json"])
    definition["metadata"]["annotations"] = {well_known.HALT: "no"}
    fleet.commit({**fleet.files, "l.json": json.dumps(definition)})
    assert fleet.step().grants == {}
    assert [halt.by for halt in fleet.step().state.halts] == ["Git"]


def test_an_approval_lets_the_next_items_move() -> None:
    fleet = rolling(approvals=(ApprovalPoint(after_settled=1),))
    assert fleet.carry_out() == ["x0"]
    fleet.bring("x0")
    fleet.tick()
    assert fleet.step().grants == {}
    state = rollout_state(fleet.graph, NAME)
    fleet.record(state, request(well_known.APPROVE, "1"))
    assert fleet.step().grants == {X1: 2}


def test_a_rollout_whose_decisions_cannot_be_stored_decides_nothing() -> None:
    fleet = rolling()
    fleet.set((unrecorded_cause.at(NAME), Cause(Reason.APPLY_FAILED, "forbidden")))
    assert rollout_step(fleet.graph, NAME) is None


def test_a_new_instance_starts_at_the_completed_revision_while_others_roll_out() -> None:
    fleet = rolling(2)
    fleet.files["x2.json"] = instance("Link", "x2")
    fleet.commit(fleet.files)
    fleet.apply(PLATFORM)
    fleet.tick()
    found = fleet.step()
    assert (found.grants, found.starts) == ({X0: 2}, {X2: 1})
    assert found.state.waves[0].total == 3
    fleet.carry_out()
    assert fleet.step().starts == {}
    fleet = rolling(2, new_instances=NewInstances.LATEST)
    fleet.files["x2.json"] = instance("Link", "x2")
    fleet.commit(fleet.files)
    fleet.tick()
    assert fleet.step().grants == {X2: 2}, "it takes the place of the first batch"


@pytest.mark.parametrize("name", [NAME, f"{NAME}.canary"])
@pytest.mark.parametrize("is_hidden", [False, True])
def test_requests_to_a_rollout_without_instances_are_answered_unless_they_may_be_hidden(
    is_hidden: bool, name: str
) -> None:
    fleet = RolloutFleet(1)
    if is_hidden:
        fleet.set((live.unreadable.at(), {LINK: Denied("forbidden")}))
    fleet.commit({"l.json": fleet.files["l.json"]})
    fleet.record(None, request(well_known.RESUME), name=name)
    found = rollout_step(fleet.graph, name)
    assert (found is None) == is_hidden
    assert found is None or [entry.what for entry in found.state.decisions] == ["refused"]


def test_the_record_under_a_former_name_is_emptied_once_the_state_is_stored_under_the_new_one() -> None:
    fleet = RolloutFleet(1)
    state = rollout_state(fleet.graph, NAME)
    assert state
    fleet.record(state, name="former")
    fleet.record(None)
    kept = rollout_step(fleet.graph, "former")
    assert kept
    assert kept.state == state
    fleet.record(RolloutState())
    kept = rollout_step(fleet.graph, "former")
    assert kept
    assert kept.state == state, "nobody knows yet that the state under the new name is this one"
    fleet.record(fleet.step().state)
    emptied = rollout_step(fleet.graph, "former")
    assert emptied
    assert emptied.state == RolloutState()


def test_a_wave_moves_while_its_windows_are_open() -> None:
    elsewhere = {"namespaces": ["nowhere"]}
    night = window("night", cron="0 22 * * *", duration="2h", zone="UTC", selector=elsewhere)
    wave = Wave("canary", windows=("night",))
    policy = replace(PACED, waves=(wave,))
    fleet = RolloutFleet(2, policy)
    fleet.set((rules.source_rules.at("platform"), SourceRules("platform", {"night": night}, (policy,))))
    fleet.roll_out("two")
    fleet.tick()
    assert closed_waves(fleet.graph, NAME)["canary"].reason is Reason.WINDOW_CLOSED
    assert fleet.graph.next_moment == fleet.graph.now + timedelta(hours=22)
    assert fleet.step().grants == {}
    fleet.graph.advance(fleet.graph.now + timedelta(hours=22))
    assert closed_waves(fleet.graph, NAME) == {}
    fleet.graph.advance(fleet.graph.now + timedelta(hours=2))
    assert "canary" in closed_waves(fleet.graph, NAME)


def test_nothing_moves_while_the_state_of_an_instance_is_unknown() -> None:
    """A mistake of ours in one instance must not look like a healthy one."""
    fleet = rolling(shape=Unpaced())
    broken: Any = TargetProgress(2, "broken")  # type: ignore[arg-type]
    fleet.set((granted_revision.at(X2), 2), (rollout_items.item_progress.at(X2), broken))
    found = fleet.step()
    assert found.grants == found.starts == {}
    assert found.state.waves[0].total == 3
    fleet.set((rollout_items.item_progress.at(X2), None))
    assert fleet.step().grants.keys() == {X0, X1, instance_key("x3")}


def test_records_that_nobody_has_read_leave_the_rollout_unread() -> None:
    fleet = rolling()
    with fleet.graph.transaction() as transaction:
        transaction.drop(rollout_state.at(NAME))
        transaction.drop(rollout_requests.at(NAME))
    unread = fleet.graph.answer(rollout_step, NAME).unread
    assert unread == {rollout_state.at(NAME), rollout_requests.at(NAME)}


def gate(fleet: RolloutFleet, expression: str) -> None:
    """Commit a gate across the instances of the definition."""
    spec = f'"spec": {{"propagateWhen": [{json.dumps(expression)}], '
    fleet.commit({**fleet.files, "l.json": fleet.files["l.json"].replace('"spec": {', spec, 1)})
    fleet.tick()


def test_a_gate_that_sets_the_pace_counts_earlier_grants() -> None:
    """S1-9: a single rate is the shape of the policy, and a combination is asked for each item."""
    fleet, batches = rolling(4), []
    gate(fleet, "${inFlight(links) < 2 && settled(links) < 3}")
    while batch := fleet.carry_out():
        batches.append(batch)
        for name in batch:
            fleet.bring(name)
        fleet.tick()
    assert batches == [["x0", "x1"], ["x2", "x3"]]


def test_gates_of_the_definition_bar_items_and_tell_their_facts() -> None:
    fleet = rolling()
    gate(fleet, "${external('go')}")
    assert fleet.step().grants == {}
    fleet.set((rules.external_facts.at(), {"go": ExternalFact(True)}))
    found = fleet.step()
    assert found.grants.keys() == {X0}
    assert found.state.externals == {"go": UNDATED}
    fleet.set((rules.external_facts.at(), {"go": ExternalFact(False)}))
    assert (fleet.step().grants, fleet.step().state.externals) == ({}, {})


def test_a_move_past_a_window_that_a_gate_asks_for_is_recorded() -> None:
    fleet = rolling()
    night = window("night", cron="0 22 * * *", duration="2h", zone="UTC", selector={"namespaces": ["nowhere"]})
    fleet.set((rules.source_rules.at("platform"), SourceRules("platform", {"night": night})))
    gate(fleet, "${inWindow('night')}")
    assert fleet.step().grants == {}
    obj = live.live(fleet.graph, X1)
    assert obj
    said = {
        well_known.BREAK_GLASS_REASON: "outage",
        well_known.BREAK_GLASS_UNTIL: (fleet.graph.now + timedelta(hours=1)).isoformat(),
    }
    metadata = {**obj["metadata"], "annotations": {**obj["metadata"]["annotations"], **said}}
    fleet.observe({**obj, "metadata": metadata})
    observe_directives(fleet.graph, rollout_step, NAME)
    found = fleet.step()
    assert found.grants.keys() == {X1}
    assert [(one.what, one.at, one.why) for one in found.state.decisions][-1] == (OVERRIDDEN, UNDATED, "outage")
