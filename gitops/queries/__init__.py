"""Incremental computation: a graph of queries that recomputes only the results that a change affects.

The package does not depend on Kubernetes. Declare inputs and queries at module level, make a `QueryGraph`, set inputs
in transactions, and read values. `docs/architecture.md` describes the declarations of the reconciler.
"""

from gitops.queries.declarations import (
    Answer,
    Contributions,
    Input,
    InputKey,
    Query,
    QueryIndex,
    Roots,
    TimedQuery,
    Until,
    has_passed,
    query,
    recompute_at,
)
from gitops.queries.graph import OutOfTurn, QueryGraph, Transaction
from gitops.queries.nodes import CyclicQuery, Fault

__all__ = [
    "Answer",
    "Contributions",
    "CyclicQuery",
    "Fault",
    "Input",
    "InputKey",
    "OutOfTurn",
    "Query",
    "QueryGraph",
    "QueryIndex",
    "Roots",
    "TimedQuery",
    "Transaction",
    "Until",
    "has_passed",
    "query",
    "recompute_at",
]
