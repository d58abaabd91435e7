"""Detection of gates that would wait for each other forever (S1-23), before Levelgate applies an object.

A resource waits for its dependencies and for the resources whose state its gates read. An instance waits for its
resources. A resource that is an instance of another definition waits for that instance. A gate on a cycle of waits
never opens. If a gate limits the items in flight, items of one collection wait for each other. Waits among the items of
one collection are not a cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from renderer.definition.compile import Definition
from renderer.definition.gates import Gate
from renderer.errors import Problem
from renderer.graph import levels
from renderer.identity import GroupKind

_Vertex = tuple[GroupKind, str]
"""The kind of a definition and the id of one of its resources. An empty id represents an instance of the definition."""


def find_gate_cycles(definitions: Mapping[GroupKind, Definition]) -> dict[GroupKind, list[Problem]]:
    """Return a problem for each gate that never opens, by kind of the definition that contains the gate.

    Each problem shows a shortest cycle.
    """
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
                steps = " -> ".join(map(_format_vertex, cycle))
                message = f"${{{gate.text}}}: waits for itself: {steps}; to open the gate, remove one of the references"
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
    """Yield the vertices that `gate` waits for. The vertex of a collection represents all items of the collection."""
    kind, _ = vertex
    yield from ((kind, name) for name in sorted(gate.waits_for & gate.scope.ancestors.keys()))
    if gate.waits_for_items:
        yield vertex


def _format_vertex(vertex: _Vertex) -> str:
    kind, node = vertex
    return f"{kind}/{node}" if node else str(kind)
