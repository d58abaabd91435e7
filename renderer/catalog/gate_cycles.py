"""Gates that would wait for one another for ever (S1-23), found before anything runs.

A resource waits for those it depends on and for those its gates ask about; where it is an instance of a definition, for that instance; and an
instance for its resources. A gate that stands in a circle of these never opens, because what it waits for waits for it. That items of a
collection wait for others of the same collection is what a pace is, and no circle by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from renderer.definition.compile import Definition
from renderer.definition.gates import Gate
from renderer.errors import Problem
from renderer.graph import levels
from renderer.identity import GroupKind

_Vertex = tuple[GroupKind, str]
"""A resource of a definition by its id; the empty id is an instance of it."""


def find_gate_cycles(definitions: Mapping[GroupKind, Definition]) -> dict[GroupKind, list[Problem]]:
    """The gates that never open, by the definition they stand in, each with the shortest circle that shows it."""
    wait_edges = {
        vertex: list(successors)
        for definition in definitions.values()
        for vertex, successors in _wait_edges(definition, definitions)
    }
    problems: dict[GroupKind, list[Problem]] = {}
    for kind, definition in definitions.items():
        for vertex, gate in _gates_by_vertex(definition):
            paths = [levels.find_path(wait_edges, awaited, vertex) for awaited in _awaited_vertices(vertex, gate)]
            if cycle := min(filter(None, paths), key=len, default=None):
                cycle = cycle if cycle[0] == vertex else [vertex, *cycle]
                message = f"${{{gate.text}}}: waits for what waits for it: {' -> '.join(map(_format_vertex, cycle))}; it would never open"
                problems.setdefault(kind, []).append(Problem(gate.origin.file, gate.origin.line, gate.path, message))
    return problems


def _wait_edges(
    definition: Definition, definitions: Mapping[GroupKind, Definition]
) -> Iterator[tuple[_Vertex, list[_Vertex]]]:
    kind = definition.group_kind
    yield (kind, ""), [(kind, node.id) for node in definition.nodes]
    for node in definition.nodes:
        instance = [(node.group_kind, "")] if node.group_kind in definitions else []
        yield (kind, node.id), [*((kind, other) for other in node.depends_on), *instance]


def _gates_by_vertex(definition: Definition) -> Iterator[tuple[_Vertex, Gate]]:
    for gate in definition.propagate_when or ():
        yield (definition.group_kind, ""), gate
    for node in definition.nodes:
        for gate in node.propagate_when or ():
            yield (definition.group_kind, node.id), gate


def _awaited_vertices(vertex: _Vertex, gate: Gate) -> Iterator[_Vertex]:
    """What a gate waits for; the items of its own collection stand for themselves."""
    kind, _ = vertex
    yield from ((kind, name) for name in sorted(gate.waits_for & gate.scope.ancestors.keys()))
    if gate.waits_for_items:
        yield vertex


def _format_vertex(vertex: _Vertex) -> str:
    kind, node = vertex
    return f"{kind}/{node}" if node else str(kind)
