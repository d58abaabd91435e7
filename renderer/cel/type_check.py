"""Type check of an expression before data exists.

The check reports only expressions that fail for all data. Such an expression reads a field that is not in the schema,
or passes operands of types that the operator or function does not accept. An unknown type is `DYN` and causes no
mistake. Literals, operators and functions have the same types as in an evaluation. Functions declare their types in
`functions.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from renderer.cel.analysis import find_call_mistake
from renderer.cel.functions import FUNCTIONS
from renderer.cel.program import Program, parse_program
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
    quote_source,
)
from renderer.cel.types import (
    BOOL,
    DYN,
    INT,
    NUMBERS,
    STRING,
    Dyn,
    Record,
    Scalar,
    StaticList,
    StaticMap,
    StaticOptional,
    Type,
    element_of,
    join_types,
)
from renderer.cel.values import Optional, python_types, type_name
from renderer.errors import ExpressionError
from renderer.frozen import dataclass
from renderer.phrasing import suggestion

_RETURNS_SAME_LIST: Final = frozenset(("sort", "distinct", "reverse", "slice"))


def accepts(accepted: tuple[frozenset[type] | None, ...], operands: list[Type]) -> bool:
    """Return whether values of the types `operands` may have the types `accepted`, where None accepts every type."""
    return len(accepted) == len(operands) and all(
        types is None or isinstance(kind, Dyn) or not types.isdisjoint(_python_types_of(kind))
        for types, kind in zip(accepted, operands, strict=True)
    )


def _python_types_of(kind: Type) -> frozenset[type]:
    if isinstance(kind, StaticOptional):
        return frozenset((Optional,))
    return frozenset(python_types(str(kind)))


def result_of(function: str, operands: list[Type], results: set[str]) -> Type:
    """Return the type of a call's value.

    If possible, the types of the operands decide. Otherwise `results` decide. If the types in `results` differ, return
    `DYN`.

    Args:
        results: The result types of the matching signatures.
    """
    if (refined := _result_of_operands(function, operands)) is not None:
        return refined
    if len(results) > 1:
        return DYN
    match results.pop():
        case "dyn" | "omit" | "map":
            return DYN
        case "list":
            return StaticList(DYN)
        case "optional" | "optional_type":
            return StaticOptional(DYN)
        case name:
            return Scalar(name)


def _result_of_operands(function: str, operands: list[Type]) -> Type | None:
    """Return the type of a call if its operands determine the type more exactly than its signature, or else None."""
    first = operands[0] if operands else DYN
    match function, first:
        case "optional.of", _:
            return StaticOptional(first)
        case _, StaticList() if function in _RETURNS_SAME_LIST:
            return first
        case (("first" | "last"), StaticList(element=element)):
            return StaticOptional(element)
        case (("min" | "max"), StaticList(element=element)):
            return element
        case "value", StaticOptional(value=value):
            return value
        case "orValue", StaticOptional(value=value):
            return join_types((value, operands[1]))
        case "or", StaticOptional():
            return join_types((first, operands[1]))
    return None


Scope = Mapping[str, Type]

_ARITHMETIC: Final = {
    "+": frozenset(("int", "uint", "double", "string", "bytes", "duration")),
    "-": frozenset(("int", "uint", "double", "duration")),
    "*": frozenset(("int", "uint", "double")),
    "/": frozenset(("int", "uint", "double")),
    "%": frozenset(("int", "uint")),
}
_TIME_ARITHMETIC: Final = {
    ("timestamp", "+", "duration"): "timestamp",
    ("duration", "+", "timestamp"): "timestamp",
    ("timestamp", "-", "duration"): "timestamp",
    ("timestamp", "-", "timestamp"): "duration",
}
_ORDERED_TYPES: Final = frozenset(("string", "bool", "bytes", "timestamp", "duration"))


@dataclass(frozen=True, slots=True)
class TypeMistake:
    """One mistake in the types of an expression."""

    column: int | None
    """Column of the mistake in characters, from 1, or None for the whole expression."""
    message: str


@dataclass(frozen=True, slots=True)
class TypeCheckResult:
    """The type of an expression's value, and its mistakes in the order of the text."""

    type: Type
    mistakes: tuple[TypeMistake, ...]


def check(expression: str, declared: Mapping[str, Type]) -> TypeCheckResult:
    """Check `expression` with the types `declared` of its variables. Any other variable is `DYN`.

    If `expression` does not parse, the result contains the syntax error as a mistake.
    """
    try:
        return check_program(parse_program(expression), declared)
    except ExpressionError as error:
        return TypeCheckResult(DYN, (TypeMistake(error.column, error.message),))


def check_program(program: Program, declared: Mapping[str, Type]) -> TypeCheckResult:
    """Check the expression of `program` as `check` does."""
    checker = _Checker(program.text)
    result_type = checker.infer_type(program.tree, declared)
    # A dict, because a set would order mistakes of one column by the hash seed of the process.
    mistakes = sorted(dict.fromkeys(checker.mistakes), key=lambda mistake: mistake.column or 0)
    return TypeCheckResult(result_type, tuple(mistakes))


