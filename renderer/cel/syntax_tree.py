"""The syntax tree of an expression.

The parser limits the height of every node, so any function over a tree may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, Final

from renderer.frozen import dataclass

_MAX_QUOTE_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class SyntaxNode:
    """Base of all nodes."""

    at: int
    """Offset in characters of the node's start in the text."""
    end: int
    """Offset in characters of the node's end in the text."""
    depth: int
    """Height of the tree below the node."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal(SyntaxNode):
    """A constant of any type that has literals in CEL."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Variable(SyntaxNode):
    """A variable of the caller or of an enclosing macro."""

    name: str
    rooted: bool = False
    """True for `.name`, which is always a variable of the caller."""


@dataclass(frozen=True, slots=True, eq=False)
class Select(SyntaxNode):
    """The selection `operand.field` or `operand.?field`."""

    operand: SyntaxNode
    field: str
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Has(SyntaxNode):
    """The presence test `has(operand.field)`."""

    operand: SyntaxNode
    field: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(SyntaxNode):
    """The index operation `operand[key]` or `operand[?key]`."""

    operand: SyntaxNode
    key: SyntaxNode
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Unary(SyntaxNode):
    """An operator with one operand: `!` or `-`."""

    operator: str
    operand: SyntaxNode


@dataclass(frozen=True, slots=True, eq=False)
class Binary(SyntaxNode):
    """An operator with two operands."""

    operator: str
    left: SyntaxNode
    right: SyntaxNode


@dataclass(frozen=True, slots=True, eq=False)
class Logic(SyntaxNode):
    """A chain of `&&` or of `||` with at least two operands."""

    operator: str
    operands: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(SyntaxNode):
    """The choice `condition ? then : otherwise`."""

    condition: SyntaxNode
    then: SyntaxNode
    otherwise: SyntaxNode


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral(SyntaxNode):
    """A list of pairs: an element, and whether the element is optional (`[?e]`)."""

    elements: tuple[tuple[SyntaxNode, bool], ...]


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral(SyntaxNode):
    """A map of entries: key, value, and whether the entry is optional (`{?k: v}`)."""

    entries: tuple[tuple[SyntaxNode, SyntaxNode, bool], ...]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall(SyntaxNode):
    """A call of a function by its full name (`json.marshal`), or of a method of `target`."""

    function: str
    target: SyntaxNode | None
    arguments: tuple[SyntaxNode, ...]

    @property
    def operands(self) -> tuple[SyntaxNode, ...]:
        return self.arguments if self.target is None else (self.target, *self.arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Macro(SyntaxNode):
    """A macro over `target`."""

    name: str
    target: SyntaxNode
    variables: tuple[str, ...]
    """Names of the macro's variables, which are in scope only in `bodies`."""
    bodies: tuple[SyntaxNode, ...]


def children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """Return the nodes directly below `node`, in the order of the expression."""
    match node:
        case Select(operand=operand) | Has(operand=operand) | Unary(operand=operand):
            return (operand,)
        case Index(operand=operand, key=key):
            return operand, key
        case Binary(left=left, right=right):
            return left, right
        case Logic(operands=operands):
            return operands
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case ListLiteral(elements=elements):
            return tuple(element for element, _ in elements)
        case MapLiteral(entries=entries):
            return tuple(part for key, value, _ in entries for part in (key, value))
        case FunctionCall():
            return node.operands
        case Macro(target=target, bodies=bodies):
            return target, *bodies
    return ()


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield `node` and all nodes below it, in the order of the expression."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children(current)))


def with_children(node: SyntaxNode, change: Callable[[SyntaxNode], SyntaxNode]) -> SyntaxNode:
    """Return `node` with `change` applied to each direct child, or `node` itself if no child changes."""
    changed_fields = {field.name: _change_part(getattr(node, field.name), change) for field in fields(node)}
    is_unchanged = all(changed_fields[field.name] is getattr(node, field.name) for field in fields(node))
    return node if is_unchanged else replace(node, **changed_fields)


def _change_part(part: Any, change: Callable[[SyntaxNode], SyntaxNode]) -> Any:
    """Return `part` with `change` applied to each node in `part`.

    Args:
        part: A node, a tuple of nodes, or a tuple of tuples.
    """
    if isinstance(part, SyntaxNode):
        return change(part)
    if not isinstance(part, tuple):
        return part
    changed_items = tuple(_change_part(item, change) for item in part)
    return part if all(new is old for new, old in zip(changed_items, part, strict=True)) else changed_items


def quote_source(text: str, node: SyntaxNode) -> str:
    """Return the source of `node` in the expression `text`, on one line and shortened."""
    return shorten(" ".join(text[node.at : node.end].split()))


def shorten(text: str) -> str:
    """Return `text`, shortened if necessary to fit into a message."""
    return text if len(text) <= _MAX_QUOTE_CHARACTERS else f"{text[: _MAX_QUOTE_CHARACTERS - 3]}..."
