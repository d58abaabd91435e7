"""From tree to Python source: the fast evaluation.

The source evaluates strictly from left to right and does not explain: whatever it raises only means that the exact
evaluator must run. Nothing of the expression's text gets into it: values are written by `repr` or passed as
constants, variables of macros are numbered.

    schema.spec.name + "-db"        add(v['schema']['spec']['name'], '-db', m)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from renderer.cel import comprehensions, containers, operators
from renderer.cel.functions import FUNCTIONS, LAZY
from renderer.cel.syntax_tree import (
    Binary,
    Conditional,
    FunctionCall,
    Has,
    Index,
    ListLiteral,
    Literal,
    Logic,
    Macro,
    MapLiteral,
    Select,
    SyntaxNode,
    Unary,
    Variable,
    walk,
)
from renderer.cel.values import UInt

MAX_DEPTH: Final = 60
"""Deeper trees are left to the exact evaluator: Python refuses source with some 200 open parentheses."""

_BINARY: Final = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "in": "contains",
}
_RUNTIME: Final[dict[str, Any]] = {
    "field": containers.get_field,
    "optional_field": containers.get_optional_field,
    "has": containers.has_field,
    "at": containers.get_item,
    "optional_at": containers.get_optional_item,
    "truth": operators.require_bool,
    "negate": operators.negate,
    "invert": operators.invert,
    "concatenate": operators.concatenate,
    "make_map": containers.make_map,
    "present": containers.present_values,
    "items": comprehensions.items,
    "pairs": comprehensions.pairs,
    "entries": comprehensions.entries,
    "exactly_one": comprehensions.is_exactly_one,
    "optional_map": comprehensions.optional_map,
    "optional_flat_map": comprehensions.optional_flat_map,
    "value_or": comprehensions.value_or,
    "optional_or": comprehensions.optional_or,
    "sorted_by": comprehensions.sort_by,
    **{name: operators.BINARY[operator][0] for operator, name in _BINARY.items()},
    "all": all,
    "any": any,
    "enumerate": enumerate,
    "__builtins__": {},
}
_LITERAL_TYPES: Final = frozenset((str, int, bool, bytes, type(None)))
"""Below, a double holds every integer."""
_BOOLEAN_OPERATORS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
Scope = Mapping[str, str]


class CodeBuilder:
    """Collects the constants of the expressions that go into one function, and compiles it."""

    def __init__(self) -> None:
        self._constants: dict[str, Any] = {}
        self._numbers = count()

    def emit_expression(self, tree: SyntaxNode) -> str:
        """Python source for a tree; `v` are the variables, `m` the meter."""
        return _Emitter(self).emit(tree, {})

    def add_constant(self, value: Any) -> str:
        """The name under which the source finds a value."""
        name = f"c{next(self._numbers)}"
        self._constants[name] = value
        return name

    def new_name(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def compile_function(self, body: str) -> Callable[..., Any]:
        """Compile `def f(v, m)` with this body, one statement a line, each indented by one blank."""
        names = {**_RUNTIME, **self._constants}
        exec(compile(f"def f(v, m):\n{body}\n", "<expression>", "exec"), names)
        function: Callable[..., Any] = names["f"]
        return function


def is_boolean(node: SyntaxNode) -> bool:
    """Whether a node can give nothing but a bool."""
    match node:
        case Literal(value=value):
            return type(value) is bool
        case Binary(operator=operator):
            return operator in _BOOLEAN_OPERATORS
        case Logic() | Has() | Unary(operator="!"):
            return True
        case Macro(name=name):
            return name.removesuffix("2") in ("all", "exists", "exists_one")
        case Conditional(then=then, otherwise=otherwise):
            return is_boolean(then) and is_boolean(otherwise)
        case FunctionCall(function=function, target=target):
            return FUNCTIONS[function, target is not None].returns_bool
    return False


class _Emitter:
    def __init__(self, source: CodeBuilder) -> None:
        self._source = source

    def emit(self, node: SyntaxNode, scope: Scope) -> str:
        """Source of an expression that is closed: it can stand anywhere an operand can."""
        match node:
            case Literal(value=value):
                return self._literal(value)
            case Variable(name=name, rooted=rooted):
                return (not rooted and scope.get(name)) or f"v[{name!r}]"
            case Select():
                return self._select(node, scope)
            case Has(operand=operand, field=field):
                return f"has({self.emit(operand, scope)}, {field!r})"
            case Index():
                return self._index(node, scope)
            case Unary(operator=operator, operand=operand):
                return f"{'negate' if operator == '-' else 'invert'}({self.emit(operand, scope)})"
            case Binary():
                return self._binary(node, scope)
            case Logic(operator=operator, operands=operands):
                joiner = " and " if operator == "&&" else " or "
                return f"({joiner.join(self._condition(operand, scope) for operand in operands)})"
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                test = self._condition(condition, scope)
                return f"({self.emit(then, scope)} if {test} else {self.emit(otherwise, scope)})"
            case ListLiteral(elements=elements):
                return f"[{', '.join(self._element(element, optional, scope) for element, optional in elements)}]"
            case MapLiteral():
                return self._map(node, scope)
            case FunctionCall():
                return self._call(node, scope)
            case Macro():
                return self._macro(node, scope)
        raise TypeError(type(node))

    def _condition(self, node: SyntaxNode, scope: Scope) -> str:
        source = self.emit(node, scope)
        return source if is_boolean(node) else f"truth({source})"

    def _literal(self, value: Any) -> str:
        if type(value) in _LITERAL_TYPES or (type(value) is float and math.isfinite(value)):
            return f"({value!r})" if type(value) in (int, float) and value < 0 else repr(value)
        return self._source.add_constant(value)

    def _select(self, node: Select, scope: Scope) -> str:
        operand = self.emit(node.operand, scope)
        if node.optional:
            return f"optional_field({operand}, {node.field!r})"
        return f"{operand}[{node.field!r}]" if _is_subscriptable(node.operand) else f"field({operand}, {node.field!r})"

    def _index(self, node: Index, scope: Scope) -> str:
        operand = self.emit(node.operand, scope)
        match node.key:
            # A string is no list's or string's index in Python either, so that every misuse raises.
            case Literal(value=str() as key) if not node.optional and _is_subscriptable(node.operand):
                return f"{operand}[{key!r}]"
        return f"{'optional_at' if node.optional else 'at'}({operand}, {self.emit(node.key, scope)})"

    def _binary(self, node: Binary, scope: Scope) -> str:
        parts = _addition_operands(node)
        if len(parts) > 2 and any(isinstance(part, Literal) and type(part.value) is str for part in parts):
            return f"concatenate({', '.join(['m', *(self.emit(part, scope) for part in parts)])})"
        left, right = self.emit(node.left, scope), self.emit(node.right, scope)
        operator = "==" if node.operator == "!=" else node.operator
        if operator == "==" and (_is_natively_comparable(node.left) or _is_natively_comparable(node.right)):
            return f"({left} {node.operator} {right})"
        metered = ", m" if operators.BINARY[operator][1] else ""
        call = f"{_BINARY[operator]}({left}, {right}{metered})"
        return f"(not {call})" if node.operator == "!=" else call

    def _element(self, node: SyntaxNode, optional: bool, scope: Scope) -> str:
        return f"*present({self.emit(node, scope)})" if optional else self.emit(node, scope)

    def _map(self, node: MapLiteral, scope: Scope) -> str:
        texts = [key.value for key, _, _ in node.entries if isinstance(key, Literal) and type(key.value) is str]
        if len(set(texts)) == len(node.entries) and not any(optional for _, _, optional in node.entries):
            entry_sources = (f"{self.emit(key, scope)}: {self.emit(value, scope)}" for key, value, _ in node.entries)
            return f"{{{', '.join(entry_sources)}}}"
        return f"make_map([{', '.join(self._entry(*entry, scope) for entry in node.entries)}])"

    def _entry(self, key: SyntaxNode, value: SyntaxNode, optional: bool, scope: Scope) -> str:
        name = self.emit(key, scope)
        if not optional:
            return f"({name}, {self.emit(value, scope)})"
        item_name = self._source.new_name("i")
        return f"*[({name}, {item_name}) for {item_name} in present({self.emit(value, scope)})]"

    def _call(self, node: FunctionCall, scope: Scope) -> str:
        operands = [self.emit(operand, scope) for operand in node.operands]
        match node:
            # Of all that CEL knows, only texts have these methods for a text. What they read is as short as the literal.
            case FunctionCall(
                function="startsWith" | "endsWith", target=SyntaxNode() as target, arguments=(Literal(value=str()),)
            ) if _is_subscriptable(target):
                return f"{operands[0]}.{node.function.lower()}({operands[1]})"
        if node.function in LAZY and node.target is not None:
            return (
                f"{'value_or' if node.function == 'orValue' else 'optional_or'}({operands[0]}, lambda: {operands[1]})"
            )
        function = FUNCTIONS[node.function, node.target is not None]
        entry = {1: function.unary, 2: function.binary}.get(len(operands), function)
        return f"{self._source.add_constant(entry)}({', '.join(['m', *operands])})"

    def _macro(self, node: Macro, scope: Scope) -> str:
        names = {variable: self._source.new_name("i") for variable in node.variables}
        inner = {**scope, **names}
        target = self.emit(node.target, scope)
        value = self.emit(node.bodies[-1], inner)
        variables = ", ".join(names.values())
        first = next(iter(names.values()))
        loop = f"for {variables} in {'pairs' if len(names) == 2 else 'items'}({target}, m, {weight(node)})"
        filtered_loop = f"{loop} if {self._condition(node.bodies[0], inner)}" if len(node.bodies) == 2 else loop
        match node.name.removesuffix("2"):
            case "all":
                return f"all({self._condition(node.bodies[0], inner)} {loop})"
            case "exists":
                return f"any({self._condition(node.bodies[0], inner)} {loop})"
            case "exists_one":
                return f"exactly_one([{self._condition(node.bodies[0], inner)} {loop}])"
            case "filter":
                return f"[{first} {loop} if {self._condition(node.bodies[0], inner)}]"
            case "map" | "transformList":
                return f"[{value} {filtered_loop}]"
            case "transformMap":
                return f"make_map([({first}, {value}) {filtered_loop}])"
            case "transformMapEntry":
                entry = self._source.new_name("i")
                return f"make_map([{entry} {filtered_loop} for {entry} in entries({value})])"
            case "sortBy":
                return f"sorted_by({target}, m, {weight(node)}, lambda {first}: {value})"
            case "optMap":
                return f"optional_map({target}, lambda {first}: {value})"
            case "optFlatMap":
                return f"optional_flat_map({target}, lambda {first}: {value})"
            case "cel.bind":
                return f"(lambda {first}: {value})({target})"
        raise TypeError(node.name)


def weight(macro: Macro) -> int:
    """Units that one round of a macro costs: the nodes of its bodies, inner loops apart, which pay for themselves."""
    return sum(1 for body in macro.bodies for _ in walk(body))


def _addition_operands(node: SyntaxNode) -> list[SyntaxNode]:
    """The operands of a chain of `+`."""
    parts: list[SyntaxNode] = []
    while isinstance(node, Binary) and node.operator == "+":
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _is_subscriptable(node: SyntaxNode) -> bool:
    """Whether `x[...]` in Python source draws no warning about a literal."""
    return isinstance(node, Variable | Select | Index | FunctionCall)


def _is_natively_comparable(node: SyntaxNode) -> bool:
    """Whether `==` with this operand means the same in Python: texts, and small numbers that no bool equals."""
    match node:
        case Literal(value=value):
            return type(value) is str or (
                type(value) in (int, float, UInt) and value not in (0, 1) and math.isfinite(value)
            )
    return False
