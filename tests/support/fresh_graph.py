"""Graphs that incremental changes have made, compared with new graphs that have the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from time import perf_counter
from typing import Any

from gitops.decisions import instances
from gitops.decisions.definitions import KindDefinitions
from gitops.decisions.resources import _Instance
from gitops.queries import Input, Query, QueryGraph
from gitops.queries.declarations import InputKey
from gitops.queries.nodes import ABSENT, CLEAN, Fault, Node
from gitops.windows.verdict import WindowVerdict
from renderer.definition.compile import Definition
from renderer.definition.kind_schemas import KindSchemas
from renderer.identity import GroupKind
from renderer.render.model import Rendering


def _comparable(value: Any) -> Any:
    """Return the part of a value that tells what it is.

    Schemas of kinds and compiled programs tell it by their identity alone. The next edge of windows may be a horizon,
    which moves with time.
    """
    if isinstance(value, Definition):
        return value.digest
    if isinstance(value, WindowVerdict):
        return replace(value, next_edge=datetime.max)
    if isinstance(value, KindDefinitions):
        current, new = _digests(value.current), _digests(value.new)
        return value.numbers, value.owners, current, new, value.held, value.refused, value.problems
    if isinstance(value, Rendering):
        return replace(value, definitions={}), _digests(value.definitions)
    if isinstance(value, _Instance):
        return value.definition.digest, value.manifest, value.schema.value
    return None if isinstance(value, KindSchemas) else value


def fresh_copy(graph: QueryGraph) -> QueryGraph:
    """Return a new graph with the inputs of *graph*, and with nothing that *graph* has computed."""
    copy = QueryGraph(graph.now, elapsed=perf_counter)
    instances.prepare(copy)
    inputs = [
        (InputKey(family, node.args), node)
        for family, nodes in graph._nodes.items()
        if isinstance(family, Input)
        for node in nodes.values()
    ]
    with copy.transaction() as transaction:
        for key, node in inputs:
            transaction.set(key, node.value)
    with copy.transaction() as transaction:
        for key, node in inputs:
            if node.unread:
                transaction.doubt(key)
    return copy


def assert_as_fresh(graph: QueryGraph) -> int:
    """Assert that each result of a graph is the one that a new graph with the same inputs computes.

    Return the number of compared results.
    """
    graph.settle()
    known: list[tuple[Query[Any, Any], Node]] = [
        (family, node)
        for family, nodes in graph._nodes.items()
        if isinstance(family, Query)
        for node in nodes.values()
        if node.state == CLEAN and not node.is_unread_stale and (node.value is not ABSENT or node.fault)
    ]
    copy = fresh_copy(graph)
    with copy.reading():
        for family, node in known:
            with suppress(Fault):
                family(copy, *node.args)
            other = copy.obtain(family, node.args)
            assert (node.fault is None) == (other.fault is None), (node, node.fault, other.fault)
            assert _names(node.unread) == _names(other.unread), node
            if node.fault is None:
                found, expected = _comparable(node.value), _comparable(other.value)
                assert found == expected or family.same(node.value, other.value), (node, found, expected)
    return len(known)


def _digests(found: Mapping[GroupKind, Definition]) -> dict[GroupKind, str]:
    return {kind: definition.digest for kind, definition in found.items()}


def _names(nodes: Iterable[object]) -> set[str]:
    return set(map(repr, nodes))
