"""Definitions with `propagateWhen`, on a definition, a node and a collection."""

from __future__ import annotations

from typing import Any

import orjson

from renderer.definition.compile import Definition
from tests.support.compiled_definitions import compiled, resource, source


def definition(*nodes: Any, across: list[Any] | None = None) -> Definition:
    """Compile these nodes; *across* are the gates between instances."""
    return compiled(text(*nodes, across=across))


def chain(*gates: str, **more: Any) -> tuple[Any, ...]:
    """Return nodes a <- b <- c, of which b has the gates."""
    return (
        resource("a"),
        resource("b", "a", propagateWhen=[f"${{{gate}}}" for gate in gates], **more),
        resource("c", "b"),
    )


def workers(*gates: str) -> dict[str, Any]:
    """Return a collection with the iterator `zone`."""
    node = resource("workers", "a", forEach=[{"zone": "${schema.spec.names}"}])
    node["template"]["metadata"]["name"] = "${schema.metadata.name}-${zone}"
    return {**node, "propagateWhen": [f"${{{gate}}}" for gate in gates]}


def text(*nodes: Any, across: list[Any] | None = None) -> str:
    """Return the definition of these nodes as text."""
    written = source(*(nodes or [resource("a")]), spec={"name": "string", "size": "integer", "names": "[]string"})
    if across is None:
        return written
    return written.replace("  resources:", f"  propagateWhen: {orjson.dumps(across).decode()}\n  resources:", 1)
