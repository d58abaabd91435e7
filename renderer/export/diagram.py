"""Diagrams of a definition's graph: Mermaid for Markdown, DOT for Graphviz. Equal definitions yield equal text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from renderer.definition.compile import Definition
from renderer.definition.resources import ResourceNode

_MERMAID_BRACKETS: Final = {"single": ('["', '"]'), "collection": ('[["', '"]]'), "external": ('[/"', '"/]')}
_MERMAID_KEYWORDS: Final = frozenset(
    {"call", "class", "click", "default", "direction", "end", "href", "style", "subgraph"}
)
_DOT_SHAPES: Final = {"single": "box", "collection": "box3d", "external": "parallelogram"}


def render_mermaid(definition: Definition) -> str:
    """Return a flowchart: `[ ]` is an object, `[[ ]]` a collection, `[/ /]` an external object.

    A dotted edge means that only `includeWhen` reads the dependency.
    """
    lines = ["flowchart TD"]
    for node in definition.nodes:
        opening, closing = _MERMAID_BRACKETS[_node_category(node)]
        lines.append(f"  {_escape_id(node.id)}{opening}{'<br/>'.join(_label_lines(node))}{closing}")
    for parent, child, conditional in _edges(definition):
        lines.append(f"  {_escape_id(parent)} {'-.->' if conditional else '-->'} {_escape_id(child)}")
    return "\n".join(lines) + "\n"


def render_dot(definition: Definition) -> str:
    """Return a digraph: boxes are objects, 3D boxes collections, parallelograms external objects.

    A dotted edge means that only `includeWhen` reads the dependency.
    """
    lines = [f'digraph "{definition.group_kind}" {{', "  rankdir=TB;"]
    for node in definition.nodes:
        label = "\\n".join(_label_lines(node))
        lines.append(f'  "{node.id}" [shape={_DOT_SHAPES[_node_category(node)]}, label="{label}"];')
    for parent, child, conditional in _edges(definition):
        lines.append(f'  "{parent}" -> "{child}"{" [style=dotted]" if conditional else ""};')
    return "\n".join([*lines, "}"]) + "\n"


def _escape_id(node_id: str) -> str:
    """Return an id that does not collide with a keyword of Mermaid."""
    return f"{node_id}_" if node_id in _MERMAID_KEYWORDS else node_id


def _node_category(node: ResourceNode) -> str:
    return "external" if node.external else "collection" if node.for_each else "single"


def _label_lines(node: ResourceNode) -> Iterator[str]:
    yield node.id
    yield node.group_kind.kind
    if node.for_each:
        yield "for each " + ", ".join(dimension.iterator for dimension in node.for_each)


def _edges(definition: Definition) -> Iterator[tuple[str, str, bool]]:
    """Yield each dependency and dependent, and whether only `includeWhen` of the dependent reads the dependency."""
    for node in definition.nodes:
        names = node.template.names.union(*(dimension.program.names for dimension in node.for_each))
        for parent in node.depends_on:
            yield parent, node.id, parent not in names
