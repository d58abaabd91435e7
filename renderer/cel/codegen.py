"""Fast evaluation: translation of an expression's tree to Python source.

The source evaluates strictly from left to right, and its exceptions explain nothing. If the source raises an exception,
the caller must run the exact evaluator. The source contains no text of the expression. The translation writes literals
by `repr` or passes literals as constants, and numbers the variables of macros.

    schema.spec.name + "-db"        add(v['schema']['spec']['name'], '-db', m)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from renderer.cel import comprehensions, containers, operators
from renderer.cel.containers import NUMBERS
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

MAX_DEPTH: Final = 60
"""Maximum depth of a tree that this module compiles.

The exact evaluator evaluates deeper trees, because Python does not compile source with about 200 open parentheses.
"""

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
_LITERAL_TYPES: Final = frozenset((str, int, float, bool, bytes, type(None)))
"""Types of literals that the source contains as the result of `repr`."""
_EXACT_DOUBLES: Final = 2**53
"""Limit of the integers that all have their own double."""
_BOOLEAN_OPERATORS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
_SELECTING_MACROS: Final = frozenset(("all", "exists", "exists_one", "filter"))
Scope = Mapping[str, str]
"""For each variable of an enclosing macro, by name: the name of the variable in the generated source."""


class CodeBuilder:
    """Source and constants of one generated function."""

    def __init__(self) -> None:
        self._constants: dict[str, Any] = {}
        self._numbers = count()

    def emit_expression(self, tree: SyntaxNode) -> str:
        """Return Python source for `tree`. The source refers to the variables as `v` and to the meter as `m`."""
        return _Emitter(self).emit(tree, {})

    def add_constant(self, value: Any) -> str:
        """Add `value` to the constants of the function, and return its name in the source."""
        name = f"c{next(self._numbers)}"
        self._constants[name] = value
        return name

    def new_name(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def compile_function(self, body: str) -> Callable[..., Any]:
        """Compile the function `f(v, m)` with `body`, and return the function.

        Args:
            body: One statement per line, each indented by one space.
        """
        names = {**_RUNTIME, **self._constants}
        exec(compile(f"def f(v, m):\n{body}\n", "<expression>", "exec"), names)
        function: Callable[..., Any] = names["f"]
        return function


def is_boolean(node: SyntaxNode) -> bool:
    """Return whether `node` can yield nothing but a bool."""
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
    """Translator of one tree to source. The translator adds the constants of the tree to a `CodeBuilder`."""

    def __init__(self, source: CodeBuilder) -> None:
        self._source = source

    def emit(self, node: SyntaxNode, scope: Scope) -> str:
        """Return the source of `node`, in a form that can be an operand of any other expression."""
        return _RULES[type(node)](self, node, scope)

    def _condition(self, node: SyntaxNode, scope: Scope) -> str:
        source = self.emit(node, scope)
        return source if is_boolean(node) else f"truth({source})"

    def literal(self, node: Literal, scope: Scope) -> str:
        value = node.value
        if type(value) in _LITERAL_TYPES:
            return f"({value!r})" if type(value) in (int, float) and value < 0 else repr(value)
        return self._source.add_constant(value)

    def variable(self, node: Variable, scope: Scope) -> str:
        return (not node.rooted and scope.get(node.name)) or f"v[{node.name!r}]"

    def select(self, node: Select, scope: Scope) -> str:
        operand = self.emit(node.operand, scope)
        if node.optional:
            return f"optional_field({operand}, {node.field!r})"
        return f"{operand}[{node.field!r}]" if _is_subscriptable(node.operand) else f"field({operand}, {node.field!r})"

    def has(self, node: Has, scope: Scope) -> str:
        return f"has({self.emit(node.operand, scope)}, {node.field!r})"

    def index(self, node: Index, scope: Scope) -> str:
        operand = self.emit(node.operand, scope)
        match node.key:
            # If a string indexes a list or string, Python raises an exception, so the exact evaluator reports every
            # misuse.
            case Literal(value=str() as key) if not node.optional and _is_subscriptable(node.operand):
                return f"{operand}[{key!r}]"
        return f"{'optional_at' if node.optional else 'at'}({operand}, {self.emit(node.key, scope)})"

    def unary(self, node: Unary, scope: Scope) -> str:
        return f"{'negate' if node.operator == '-' else 'invert'}({self.emit(node.operand, scope)})"

    def binary(self, node: Binary, scope: Scope) -> str:
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

    def logic(self, node: Logic, scope: Scope) -> str:
        joiner = " and " if node.operator == "&&" else " or "
        return f"({joiner.join(self._condition(operand, scope) for operand in node.operands)})"

    def conditional(self, node: Conditional, scope: Scope) -> str:
        test = self._condition(node.condition, scope)
        return f"({self.emit(node.then, scope)} if {test} else {self.emit(node.otherwise, scope)})"

    def list_literal(self, node: ListLiteral, scope: Scope) -> str:
        return f"[{', '.join(self._element(element, optional, scope) for element, optional in node.elements)}]"

    def _element(self, node: SyntaxNode, optional: bool, scope: Scope) -> str:
        return f"*present({self.emit(node, scope)})" if optional else self.emit(node, scope)

    def map_literal(self, node: MapLiteral, scope: Scope) -> str:
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

    def call(self, node: FunctionCall, scope: Scope) -> str:
        operands = [self.emit(operand, scope) for operand in node.operands]
        match node:
            # Only texts have these methods in Python and in CEL, so a target of another type raises an exception. The
            # methods read no more characters than the literal has, so the call costs no units.
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

    def macro(self, node: Macro, scope: Scope) -> str:
        names = {variable: self._source.new_name("i") for variable in node.variables}
        inner = {**scope, **names}
        target = self.emit(node.target, scope)
        value = self.emit(node.bodies[-1], inner)
        first = next(iter(names.values()))
        match node.name:
            case "sortBy":
                return f"sorted_by({target}, m, {weight(node)}, lambda {first}: {value})"
            case "optMap":
                return f"optional_map({target}, lambda {first}: {value})"
            case "optFlatMap":
                return f"optional_flat_map({target}, lambda {first}: {value})"
            case "cel.bind":
                return f"(lambda {first}: {value})({target})"
        variables = ", ".join(names.values())
        loop = f"for {variables} in {'pairs' if len(names) == 2 else 'items'}({target}, m, {weight(node)})"
        name = node.name.removesuffix("2")
        if name in _SELECTING_MACROS:
            return self._selection(name, first, self._condition(node.bodies[0], inner), loop)
        if len(node.bodies) == 2:
            loop = f"{loop} if {self._condition(node.bodies[0], inner)}"
        return self._transformation(name, first, value, loop)

    def _selection(self, name: str, variable: str, condition: str, loop: str) -> str:
        match name:
            case "all":
                return f"all({condition} {loop})"
            case "exists":
                return f"any({condition} {loop})"
            case "exists_one":
                return f"exactly_one([{condition} {loop}])"
        return f"[{variable} {loop} if {condition}]"

    def _transformation(self, name: str, key: str, value: str, loop: str) -> str:
        match name:
            case "map" | "transformList":
                return f"[{value} {loop}]"
            case "transformMap":
                return f"make_map([({key}, {value}) {loop}])"
        entry = self._source.new_name("i")
        return f"make_map([{entry} {loop} for {entry} in entries({value})])"


_RULES: Final[dict[type[SyntaxNode], Callable[[_Emitter, Any, Scope], str]]] = {
    Literal: _Emitter.literal,
    Variable: _Emitter.variable,
    Select: _Emitter.select,
    Has: _Emitter.has,
    Index: _Emitter.index,
    Unary: _Emitter.unary,
    Binary: _Emitter.binary,
    Logic: _Emitter.logic,
    Conditional: _Emitter.conditional,
    ListLiteral: _Emitter.list_literal,
    MapLiteral: _Emitter.map_literal,
    FunctionCall: _Emitter.call,
    Macro: _Emitter.macro,
}


def weight(macro: Macro) -> int:
    """Return the units that one round of `macro` costs, which is the number of nodes in its bodies.

    A macro inside a body pays for its rounds separately.
    """
    return sum(1 for body in macro.bodies for _ in walk(body))


def _addition_operands(node: SyntaxNode) -> list[SyntaxNode]:
    """Return the operands of the chain of `+` that ends at `node`, from left to right."""
    parts: list[SyntaxNode] = []
    while isinstance(node, Binary) and node.operator == "+":
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _is_subscriptable(node: SyntaxNode) -> bool:
    """Return whether Python compiles `x[...]` with `node` as `x` without a warning about a literal."""
    return isinstance(node, Variable | Select | Index | FunctionCall)


def _is_natively_comparable(node: SyntaxNode) -> bool:
    """Return whether Python's `==` with `node` as an operand returns the same answer as CEL's.

    For a text, or a number that equals no bool, the answer is the same. The number must be so small that its conversion
    to a double is exact, because CEL compares an integer and a double as doubles.
    """
    match node:
        case Literal(value=value):
            return type(value) is str or (
                type(value) in NUMBERS and value not in (0, 1) and abs(value) < _EXACT_DOUBLES
            )
    return False
