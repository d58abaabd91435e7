"""All graphs over a few objects, and histories of them, for the model of the protocol."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, permutations, product

Graph = tuple[frozenset[int] | None, ...]
"""For each object what it uses; None where the commit does not want the object."""


def wanted(graph: Graph) -> frozenset[int]:
    return frozenset(node for node, uses in enumerate(graph) if uses is not None)


@cache
def ancestors(graph: Graph, node: int) -> frozenset[int]:
    """All that an object rests on."""
    uses = graph[node] or frozenset()
    return uses.union(*(ancestors(graph, other) for other in uses))


@cache
def level(graph: Graph, node: int) -> int:
    return max((1 + level(graph, other) for other in graph[node] or ()), default=0)


@cache
def graphs(size: int) -> tuple[Graph, ...]:
    """All graphs without circles over some of `size` objects."""
    found = set()
    for count in range(size + 1):
        for order in permutations(range(size), count):
            choices = [
                [frozenset(some) for length in range(place + 1) for some in combinations(order[:place], length)]
                for place in range(count)
            ]
            for uses in product(*choices):
                graph: list[frozenset[int] | None] = [None] * size
                for node, used in zip(order, uses, strict=True):
                    graph[node] = used
                found.add(tuple(graph))
    return tuple(sorted(found, key=_order))


def _order(graph: Graph) -> list[list[int]]:
    return [[-1] if uses is None else sorted(uses) for uses in graph]


def renamed(history: Sequence[Graph], names: Sequence[int]) -> tuple[Graph, ...]:
    """Return the same history with other names of the objects."""
    result = []
    for graph in history:
        new: list[frozenset[int] | None] = [None] * len(graph)
        for node, uses in enumerate(graph):
            new[names[node]] = None if uses is None else frozenset(names[other] for other in uses)
        result.append(tuple(new))
    return tuple(result)


def histories(size: int, commits: int) -> Iterator[tuple[Graph, ...]]:
    """All histories of so many commits over up to `size` objects, of those that differ in names only one."""
    for history in product(graphs(size), repeat=commits):
        forms = (renamed(history, names) for names in permutations(range(size)))
        if all(_orders(history) <= _orders(form) for form in forms):
            yield history


def _orders(history: Sequence[Graph]) -> list[list[list[int]]]:
    return [_order(graph) for graph in history]


def sampled(size: int, commits: int, *, seed: int, count: int) -> Iterator[tuple[Graph, ...]]:
    """Some of those that are too many."""
    rng = random.Random(seed)
    for _ in range(count):
        yield tuple(rng.choice(graphs(size)) for _ in range(commits))
