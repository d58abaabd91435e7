"""Trace of one object through the decisions of a cluster: what read it, why that was computed last, and at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Any, Final

from gitops.decisions import declarations, definitions, instances, live, resources
from gitops.decisions.declarations import Declaration
from gitops.queries import InputKey, QueryGraph
from gitops.queries.nodes import Node
from gitops.queries.traces import RootTrace, trace
from gitops.timestamps import timestamp
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

MAX_ROOTS: Final = 50
"""Maximum number of roots in a trace. An object that everything reads, such as a CRD, has one for each instance."""


@dataclass(frozen=True, slots=True)
class TracedRoot:
    """Result that depends on the object, and that work follows from."""

    name: str
    """Kind of the result, such as `set_plans`, with the object or rollout that it is about."""
    path: tuple[str, ...]
    """Queries between the object and the result. The first one is an input."""
    computed_at: datetime | None
    """Time in UTC of the last computation, or None if nobody has asked for the result yet."""
    evaluations: int
    """Number of queries that the last computation evaluated."""
    seconds: float
    """Seconds that the last computation took."""
    cause: tuple[str, ...]
    """Queries whose change caused the last computation. The last one is the input that had changed."""


@dataclass(frozen=True, slots=True)
class ObjectTrace:
    """Everything that the decisions of a cluster have read of one object."""

    key: ObjectKey
    inputs: tuple[str, ...]
    """Inputs about the object that decisions know. Without any, no decision has read the object."""
    roots: tuple[TracedRoot, ...]
    is_complete: bool
    """False if more results than `MAX_ROOTS` depend on the object."""

    def to_dict(self) -> dict[str, Any]:
        """Return the trace for JSON."""
        return {
            "object": str(self.key),
            "inputs": list(self.inputs),
            "roots": [
                {
                    "name": root.name,
                    "path": list(root.path),
                    "computedAt": root.computed_at and timestamp(root.computed_at),
                    "evaluations": root.evaluations,
                    "milliseconds": round(root.seconds * 1000, 3),
                    "cause": list(root.cause),
                }
                for root in self.roots
            ],
            "complete": self.is_complete,
        }


def trace_object(graph: QueryGraph, key: ObjectKey) -> ObjectTrace:
    """Return the trace of an object. The function computes nothing, and may be called while the graph computes."""
    inputs = {one: node for one in _inputs_of(graph, key) if (node := graph.find(one))}
    roots = [_traced(found) for found in trace(graph, inputs, MAX_ROOTS + 1)]
    return ObjectTrace(key, tuple(map(_text, inputs.values())), tuple(roots[:MAX_ROOTS]), len(roots) <= MAX_ROOTS)


def _inputs_of(graph: QueryGraph, key: ObjectKey) -> Iterator[InputKey[Any]]:
    yield live.live.at(key)
    yield live.is_absent.at(key)
    yield live.look_up.at(key)
    sources = graph.find(definitions.sources.at())
    for source in sources.value if sources else ():
        for namespace in dict.fromkeys((key.namespace, "")):
            yield declarations.declaration.at(Declaration(source, key.group_kind, namespace, key.name, 0))
    yield instances.placement.at(key)
    yield resources.applied_snapshot.at(key)


def _traced(found: RootTrace) -> TracedRoot:
    last, about = found.last, _argument(found.key)
    return TracedRoot(
        f"{found.roots} {about}".strip(),
        tuple(map(_text, found.path)),
        last.at if last else None,
        last.evaluations if last else 0,
        last.seconds if last else 0.0,
        tuple(map(_text, found.cause)),
    )


def _text(node: Node) -> str:
    """Return the name of a node with its arguments, which are keys and hold no content of objects."""
    return f"{node.family.name}({', '.join(filter(None, map(_argument, node.args)))})"


def _argument(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple) and type(value).__str__ is object.__str__:
        return " ".join(filter(None, map(_argument, value)))
    return str(value)
