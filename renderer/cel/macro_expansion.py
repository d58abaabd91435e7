"""Expansion of macros, and of calls with a namespace, in the syntax tree.

The macros are those of CEL core, of cel-go (two-variable comprehensions, bindings, optional types, `sortBy`), and of
kro (`runtime.newCondition`). The parser recognises a macro by its name, by the presence of a target, and by its number
of arguments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from renderer.cel.errors import EvaluationError
from renderer.cel.functions import CONDITION_FIELDS
from renderer.cel.syntax_tree import Has, ListLiteral, Literal, Macro, MapLiteral, Select, SyntaxNode, Variable
from renderer.cel.values import TypeValue
from renderer.frozen import dataclass

MAX_TREE_DEPTH: Final = 250


def nest(start: int, end: int, *children: SyntaxNode) -> tuple[int, int, int]:
    """Return `start`, `end` and the depth of a node above `children`.

    Raises: EvaluationError if the depth exceeds MAX_TREE_DEPTH.
    """
    depth = 1 + max((node.depth for node in children), default=0)
    if depth > MAX_TREE_DEPTH:
        raise EvaluationError(
            f"the expression is nested deeper than {MAX_TREE_DEPTH} levels; use fewer levels", offset=start
        )
    return start, end, depth


def qualified_name(node: SyntaxNode | None) -> str | None:
    """Return a name such as `a.b` if `node` is a chain of plain selections, or None for any other node."""
    parts = []
    while isinstance(node, Select) and not node.optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Variable):
        return None
    return ".".join((node.name, *reversed(parts)))


def expand_namespaced_macro(name: str, start: int, end: int, arguments: list[SyntaxNode]) -> SyntaxNode | None:
    """Return the tree of a call of `cel.bind` or `cel.block`, or of a slot name inside `cel.block`.

    For any other call, return None. The optimizers of cel-go and cel-java write `cel.block` and the names of its slots.
    """
    match name, arguments:
        case "bind", _:
            return expand_bind(start, end, arguments)
        case "block", [ListLiteral(elements=slots), body]:
            for index, (slot, _) in reversed(list(enumerate(slots))):
                body = Macro(*nest(start, end, slot, body), "cel.bind", slot, (f"@index{index}",), (body,))
            return body
        case "index", [Literal(value=int() as index)]:
            return Variable(*nest(start, end), f"@index{index}")
        case (("iterVar" | "accuVar"), [Literal(value=int() as depth), Literal(value=int() as index)]):
            return Variable(*nest(start, end), f"@{name}:{depth}:{index}")
    return None


def expand_bind(start: int, end: int, arguments: list[SyntaxNode]) -> SyntaxNode:
    """Return the tree of `cel.bind(variable, value, body)`. Raises: EvaluationError for other arguments."""
    if len(arguments) != 3:
        raise EvaluationError("cel.bind() takes a variable, its value, and an expression", offset=start)
    name, value, body = arguments
    return Macro(*nest(start, end, value, body), "cel.bind", value, (variable_name("cel.bind", name),), (body,))


def expand_has(start: int, end: int, arguments: list[SyntaxNode]) -> SyntaxNode:
    """Return the tree of `has(a.b)`. Raises: EvaluationError if the argument does not select a field."""
    match arguments:
        case [Select(operand=operand, field=field, optional=False)]:
            return Has(*nest(start, end, operand), operand, field)
    raise EvaluationError(
        "has() takes a field selection, as in has(a.b); for keys in brackets use 'key' in a", offset=start
    )


def variable_name(macro: str, node: SyntaxNode) -> str:
    """Return the name of a macro's variable. Raises: EvaluationError if `node` is not a variable."""
    if isinstance(node, Variable):
        return node.name
    raise EvaluationError(f"the first argument of {macro}() must be a variable name", offset=node.at)


def expand_condition(node: SyntaxNode) -> SyntaxNode:
    """Return the argument of `runtime.newCondition` as an ordinary map. The keys of the argument have no quotes.

    Raises: EvaluationError for missing, repeated or unknown keys.
    """
    if not isinstance(node, MapLiteral):
        raise EvaluationError(
            "runtime.newCondition() takes a map {type: ..., status: ..., reason: ..., message: ...}", offset=node.at
        )
    entries = tuple((_condition_key(key), value, optional) for key, value, optional in node.entries)
    names = [key.value for key, _, _ in entries]
    if missing := [name for name in ("type", "status") if name not in names]:
        keys = " and ".join(missing)
        raise EvaluationError(f"runtime.newCondition() lacks {keys}; add {keys}", offset=node.at)
    if len(set(names)) < len(names):
        raise EvaluationError("runtime.newCondition(): two keys are equal; keep one", offset=node.at)
    return replace(node, entries=entries)


def _condition_key(node: SyntaxNode) -> Literal:
    name = node.value.name if isinstance(node, Literal) and isinstance(node.value, TypeValue) else None
    name = node.name if isinstance(node, Variable) else name
    if name not in CONDITION_FIELDS:
        raise EvaluationError(
            f"runtime.newCondition(): the keys are {', '.join(CONDITION_FIELDS)}, without quotes", offset=node.at
        )
    return Literal(node.at, node.end, node.depth, name)


def as_list(arguments: list[SyntaxNode]) -> tuple[SyntaxNode]:
    """Combine the arguments of a variadic function into one list literal, the only operand of the function."""
    position = nest(arguments[0].at, arguments[-1].end, *arguments)
    return (ListLiteral(*position, tuple((node, False) for node in arguments)),)


@dataclass(frozen=True, slots=True)
class MacroForm:
    """The form of a macro's arguments: names of variables, followed by bodies."""

    name: str
    """Name of the macro in the tree.

    All spellings of a macro have one name. Names of forms with two variables end in `2`.
    """
    variables: int
    """Number of arguments that are names of variables."""


_ONE_VARIABLE: Final = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "existsOne": (2,),
    "map": (2, 3),
    "filter": (2,),
    "sortBy": (2,),
    "optMap": (2,),
    "optFlatMap": (2,),
}
_TWO_VARIABLES: Final = {
    "all": (3,),
    "exists": (3,),
    "exists_one": (3,),
    "existsOne": (3,),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}


METHODS: Final = {
    (name, count): MacroForm(("exists_one" if name == "existsOne" else name) + suffix, variables)
    for variables, suffix, counts_by_name in ((1, "", _ONE_VARIABLE), (2, "2", _TWO_VARIABLES))
    for name, counts in counts_by_name.items()
    for count in counts
}
"""The form of each macro with a target, by name and number of arguments."""

NAMES: Final = frozenset(name for name, _ in METHODS) | {"has", "cel.bind"}
