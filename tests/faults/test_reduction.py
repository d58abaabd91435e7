"""The model reduced is the model: the same states between rounds, and a breach wherever the model has one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from itertools import permutations

import pytest

from tests.support.faults.extent import first
from tests.support.faults.graphs import Graph, histories, renamed, wanted
from tests.support.faults.model import Live, Rules, State, explore
from tests.support.faults.reduction import explore_all, forgotten, renamed_state

Seen = set[tuple[Graph, State]]

OFF = [Rules(), *(Rules(**{field.name: False}) for field in fields(Rules))]
SIZES = first(3, [(2, 2, True), (2, 3, True), (3, 2, False), (3, 2, True), (3, 3, False)])


def under_all_names(found: Iterable[tuple[Graph, State]]) -> Seen:
    return {
        (renamed([graph], names)[0], renamed_state(state, names))
        for graph, state in found
        for names in permutations(range(len(graph)))
    }


def all_at_once(size: int, commits: int, *, meddle: bool, forget: bool) -> Seen:
    """States of the last commit, between rounds."""
    seen: Seen = set()
    explore_all(size, commits, meddle=meddle, forget=forget, visit=lambda graph, state: seen.add((graph, state)))
    return seen


def one_by_one(size: int, commits: int, *, meddle: bool) -> Seen:
    """The same by the unreduced model."""
    seen: Seen = set()
    last = commits - 1
    for history in histories(size, commits):

        def visit(state: State, graph: Graph = history[last]) -> None:
            if state.commit == last and not state.round:
                seen.add((graph, as_of(state, last)))

        explore(history, meddle=meddle, visit=visit)
    return seen


def as_of(state: State, commit: int) -> State:
    """With the commit that is in force as 1, and all before it as 0."""
    slots = (
        slot._replace(commit=int(slot.commit == commit)) if isinstance(slot, Live) else slot for slot in state.slots
    )
    return state._replace(commit=1, slots=tuple(slots))


@pytest.mark.parametrize(("size", "commits", "meddle"), SIZES)
def test_all_histories_at_once_come_to_the_same_states(size: int, commits: int, meddle: bool) -> None:
    """I1 to I4, I7: open histories, whole rounds and one name for all leave out no state between rounds, and add none."""
    reduced = under_all_names(all_at_once(size, commits, meddle=meddle, forget=False))
    assert reduced == under_all_names(one_by_one(size, commits, meddle=meddle))


@pytest.mark.parametrize(("size", "commits", "meddle"), SIZES)
def test_what_the_last_commit_forgets_makes_no_difference(size: int, commits: int, meddle: bool) -> None:
    """I1 to I4, I7: it commutes with every step. Nor does the person, who has come in states that come about without him as well."""
    found = [all_at_once(size, commits, meddle=meddle, forget=forget) for forget in (False, True)]
    whole, less = (
        without_person(under_all_names((graph, forgotten(state, wanted(graph))) for graph, state in some))
        for some in found
    )
    assert whole == less


def without_person(seen: Seen) -> Seen:
    return {
        (graph, state)
        for graph, state in seen
        if not state.meddled or (graph, state._replace(meddled=False)) not in seen
    }


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("meddle", [False, True])
@pytest.mark.parametrize("rules", OFF, ids=str)
def test_a_breach_is_found_where_the_model_has_one(rules: Rules, meddle: bool, forget: bool) -> None:
    """I1 to I4, I7: with any one rule off, and with none."""
    breaches = {explore(history, rules, meddle=meddle).breach[:2] for history in histories(2, 2)} - {""}
    found = explore_all(2, 2, rules, meddle=meddle, forget=forget).breach[:2]
    assert found in breaches if breaches else not found
