"""Times at which a process looks at everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import perf_counter

from gitops.decisions.moments import is_edge_past, recompute_at_edge
from gitops.queries import QueryGraph, Roots, query, recompute_at

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@query
def _ends(graph: QueryGraph) -> frozenset[int]:
    return frozenset({1, 2})


@query
def hour(graph: QueryGraph, end: int) -> int:
    """Return the present hour until the end of a bake, one hour after noon, or of a hold, two hours after noon."""
    (recompute_at if end == 1 else recompute_at_edge)(graph, NOON + end * HOUR)
    return graph.now.hour


def test_the_end_of_a_bake_is_a_moment_of_the_graph_and_no_edge() -> None:
    graph, hours = QueryGraph(NOON, elapsed=perf_counter), Roots("hours", order=99, members=_ends, result=hour)
    assert {answer.key: answer.value for answer in graph.changed(hours)} == {1: 12, 2: 12}
    assert graph.next_moment == NOON + HOUR
    assert graph.next_moment_of(is_edge_past) == NOON + 2 * HOUR
    graph.advance(NOON + HOUR)
    assert {answer.key: answer.value for answer in graph.changed(hours)} == {1: 13}
    graph.advance(NOON + 2 * HOUR)
    assert {answer.key: answer.value for answer in graph.changed(hours)} == {2: 14}
    assert graph.next_moment_of(is_edge_past) is None
