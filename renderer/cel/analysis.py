"""Facts about an expression without evaluation: variables, paths read, functions called, loop invariants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from renderer.cel.errors import EvaluationError, Path
from renderer.cel.functions import FUNCTIONS, find_function
from renderer.cel.macro_expansion import METHODS, NAMES
from renderer.cel.syntax_tree import (
    FunctionCall,
    Has,
    Index,
    Literal,
    Macro,
    Select,
    SyntaxNode,
    Variable,
    children,
    walk,
    with_children,
)
from renderer.frozen import dataclass
from renderer.phrasing import suggestion


@dataclass(frozen=True, slots=True)
class ExpressionFacts:
    """The names, paths and calls in one expression, and its first certain mistake."""

    names: frozenset[str]
    reads: tuple[Path, ...]
    """The longest chains of fields and constant indexes that start at a variable, sorted."""
    optional_reads: frozenset[Path]
    """The paths of `reads` that occur only with `.?`, `[?..]` or `has`. Data may be missing at these paths."""
    calls: frozenset[str]
    mistake: EvaluationError | None
    """The error of the first call that names an unknown function or passes a wrong number of arguments."""


def analyse(tree: SyntaxNode) -> ExpressionFacts:
    """Return the facts about the expression `tree`."""
    calls = [node for node in walk(tree) if isinstance(node, FunctionCall)]
    reads = set(_reads(tree, frozenset()))
    certain = {path for path, optional in reads if not optional}
    return ExpressionFacts(
        names=frozenset(path[0] for path, _ in reads),
        reads=tuple(sorted({path for path, _ in reads})),
        optional_reads=frozenset(path for path, _ in reads) - certain,
        calls=frozenset(call.function for call in calls),
        mistake=next(filter(None, map(find_call_mistake, calls)), None),
    )


def find_call_mistake(call: FunctionCall) -> EvaluationError | None:
    """Return the mistake in the name or in the number of arguments of `call`, or None if both are valid."""
    method = call.target is not None
    function = find_function(call.function, method=method)
    if function is None:
        return EvaluationError(
            f"unknown {'method' if method else 'function'} {call.function}(){_suggest(call.function, method)}",
            offset=call.at,
        )
    if len(call.operands) not in function.arities:
        given_count = len(call.arguments)
        expected = " or ".join(str(count - method) for count in sorted(function.arities))
        noun = "argument" if expected == "1" else "arguments"
        return EvaluationError(f"{call.function}() takes {expected} {noun}, not {given_count}", offset=call.at)
    return None


def _suggest(name: str, method: bool) -> str:
    if find_function(name, method=not method):
        return f"; write {name}(x)" if method else f"; write x.{name}(...)"
    if name in NAMES:
        argument_counts = sorted(count for macro, count in METHODS if macro == name)
        return (
            f"; the macro takes {' or '.join(map(str, argument_counts))} arguments, on a list or map"
            if argument_counts
            else ""
        )
    candidates = {function_name for function_name, is_method in FUNCTIONS if is_method is method} | {
        macro for macro, _ in METHODS if method
    }
    return suggestion(name, candidates)


def _reads(node: SyntaxNode, bound: frozenset[str]) -> Iterator[tuple[Path, bool]]:
    """Yield a pair for each path that starts at a variable in `node`: the path, and whether the path is optional.

    Args:
        bound: Variables of enclosing macros. The function leaves out paths that start at these variables.
    """
    path, optional, dynamic = _chain(node)
    if path:
        if path[0] not in bound or _is_rooted(node):
            yield path, optional
        for key in dynamic:
            yield from _reads(key, bound)
        return
    if isinstance(node, Macro):
        yield from _reads(node.target, bound)
        for body in node.bodies:
            yield from _reads(body, bound | set(node.variables))
        return
    for child in children(node):
        yield from _reads(child, bound)


def _is_rooted(node: SyntaxNode) -> bool:
    while isinstance(node, Select | Has | Index):
        node = node.operand
    return isinstance(node, Variable) and node.rooted


def _chain(node: SyntaxNode) -> tuple[Path, bool, list[SyntaxNode]]:
    """Return the static path of `node`, whether the path is optional, and the computed indexes in `node`.

    The path ends before the first computed index.
    """
    match node:
        case Variable(name=name):
            return (name,), False, []
        case Select(operand=operand, field=field):
            return _extend_chain(operand, field, node.optional, None)
        case Has(operand=operand, field=field):
            return _extend_chain(operand, field, True, None)
        case Index(operand=operand, key=Literal(value=str() as key)):
            return _extend_chain(operand, key, node.optional, None)
        case Index(operand=operand, key=Literal(value=int() as key)):
            return _extend_chain(operand, f"[{key}]", node.optional, None)
        case Index(operand=operand, key=key):
            return _extend_chain(operand, None, node.optional, key)
    return (), False, []


def _extend_chain(
    operand: SyntaxNode, step: str | None, optional: bool, dynamic: SyntaxNode | None
) -> tuple[Path, bool, list[SyntaxNode]]:
    path, was_optional, keys = _chain(operand)
    if dynamic is not None:
        return path, was_optional or optional, [*keys, dynamic]
    if path and step is not None and not keys:
        path = (*path, step)
    return path, was_optional or optional, keys


def hoist(tree: SyntaxNode, fixed: frozenset[str], costly: str) -> tuple[SyntaxNode, Mapping[str, SyntaxNode]]:
    """Return `tree` with its largest fixed parts replaced by new variables, and the replaced parts by variable name.

    A part is fixed if the part reads the variable `costly` and otherwise only variables in `fixed`. The names of new
    variables start with `@`, so no expression of an author can contain a new variable.
    """
    parts: dict[str, SyntaxNode] = {}

    def reduced(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode:
        names = analyse(node).names
        if not isinstance(node, Variable) and costly in names and names <= (fixed | {costly}) - bound:
            name = f"@fixed{len(parts)}"
            parts[name] = node
            return Variable(node.at, node.end, node.depth, name)
        inner = bound | set(node.variables) if isinstance(node, Macro) else bound
        return with_children(node, lambda child: reduced(child, inner))

    return reduced(tree, frozenset()), parts
