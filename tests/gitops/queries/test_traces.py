"""What a graph tells of itself: who reads an input, why that was computed last, and at what cost."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import pytest

from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, Roots, query
from gitops.queries.traces import RootTrace, trace

START = datetime(2026, 11, 20, 12, tzinfo=UTC)

size: Input[[str], int] = Input("size", initial=0, starts_unread=False)
names: Input[[], frozenset[str]] = Input("names", initial=frozenset(), starts_unread=False)


@query
def members(graph: QueryGraph) -> frozenset[str]:
    return names(graph)


@query
def is_large(graph: QueryGraph, name: str) -> bool:
    return size(graph, name) > 9


@query
def large_entry(graph: QueryGraph, name: str) -> dict[bool, str]:
    return {is_large(graph, name): name}


by_size: QueryIndex[str, bool, str, Contributions[str, str]] = QueryIndex(
    "by_size", order=1, members=members, contributions=large_entry, new_entry=Contributions, spreads_unread=False
)


@query
def label(graph: QueryGraph, name: str) -> str:
    return f"{name} is {'large' if is_large(graph, name) else 'small'}"


@query
def everyone(_graph: QueryGraph) -> frozenset[None]:
    return frozenset({None})


@query
def number_of_large(graph: QueryGraph, _all: None) -> int:
    return len(by_size(graph, True))


LABELS = Roots("labels", order=9, members=members, result=label)
TOTAL = Roots("total", order=9, members=everyone, result=number_of_large)


@pytest.fixture
def graph() -> QueryGraph:
    ticks = count()
    graph = QueryGraph(START, elapsed=lambda: float(next(ticks)))
    with graph.transaction() as transaction:
        transaction.set(names.at(), frozenset("ab"))
        transaction.set(size.at("a"), 1)
        transaction.set(size.at("b"), 20)
    ask(graph)
    return graph


def ask(graph: QueryGraph) -> None:
    list(graph.changed(LABELS))
    list(graph.changed(TOTAL))


def change(graph: QueryGraph, **sizes: int) -> None:
    with graph.transaction() as transaction:
        for name, value in sizes.items():
            transaction.set(size.at(name), value)
    ask(graph)


def traced(graph: QueryGraph, name: str) -> dict[str, RootTrace]:
    return {found.roots: found for found in trace(graph, [size.at(name)], 10)}


def test_the_roots_of_an_input_are_found_through_queries_and_indexes(graph: QueryGraph) -> None:
    found = traced(graph, "b")
    assert {name: [str(node) for node in one.path] for name, one in found.items()} == {
        "labels": ["size('b')", "is_large('b')", "label('b')"],
        "total": ["size('b')", "is_large('b')", "large_entry('b')", "by_size(True)", "number_of_large(None)"],
    }
    assert {name: one.key for name, one in found.items()} == {"labels": "b", "total": None}
    assert set(traced(graph, "a")) == {"labels"}  # nobody asks who is small
    assert not traced(graph, "unknown")
    assert [one.roots for one in trace(graph, [size.at("b")], 1)] == ["labels"]


def test_a_computation_tells_its_time_its_cost_and_its_cause(graph: QueryGraph) -> None:
    graph.advance(START.replace(hour=13))
    change(graph, a=30)
    found = traced(graph, "a")
    last = found["total"].last
    assert last
    assert (last.at, last.evaluations) == (START.replace(hour=13), 1)
    assert [str(node) for node in found["labels"].cause] == ["label('a')", "is_large('a')", "size('a')"]
    assert [str(node) for node in found["total"].cause][-1] == "size('a')"
    before = traced(graph, "b")["labels"]
    assert before.last
    assert before.last.at == START  # its label was not computed again
    assert [str(node) for node in before.cause][-1] == "size('b')"


def test_a_change_that_stops_halfway_causes_nothing(graph: QueryGraph) -> None:
    before = traced(graph, "b")
    change(graph, b=21)
    after = traced(graph, "b")
    assert after["labels"].last == before["labels"].last
    assert after["total"].last == before["total"].last
