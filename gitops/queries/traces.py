"""Questions to a graph about itself: which roots an input affects, why they were computed last, and what that cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gitops.queries.declarations import InputKey
from gitops.queries.graph import QueryGraph
from gitops.queries.membership import Computation, FamilyMember, IndexState, RootFamily
from gitops.queries.nodes import Node


class RootTrace(NamedTuple):
    """Root that reads an input, directly or through other queries and indexes."""

    roots: str
    """Name of the declaration of the root."""
    key: Any
    """Key of the root."""
    path: tuple[Node, ...]
    """One of the shortest ways from the input to the root."""
    last: Computation | None
    """Last computation of the root, or None if nobody has asked for the root yet."""
    cause: tuple[Node, ...]
    """Nodes whose change caused the last computation, from the root down to the input that had changed last."""


def trace(graph: QueryGraph, inputs: Iterable[InputKey[Any]], limit: int) -> Iterator[RootTrace]:
    """Yield at most `limit` roots that read one of the inputs, nearest first. The function computes nothing."""
    starts = [node for key in inputs if (node := graph.find(key))]
    before: dict[Node, Node | None] = dict.fromkeys(starts)
    pending, found = deque(starts), 0
    while pending and found < limit:
        node = pending.popleft()
        for reader in node.readers:
            if isinstance(reader, FamilyMember) and isinstance(reader.family, RootFamily):
                found += 1
                yield _traced(graph, reader, reader.family, _way(before, node))
                if found == limit:
                    return
            else:
                for following in _following(graph, reader):
                    if following not in before:
                        before[following] = node
                        pending.append(following)


def _following(graph: QueryGraph, reader: Any) -> Iterable[Node]:
    """Return the nodes that a changed value reaches through one of its readers."""
    if isinstance(reader, Node):
        return (reader,)
    if isinstance(reader, FamilyMember) and isinstance(reader.family, IndexState):
        entries = graph.entries_of(reader.family.index)
        return [entries[(entry,)] for entry in reader.contributions if (entry,) in entries]
    return ()


def _way(before: dict[Node, Node | None], node: Node) -> tuple[Node, ...]:
    way = list[Node]()
    current: Node | None = node
    while current:
        way.append(current)
        current = before[current]
    return tuple(reversed(way))


def _traced(graph: QueryGraph, member: FamilyMember, family: RootFamily, path: tuple[Node, ...]) -> RootTrace:
    cause = tuple(_causes(graph, member.node, member.last.revision)) if member.last else ()
    return RootTrace(family.name, member.key, path, member.last, cause)


def _causes(graph: QueryGraph, node: Node, revision: int) -> Iterator[Node]:
    """Yield a node, then what has changed last of what it reads, down to an input.

    Args:
        revision: revision of the graph after which changes do not count.
    """
    current: Node | None = node
    while current:
        yield current
        reads = [read for read in (*current.reads, *graph.contributors(current)) if read.changed_at <= revision]
        current = max(reads, key=lambda read: read.changed_at, default=None)
