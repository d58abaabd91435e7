"""The syntax tree of an expression.

Every node knows its place in the text (`at`, `end`: offsets) and its height (`depth`), which the parser bounds, so
that everything that walks a tree may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    at: int
    end: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A variable: of the caller, or of an enclosing macro; `.name`, which is `rooted`, only of the caller."""

    name: str
    rooted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """`operand.field`, or `operand.?field`."""

    operand: Node
    field: str
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Has(Node):
    """`has(operand.field)`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    operator: str
    operand: Node


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Node):
    """A chain of one of `&&` and `||`; two operands or more."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral(Node):
    """Elements, each with whether it is optional (`[?e]`)."""

    elements: tuple[tuple[Node, bool], ...]


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral(Node):
    """Key, value, and whether the entry is optional (`{?k: v}`)."""

    entries: tuple[tuple[Node, Node, bool], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A function by its full name (`json.marshal`), or a method of `target`."""

    function: str
    target: Node | None
    arguments: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.arguments if self.target is None else (self.target, *self.arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Macro(Node):
    """A macro over `target`; its `variables` are in scope in its `bodies` only."""

    name: str
    target: Node
    variables: tuple[str, ...]
    bodies: tuple[Node, ...]


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, in the order of the text."""
    match node:
        case Select(operand=operand) | Has(operand=operand) | Unary(operand=operand):
            yield operand
        case Index(operand=operand, key=key):
            yield operand
            yield key
        case Binary(left=left, right=right):
            yield left
            yield right
        case Logic(operands=operands):
            yield from operands
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            yield condition
            yield then
            yield otherwise
        case ListLiteral(elements=elements):
            yield from (element for element, _ in elements)
        case MapLiteral(entries=entries):
            for key, value, _ in entries:
                yield key
                yield value
        case Call():
            yield from node.operands
        case Macro(target=target, bodies=bodies):
            yield target
            yield from bodies
        case _:
            return


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, in the order of the text."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(tuple(children(current))))


def with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each node directly below it changed; the node itself where that changes nothing."""
    made = {field.name: _changed(getattr(node, field.name), change) for field in fields(node)}
    same = all(made[field.name] is getattr(node, field.name) for field in fields(node))
    return node if same else replace(node, **made)


def _changed(part: Any, change: Callable[[Node], Node]) -> Any:
    """Nodes stand in fields, or in tuples, or in tuples of tuples."""
    if isinstance(part, Node):
        return change(part)
    if not isinstance(part, tuple):
        return part
    made = tuple(_changed(one, change) for one in part)
    return part if all(new is old for new, old in zip(made, part, strict=True)) else made