class _Checker:
    """Type check of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.mistakes: list[TypeMistake] = []

    def infer_type(self, node: SyntaxNode, scope: Scope) -> Type:
        return _RULES[type(node)](self, node, scope)

    def _fail(self, node: SyntaxNode, message: str) -> Type:
        self.mistakes.append(TypeMistake(node.at + 1, message))
        return DYN

    def _check_condition(self, node: SyntaxNode, scope: Scope) -> None:
        kind = self.infer_type(node, scope)
        if not isinstance(kind, Dyn) and kind != BOOL:
            self._fail(node, f"expected bool, got {kind}: {quote_source(self._text, node)}")

    # ---- variables, fields, indexes, literals

    def literal(self, node: Literal, scope: Scope) -> Type:
        return Scalar(type_name(node.value))

    def variable(self, node: Variable, scope: Scope) -> Type:
        return scope.get(node.name, DYN)

    def select(self, node: Select, scope: Scope) -> Type:
        return self._field_type(node, self.infer_type(node.operand, scope), optional=node.optional)

    def has(self, node: Has, scope: Scope) -> Type:
        self._field_type(node, self.infer_type(node.operand, scope), optional=True)
        return BOOL

    def _field_type(self, node: Select | Has, operand: Type, *, optional: bool) -> Type:
        field = node.field
        match operand:
            case StaticOptional(value=held):
                found = element_of(held) if not isinstance(held, Record) else held.fields.get(field, DYN)
                return StaticOptional(found)
            case Record(fields=fields, open=is_open):
                if field not in fields and not (optional or is_open):
                    place = quote_source(self._text, node.operand)
                    return self._fail(node, f"no field {field!r} in {place}{suggestion(field, fields)}")
                found = fields.get(field, DYN)
            case StaticMap(value=found):
                pass
            case Dyn() | Scalar(name="null"):
                found = DYN
            case _:
                return self._fail(node, f"{operand} has no fields: {quote_source(self._text, node.operand)}")
        return StaticOptional(found) if optional else found

    def index(self, node: Index, scope: Scope) -> Type:
        operand, key = self.infer_type(node.operand, scope), self.infer_type(node.key, scope)
        container = operand.value if isinstance(operand, StaticOptional) else operand
        match container, node.key:
            case (StaticList(), _) if str(key) not in (*NUMBERS, "dyn"):
                return self._fail(node, f"no such overload: list[{key}]: {quote_source(self._text, node)}")
            case Record(fields=fields, open=is_open), Literal(value=str() as name):
                if name not in fields and not (node.optional or is_open or operand is not container):
                    place = quote_source(self._text, node.operand)
                    return self._fail(node, f"no field {name!r} in {place}{suggestion(name, fields)}")
                found = fields.get(name, DYN)
            case ((StaticList() | StaticMap() | Record() | Dyn()), _):
                found = element_of(container)
            case _:
                return self._fail(node, f"{container} has no elements: {quote_source(self._text, node.operand)}")
        return StaticOptional(found) if node.optional or operand is not container else found

    def list_literal(self, node: ListLiteral, scope: Scope) -> Type:
        kinds = (self._element_type(element, optional, scope) for element, optional in node.elements)
        return StaticList(join_types(list(kinds)))

    def _element_type(self, node: SyntaxNode, optional: bool, scope: Scope) -> Type:
        kind = self.infer_type(node, scope)
        if not optional:
            return kind
        if isinstance(kind, StaticOptional):
            return kind.value
        return DYN if isinstance(kind, Dyn) else self._fail(node, f"expected optional after ?, got {kind}")

    def map_literal(self, node: MapLiteral, scope: Scope) -> Type:
        keys = [self.infer_type(key, scope) for key, _, _ in node.entries]
        values = [self._element_type(value, optional, scope) for _, value, optional in node.entries]
        names = [key.value for key, _, _ in node.entries if isinstance(key, Literal) and type(key.value) is str]
        if len(names) == len(node.entries):
            return Record(dict(zip(names, values, strict=True)))
        return StaticMap(join_types(keys), join_types(values))

    # ---- operators

    def unary(self, node: Unary, scope: Scope) -> Type:
        if node.operator == "!":
            self._check_condition(node.operand, scope)
            return BOOL
        operand = self.infer_type(node.operand, scope)
        if str(operand) in ("int", "double", "dyn"):
            return operand
        return self._fail(node, f"no such overload: -{operand}")

    def logic(self, node: Logic, scope: Scope) -> Type:
        for operand in node.operands:
            self._check_condition(operand, scope)
        return BOOL

    def conditional(self, node: Conditional, scope: Scope) -> Type:
        self._check_condition(node.condition, scope)
        return join_types((self.infer_type(node.then, scope), self.infer_type(node.otherwise, scope)))

    def binary(self, node: Binary, scope: Scope) -> Type:
        operator, left, right = node.operator, self.infer_type(node.left, scope), self.infer_type(node.right, scope)
        names = str(left), str(right)
        if operator == "in":
            if names[1] not in ("list", "map", "dyn"):
                self._fail_mismatch(node, left, right)
            return BOOL
        if operator in ("==", "!="):
            if not {"dyn", "null", "optional"} & set(names) and names[0] != names[1] and not NUMBERS.issuperset(names):
                self._fail(node, f"{left} {operator} {right} is always {'false' if operator == '==' else 'true'}")
            return BOOL
        if operator in _ARITHMETIC:
            return self._arithmetic(node, left, right)
        comparable = NUMBERS.issuperset(names) or (names[0] == names[1] and names[0] in _ORDERED_TYPES)
        if "dyn" not in names and not comparable:
            self._fail_mismatch(node, left, right)
        return BOOL

    def _arithmetic(self, node: Binary, left: Type, right: Type) -> Type:
        first, second = str(left), str(right)
        if "dyn" in (first, second):
            return DYN
        if first == second == "list" and node.operator == "+":
            return join_types((left, right)) if left == right else StaticList(DYN)
        if result := _TIME_ARITHMETIC.get((first, node.operator, second)):
            return Scalar(result)
        if first == second and first in _ARITHMETIC[node.operator]:
            return left
        return self._fail_mismatch(node, left, right)

    def _fail_mismatch(self, node: Binary, left: Type, right: Type) -> Type:
        hint = ""
        if node.operator == "+" and [str(left), str(right)].count("string") == 1:
            other = node.right if str(left) == "string" else node.left
            hint = f" (use string({quote_source(self._text, other)}))"
        return self._fail(node, f"no such overload: {left} {node.operator} {right}{hint}")

    # ---- calls

    def call(self, node: FunctionCall, scope: Scope) -> Type:
        operands = [self.infer_type(operand, scope) for operand in node.operands]
        if mistake := find_call_mistake(node):
            return self._fail(node, mistake.message)
        function = FUNCTIONS[node.function, node.target is not None]
        accepting = [candidate for candidate in function.overloads if accepts(candidate.types, operands)]
        if not accepting:
            call_text = function.format_call(*map(str, operands))
            return self._fail(node, f"no such overload: {call_text}: {quote_source(self._text, node)}")
        return result_of(node.function, operands, {candidate.result for candidate in accepting})

    def macro(self, node: Macro, scope: Scope) -> Type:
        target = self.infer_type(node.target, scope)
        match node.name.removesuffix("2"):
            case "cel.bind":
                return self.infer_type(node.bodies[0], {**scope, node.variables[0]: target})
            case "optMap":
                return StaticOptional(self._optional_body(node, target, scope))
            case "optFlatMap":
                return self._optional_body(node, target, scope)
            case name:
                return self._loop(name, node, target, scope)

    def _optional_body(self, node: Macro, target: Type, scope: Scope) -> Type:
        value_type = target.value if isinstance(target, StaticOptional) else DYN
        if not isinstance(target, StaticOptional | Dyn):
            self._fail(node, f"expected optional, got {target}: {quote_source(self._text, node.target)}")
        return self.infer_type(node.bodies[0], {**scope, node.variables[0]: value_type})

    def _loop(self, name: str, node: Macro, target: Type, scope: Scope) -> Type:
        if str(target) not in ("list", "map", "dyn"):
            self._fail(node, f"expected list or map, got {target}: {quote_source(self._text, node.target)}")
        kinds = _loop_variables(target)[-len(node.variables) if isinstance(target, StaticList) else 0 :]
        inner = {**scope, **dict(zip(node.variables, kinds, strict=False))}
        if len(node.bodies) == 2 or name in ("all", "exists", "exists_one", "filter"):
            self._check_condition(node.bodies[0], inner)
        if name in ("all", "exists", "exists_one"):
            return BOOL
        if name == "filter":
            return StaticList(inner[node.variables[0]])
        body = self.infer_type(node.bodies[-1], inner)
        match name:
            case "map" | "transformList":
                return StaticList(body)
            case "transformMap":
                return StaticMap(inner[node.variables[0]], body)
            case "sortBy":
                return target
        return DYN


_RULES: Final[dict[type[SyntaxNode], Callable[[_Checker, Any, Scope], Type]]] = {
    Literal: _Checker.literal,
    Variable: _Checker.variable,
    Select: _Checker.select,
    Has: _Checker.has,
    Index: _Checker.index,
    Unary: _Checker.unary,
    Binary: _Checker.binary,
    Logic: _Checker.logic,
    Conditional: _Checker.conditional,
    ListLiteral: _Checker.list_literal,
    MapLiteral: _Checker.map_literal,
    FunctionCall: _Checker.call,
    Macro: _Checker.macro,
}


def _loop_variables(target: Type) -> tuple[Type, Type]:
    """Return the types of the two variables of a macro over `target`.

    For a list, a macro with one variable uses the second type. For a map, the macro uses the first type.
    """
    match target:
        case StaticList(element=element):
            return INT, element
        case StaticMap(key=key, value=value):
            return key, value
        case Record():
            return STRING, element_of(target)
    return DYN, DYN
