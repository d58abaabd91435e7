"""Records of rollouts in a graph: which state belongs to a rollout."""

from __future__ import annotations

from gitops.decisions.rollout_records import known_rollouts, remembered_state, rollout_requests, rollout_state
from gitops.queries import QueryGraph
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.state import RolloutState, TargetRevision
from renderer import well_known
from tests.support.graph_inputs import new_graph

LINK = RolloutState(of="Link.g.test", completed=TargetRevision(3))
HALT = RolloutRequest(well_known.HALT, "because", "eve", "because")


def recorded(**states: RolloutState | None) -> QueryGraph:
    graph = new_graph()
    with graph.transaction() as transaction:
        for name, state in states.items():
            transaction.set(rollout_state.at(name), state)
    return graph


def test_the_record_of_its_name_counts_also_without_a_kind() -> None:
    for state in (LINK, RolloutState(completed=TargetRevision(2))):
        assert remembered_state(recorded(links=state, other=LINK), "links", LINK.of) == state


def test_a_definition_with_a_new_name_keeps_its_state() -> None:
    assert remembered_state(recorded(links=None, former=LINK), "links", LINK.of) == LINK
    assert remembered_state(recorded(links=RolloutState(of="Link.other"), former=LINK), "links", LINK.of) == LINK


def test_a_record_of_another_kind_does_not_count() -> None:
    assert remembered_state(recorded(links=LINK), "links", "Link.other") == RolloutState()


def test_a_rollout_whose_record_nobody_has_read_is_unread() -> None:
    answer = new_graph().answer(remembered_state, "links", LINK.of)
    assert {key.family.name for key in answer.unread} == {"rollout_state"}
    assert recorded(links=None).answer(remembered_state, "links", LINK.of).unread == frozenset()


def test_a_record_that_is_read_again_makes_all_states_unread_that_may_follow_from_it() -> None:
    graph = recorded(links=None, former=LINK)
    with graph.transaction() as transaction:
        transaction.doubt(rollout_state.at("former"))
    assert graph.answer(remembered_state, "links", "Link.other").unread == {rollout_state.at("former")}


def test_a_state_with_another_commit_is_passed_on() -> None:
    graph = recorded(links=LINK)
    assert remembered_state(graph, "links", LINK.of).completed
    other = TargetRevision(3, commit="abc")
    with graph.transaction() as transaction:
        transaction.set(rollout_state.at("links"), RolloutState(of=LINK.of, completed=other))
    completed = remembered_state(graph, "links", LINK.of).completed
    assert completed
    assert completed.commit == "abc"


def test_rollouts_with_a_record_or_requests_are_known() -> None:
    graph = recorded(links=LINK, empty=None)
    with graph.transaction() as transaction:
        transaction.set(rollout_requests.at("asked"), (HALT,))
        transaction.set(rollout_requests.at("quiet"), ())
    assert known_rollouts(graph) == {"links", "asked"}
