"""Incremental computation: a graph of queries that computes again only what a change concerns.

The package knows nothing of Kubernetes. Declare inputs and queries at module level, make a `Graph`, set inputs in
transactions, and ask. `docs/architecture.md` tells what the reconciler declares with it.
"""

from gitops.queries.declarations import (
    Answer,
    Contributions,
    Index,
    Input,
    InputKey,
    Query,
    Roots,
    TimedQuery,
    Until,
    has_passed,
    query,
)
from gitops.queries.graph import Graph, OutOfTurn, Transaction
from gitops.queries.nodes import CyclicQuery, Fault

__all__ = [
    "Answer",
    "Contributions",
    "CyclicQuery",
    "Fault",
    "Graph",
    "Index",
    "Input",
    "InputKey",
    "OutOfTurn",
    "Query",
    "Roots",
    "TimedQuery",
    "Transaction",
    "Until",
    "has_passed",
    "query",
]
