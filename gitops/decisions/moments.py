"""Times at which many decisions may change although nothing happens, such as the end of a suspension.

A process looks at everything at such a time. A bake or a deadline that ends concerns one instance alone.
"""

from __future__ import annotations

from datetime import datetime

from gitops.queries import QueryGraph, TimedQuery, Until


@TimedQuery
def is_edge_past(now: datetime, edge: datetime) -> Until[bool]:
    """Return whether a time in UTC has passed at which many decisions may change."""
    return Until(True, None) if now >= edge else Until(False, edge)


@TimedQuery
def is_item_due(now: datetime, moment: datetime) -> Until[bool]:
    """Return whether a time in UTC has passed at which the bake or the deadline of one item ends."""
    return Until(True, None) if now >= moment else Until(False, moment)


def recompute_at_edge(graph: QueryGraph, edge: datetime | None) -> None:
    """Let the query that makes the call depend on a time in UTC at which a process has to look at everything."""
    if edge is not None:
        is_edge_past(graph, edge)
