"""Levels of a dependency graph (Kahn) in stable order, cycles, and paths.

A node without parents has level 0. Any other node v has level(v) = 1 + max(level(parents)). Within a level, nodes keep
the order of the input (S0-1 to S0-3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeVar

from renderer.errors import RendererError

Node = TypeVar("Node", bound=Hashable)


class CycleError(RendererError):
    """Nodes that depend on each other.

    Args:
        path: The nodes of the cycle. The path starts and ends with the same node.
    """

    def __init__(self, path: list[str]) -> None:
        self.path = path
        super().__init__(f"dependency cycle: {' -> '.join(path)}; remove one of these references")


def compute_levels(parents: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the nodes by level.

    Args:
        parents: The direct dependencies of every node. Every dependency must be a node, too.

    Raises: CycleError with a shortest cycle.
    """
    pending_counts = {node: len(set(depends_on)) for node, depends_on in parents.items()}
    children: dict[str, list[str]] = {node: [] for node in parents}
    for node, depends_on in parents.items():
        for parent in set(depends_on):
            children[parent].append(node)
    position = {node: index for index, node in enumerate(parents)}
    result: list[list[str]] = []
    level = [node for node, count in pending_counts.items() if count == 0]
    while level:
        result.append(sorted(level, key=position.__getitem__))
        following = []
        for node in level:
            for child in children[node]:
                pending_counts[child] -= 1
                if pending_counts[child] == 0:
                    following.append(child)
        level = following
    if sum(map(len, result)) < len(parents):
        raise CycleError(_shortest_cycle(parents, [node for node, count in pending_counts.items() if count]))
    return result


def ancestors(parents: Mapping[Node, Collection[Node]], start: Iterable[Node]) -> set[Node]:
    """Return all direct and indirect dependencies of `start`.

    The result contains a node of `start` only if a node of `start` depends on that node, directly or indirectly.
    """
    visited: set[Node] = set()
    pending = [parent for node in start for parent in parents.get(node, ())]
    while pending:
        node = pending.pop()
        if node not in visited:
            visited.add(node)
            pending.extend(parents.get(node, ()))
    return visited


def add_unless_circular(parents: Mapping[Node, list[Node]], node: Node, dependencies: Iterable[Node]) -> None:
    """Add `dependencies` to the parents of `node`, in place.

    The function leaves out a dependency that is not in `parents`, or that would close a cycle.
    """
    for parent in dependencies:
        if (
            parent in parents
            and parent != node
            and parent not in parents[node]
            and node not in ancestors(parents, [parent])
        ):
            parents[node].append(parent)


def find_circles(parents: Mapping[Node, Collection[Node]]) -> dict[Node, int]:
    """Return a number for each node. Nodes of a cycle have the same number (strongly connected components, Kosaraju).

    Args:
        parents: The direct dependencies of every node.
    """
    finished = _in_postorder(parents)
    children: dict[Node, list[Node]] = {node: [] for node in parents}
    for node, depends_on in parents.items():
        for parent in depends_on:
            children[parent].append(node)
    found: dict[Node, int] = {}
    for number, start in enumerate(reversed(finished)):
        pending = [] if start in found else [start]
        while pending:
            node = pending.pop()
            if node not in found:
                found[node] = number
                pending.extend(children[node])
    return found


def _in_postorder(parents: Mapping[Node, Collection[Node]]) -> list[Node]:
    """Return all nodes, each after its dependencies.

    If a node and its dependency are on a cycle, either may come first.
    """
    finished: list[Node] = []
    visited: set[Node] = set()
    for start in parents:
        pending = [(start, False)]
        while pending:
            node, is_explored = pending.pop()
            if is_explored:
                finished.append(node)
            elif node not in visited:
                visited.add(node)
                pending.append((node, True))
                pending.extend((parent, False) for parent in parents[node])
    return finished


def find_path(parents: Mapping[Node, Collection[Node]], start: Node, end: Node) -> list[Node]:
    """Return a shortest path along dependencies from `start` to `end`, both included.

    If no path exists, return an empty list.

    The path has at least one step, so a path from a node to itself is a cycle.
    """
    reached_from: dict[Node, Node] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for parent in parents.get(node, ()):
            if parent == end:
                reversed_path = [end, node]
                while reversed_path[-1] != start:
                    reversed_path.append(reached_from[reversed_path[-1]])
                return reversed_path[::-1]
            if parent not in reached_from:
                reached_from[parent] = node
                queue.append(parent)
    return []


def _shortest_cycle(parents: Mapping[str, Collection[str]], nodes: list[str]) -> list[str]:
    ordered = {node: sorted(depends_on) for node, depends_on in parents.items()}
    return min((cycle for node in nodes if (cycle := find_path(ordered, node, node))), key=len)
