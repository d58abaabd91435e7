"""Levels of dependency and circles (S0-1 to S0-3, S0-21)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderer.graph.levels import CycleError, ancestors, compute_levels, find_circles

if TYPE_CHECKING:
    from _typeshed import TraceFunction

Graph = dict[str, list[str]]
EXAMPLES = settings(derandomize=True, deadline=None, database=None, max_examples=150)


@st.composite
def acyclic(draw: st.DrawFn) -> Graph:
    names = [f"n{index}" for index in range(draw(st.integers(0, 12)))]
    order = draw(st.permutations(names))
    parents = {
        name: draw(st.lists(st.sampled_from(order[:index]), max_size=4)) if index else []
        for index, name in enumerate(order)
    }
    return {name: parents[name] for name in draw(st.permutations(names))}


@st.composite
def any_graph(draw: st.DrawFn) -> Graph:
    names = [f"n{index}" for index in range(draw(st.integers(1, 8)))]
    return {name: draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) for name in names}


@EXAMPLES
@given(acyclic())
def test_every_node_stands_one_level_above_its_highest_parent(graph: Graph) -> None:
    """S0-2: level(v) = 1 + max(level(parents)); so level(u) < level(v) for every edge u -> v."""
    level_of = {name: level for level, names in enumerate(compute_levels(graph)) for name in names}
    assert level_of == {
        name: 1 + max((level_of[parent] for parent in parents), default=-1) for name, parents in graph.items()
    }


@EXAMPLES
@given(acyclic())
def test_levels_are_a_permutation_in_stable_order(graph: Graph) -> None:
    """S0-2: inside a level as given."""
    found = compute_levels(graph)
    assert sorted(name for level in found for name in level) == sorted(graph)
    order = list(graph)
    assert all(level == sorted(level, key=order.index) for level in found)
    assert all(found)
    assert found == compute_levels({name: list(reversed(parents)) for name, parents in graph.items()})


@EXAMPLES
@given(any_graph())
def test_a_circle_is_named_by_its_shortest_path_and_only_where_there_is_one(graph: Graph) -> None:
    """S0-3: leftover nodes are never dropped."""
    shortest = min((found for name in graph if (found := distance(graph, name))), default=0)
    path = circle_of(graph)
    assert len(path) == (shortest + 1 if shortest else 0)
    assert path[:1] == path[-1:]
    assert all(child in graph[parent] for parent, child in pairwise(path))


def circle_of(graph: Graph) -> list[str]:
    try:
        compute_levels(graph)
    except CycleError as error:
        return error.path
    return []


def distance(graph: Graph, start: str) -> int:
    """Steps from a node back to itself; 0 where there is no way."""
    reached, steps = set(graph[start]), 1
    while start not in reached:
        further = reached | {parent for name in reached for parent in graph[name]}
        if further == reached:
            return 0
        reached, steps = further, steps + 1
    return steps


@pytest.mark.parametrize(
    ("graph", "path"),
    [
        ({"a": ["a"]}, "a -> a"),
        ({"a": ["b"], "b": ["a"]}, "a -> b -> a"),
        ({"a": ["b"], "b": ["c"], "c": ["d"], "d": ["a", "c"]}, "c -> d -> c"),
        ({"x": [], "a": ["x", "b"], "b": ["a"], "z": ["b"]}, "a -> b -> a"),
    ],
)
def test_a_circle_is_told(graph: Graph, path: str) -> None:
    with pytest.raises(CycleError, match=path):
        compute_levels(graph)


class LinesRun:
    """A count of lines of Python, which no slow machine changes."""

    count = 0

    def trace(self, frame: FrameType, event: str, argument: Any) -> TraceFunction:
        self.count += event == "line"
        return self.trace


@contextmanager
def lines_run() -> Iterator[LinesRun]:
    """Count the lines that are run meanwhile."""
    run, before = LinesRun(), sys.gettrace()
    sys.settrace(run.trace)
    try:
        yield run
    finally:
        sys.settrace(before)


def test_wide_and_deep_graphs_finish_at_once() -> None:
    """S0-21: 10^4 nodes side by side, 10^3 in a row, and a circle at the end of them."""
    wide: Graph = {"root": [], **{f"n{index}": ["root"] for index in range(10_000)}}
    with lines_run() as run:
        assert [len(level) for level in compute_levels(wide)] == [1, 10_000]
    assert run.count < 40 * len(wide)
    deep: Graph = {"n0": [], **{f"n{index}": [f"n{index - 1}"] for index in range(1, 1_000)}}
    with lines_run() as run:
        assert len(compute_levels(deep)) == 1_000
    assert run.count < 40 * len(deep)
    ring = {**deep, "n0": ["n999"]}
    with pytest.raises(CycleError):
        compute_levels(ring)
    small: Graph = {f"n{index}": [f"n{(index + 1) % 100}"] for index in range(100)}
    with lines_run() as run, pytest.raises(CycleError):
        compute_levels(small)
    assert run.count < 20 * len(small) ** 2  # one search from each node: the shortest circle is named


@EXAMPLES
@given(any_graph(), st.data())
def test_ancestors_are_everything_that_is_reached(graph: Graph, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from(sorted(graph)))
    found = ancestors(graph, [start])
    assert found == set(graph[start]).union(*(graph[name] for name in found)) if found else not graph[start]
    assert (start in found) == (distance(graph, start) > 0)


@settings(derandomize=True, deadline=None, database=None, max_examples=100)
@given(edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=16))
def test_those_in_one_circle_are_those_that_reach_one_another(edges: list[tuple[int, int]]) -> None:
    parents: dict[int, list[int]] = {node: [other for start, other in edges if start == node] for node in range(8)}
    found = find_circles(parents)
    reached = {node: ancestors(parents, [node]) | {node} for node in parents}
    for node in parents:
        for other in parents:
            assert (found[node] == found[other]) == (node in reached[other] and other in reached[node])
