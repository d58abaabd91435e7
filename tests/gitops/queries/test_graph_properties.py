"""The graph against an oracle that remembers nothing: equal results after every change, and equal unread inputs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gitops.queries import Answer, QueryGraph
from gitops.queries.graph import Transaction
from gitops.queries.membership import IndexState, MemberFamily
from gitops.queries.moments import Moments
from gitops.queries.nodes import NO_NODES, Node
from tests.support import query_programs as programs
from tests.support.query_programs import NOON, ROOTS, STRATA, WIDTH, CellOutcome, Oracle, Program

Step = tuple[Any, ...]

_CHANGE = st.one_of(
    st.tuples(st.just("number"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("looked up"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("drop"), st.integers(0, 2)),
    st.tuples(st.just("doubt"), st.integers(0, 2)),
    st.tuples(st.just("member"), st.integers(0, STRATA - 1), st.integers(0, WIDTH - 1), st.booleans()),
    st.tuples(st.just("now"), st.integers(0, 16)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.lists(_CHANGE, min_size=1, max_size=4)),
        st.tuples(st.just("ask"), st.integers(0, STRATA - 1), st.integers(0, WIDTH - 1)),
        st.just(("end round",)),
        st.just(("verify",)),
        st.tuples(st.just("suppose"), st.integers(0, 3), st.integers(0, 3)),
    ),
    min_size=2,
    max_size=12,
)


def ticks() -> Any:
    """A clock of which each look takes no time that matters."""
    numbers = count()
    return lambda: next(numbers) * 1e-9


def apply(graph: QueryGraph, oracle: Oracle, changes: list[Step]) -> None:
    with graph.transaction() as transaction:
        for change in changes:
            match change:
                case ("number", place, value):
                    transaction.set(programs.number.at(place), value)
                    oracle.numbers[place] = value
                case ("looked up", place, value):
                    transaction.set(programs.looked_up.at(place), value)
                    oracle.looked_up[place] = value
                    oracle.doubted.discard(place)
                case ("drop", place):
                    transaction.drop(programs.looked_up.at(place))
                    oracle.looked_up.pop(place, None)
                    oracle.doubted.discard(place)
                case ("doubt", place):
                    transaction.doubt(programs.looked_up.at(place))
                    oracle.doubted.add(place)
                case ("member", stratum, place, is_there):
                    transaction.set(programs.is_member.at(stratum, place), is_there)
                    (oracle.absent.discard if is_there else oracle.absent.add)((stratum, place))
                case ("now", half_hours):
                    oracle.now = transaction.now = NOON + timedelta(minutes=30 * half_hours)


def outcome(answer: Answer[Any, int]) -> CellOutcome:
    return CellOutcome(answer.value, frozenset(key.args[0] for key in answer.unread))


def check(program: Program, steps: list[Step]) -> Iterator[tuple[QueryGraph, Oracle]]:
    """Play the steps, and hold every answer against the oracle. What was reported last stands for what a caller knows."""
    graph, oracle = QueryGraph(NOON, elapsed=ticks()), Oracle(program)
    reported: dict[int, CellOutcome] = {}
    for step in steps:
        match step:
            case ("change", changes):
                apply(graph, oracle, changes)
            case ("ask", stratum, place):
                assert outcome(graph.answer(programs.cell, stratum, place)) == oracle.outcome((stratum, place))
            case ("end round",):
                graph.end_round()
            case ("verify",):
                assert graph.verify(100) == []
            case ("suppose", place, value):
                before = oracle.numbers.get(place, 0)
                with graph.supposing({programs.number.at(place): value}):
                    oracle.numbers[place] = value
                    assert outcome(graph.answer(programs.cell, STRATA - 1, 0)) == oracle.outcome((STRATA - 1, 0))
                oracle.numbers[place] = before
        if step[0] in {"change", "end round"}:
            _take_reports(graph, oracle, reported)
        yield graph, oracle
    _take_reports(graph, oracle, reported)


def _take_reports(graph: QueryGraph, oracle: Oracle, reported: dict[int, CellOutcome]) -> None:
    expected = oracle.roots
    differing = {place for place in expected.keys() | reported.keys() if expected.get(place) != reported.get(place)}
    answers = list(graph.changed(ROOTS))
    for answer in answers:
        if answer.is_gone:
            reported.pop(answer.key, None)
        else:
            reported[answer.key] = outcome(answer)
    assert reported == expected
    assert differing <= {answer.key for answer in answers}


@pytest.fixture(autouse=True)
def _quiet_faults() -> Iterator[None]:
    """The programs fail on purpose, thousands of times."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def play(program: Program, steps: list[Step]) -> None:
    with program.running():
        for _ in check(program, steps):
            pass


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs.programs(), steps=STEPS)
def test_every_answer_is_that_of_a_computation_from_scratch(program: Program, steps: list[Step]) -> None:
    play(program, steps)


def test_the_programs_have_unread_inputs_faults_and_members_that_differ() -> None:
    """The comparison would show little if the drawn programs did not have them."""
    seen: set[str] = set()

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(program=programs.programs(), steps=STEPS)
    def look(program: Program, steps: list[Step]) -> None:
        with program.running():
            for _, oracle in check(program, steps):
                outcomes = oracle.roots.values()
                seen.update(["unread"] * any(found.unread for found in outcomes))
                seen.update(["fault"] * any(found.value is None for found in outcomes))
                seen.update(["left out"] * bool(oracle.absent))
                seen.update(["doubted"] * bool(oracle.doubted & oracle.looked_up.keys()))

    look()
    assert seen == {"unread", "fault", "left out", "doubted"}


def _edges_lost(node: Node, reader: Any) -> None:
    """One of two edges is not recorded."""
    if hash(repr(node)) % 2:
        node._readers = reader


def _no_mark_beyond(self: QueryGraph, node: Node, state: int) -> None:
    for reader in node.readers:
        reader.mark(state)


def _no_advance(self: Moments, now: datetime, _: Any) -> list[Any]:
    self.now = now
    return []


MUTANTS: dict[str, Any] = {
    "an edge that is not recorded": mock.patch.object(Node, "add_reader", _edges_lost),
    "a mark that stops early": mock.patch.object(QueryGraph, "_mark_readers", _no_mark_beyond),
    "an index that is not settled": mock.patch.object(QueryGraph, "settle", return_value=None),
    "an index that marks no reader": mock.patch.object(IndexState, "_publish", return_value=None),
    "a moment that is lost": mock.patch.object(Moments, "advance", _no_advance),
    "unread inputs that are lost": mock.patch("gitops.queries.graph.union_of_unread", return_value=NO_NODES),
    "members that are never looked at again": mock.patch.object(MemberFamily, "mark", return_value=False),
    "inputs that no index follows": mock.patch.object(IndexState, "follow", return_value=None),
    "doubt that is lost": mock.patch.object(Transaction, "doubt", return_value=None),
    "a digest that is the same for all": mock.patch.object(programs.fleeting, "digest", return_value=0),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_notices(mutant: str) -> None:
    """Each fault of the engine is seen in some program: the comparison can fail."""

    @settings(
        max_examples=1000,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
        phases=[Phase.generate],
    )
    @given(program=programs.programs(), steps=STEPS)
    def compare(program: Program, steps: list[Step]) -> None:
        play(program, steps)

    with MUTANTS[mutant], pytest.raises(AssertionError):
        compare()
