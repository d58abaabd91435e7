"""Incremental computation: a graph of queries that computes again only what a change concerns.

The package knows nothing of Kubernetes. Declare inputs and queries at module level, make a `QueryGraph`, set inputs in
transactions, and ask. `docs/architecture.md` tells what the reconciler declares with it.
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
]
