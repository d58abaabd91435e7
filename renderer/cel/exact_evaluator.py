"""The exact evaluator: the complete semantics of CEL, and errors that contain their place and cause.

If the fast code raises an exception, the exact evaluator runs. In addition to the fast code, the exact evaluator

* lets `&&`, `||`, `all` and `exists` absorb errors in either order (CEL language definition, "Logical operators")
* adds the place of the failed node to an error, and quotes operands by their source text
* knows the path in a variable's data to each value, so that the error of a missing key contains the path
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from renderer.cel import comprehensions, containers, operators
from renderer.cel.analysis import find_call_mistake
from renderer.cel.budget import Meter
from renderer.cel.codegen import weight
from renderer.cel.errors import BudgetError, EvaluationError, MissingKeyError, NoOverloadError, Path
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
    children,
    quote_source,
)
from renderer.cel.values import LISTS, type_name
from renderer.phrasing import format_count, suggestion


class ValueOrigin(NamedTuple):
    """The origin of a value: a path in the data of a variable."""

    path: Path
    exact: bool
    """True if the value is the unchanged data at `path`."""

    def with_step(self, key: Any) -> ValueOrigin:
        if not self.path or not self.exact:
            return self
        return ValueOrigin((*self.path, key if isinstance(key, str) else f"[{key}]"), True)


_UNKNOWN_ORIGIN: Final = ValueOrigin((), False)


class MacroBinding(NamedTuple):
    """The value of a macro's variable, and the value's origin."""

    value: Any
    """The value. If the value is an error, reading the variable raises the error."""
    origin: ValueOrigin


Scope = Mapping[str, MacroBinding]


def evaluate_exactly(text: str, tree: SyntaxNode, variables: Mapping[str, Any], meter: Meter) -> Any:
    """Return the value of `tree`, the tree of the expression `text`.

    Raises: EvaluationError if the evaluation fails.
    """
    return _Evaluation(text, variables, meter).evaluate(tree, {})


def format_path(path: Path) -> str:
    """Return `path` in the notation of an expression, such as `web.spec.ports[0]`."""
    text = path[0] if path else ""
    for step in path[1:]:
        if step.startswith("["):
            text += step
        else:
            text += f".{step}" if step.replace("_", "a").isalnum() else f"[{step!r}]"
    return text


class _Evaluation:
    """Evaluation of one expression."""

    def __init__(self, text: str, variables: Mapping[str, Any], meter: Meter) -> None:
        self._text = text
        self._variables = variables
        self._meter = meter

    def evaluate(self, node: SyntaxNode, scope: Scope) -> Any:
        self._meter.spend(1)
        return _RULES[type(node)](self, node, scope)

    def evaluate_condition(self, node: SyntaxNode, scope: Scope) -> bool:
        value = self.evaluate(node, scope)
        if type(value) is bool:
            return value
        raise EvaluationError(
            f"expected bool, got {type_name(value)}: {quote_source(self._text, node)}", offset=node.at
        )

    def apply(
        self, node: SyntaxNode, operands: tuple[SyntaxNode, ...], operator: Callable[..., Any], *values: Any
    ) -> Any:
        """Call `operator` for `node` with `values`.

        If `operator` raises an error, add place and operands to the error.
        """
        try:
            return operator(*values)
        except NoOverloadError as fault:
            raise EvaluationError(
                fault.message + self._describe_operands(node, operands, fault), offset=node.at
            ) from None
        except EvaluationError as fault:
            raise fault.with_offset(node.at) from None

    def _describe_operands(self, node: SyntaxNode, operands: tuple[SyntaxNode, ...], fault: NoOverloadError) -> str:
        """Return the text that follows `fault`: a remedy, or the types of the operands if no remedy is known."""
        kinds = [type_name(value) for value in fault.operands]
        typed_operands = list(zip(operands, kinds, strict=False))
        if isinstance(node, Binary) and node.operator == "+" and kinds.count("string") == 1:
            other = next(operand for operand, kind in typed_operands if kind != "string")
            return f" (use string({quote_source(self._text, other)}))"
        descriptions = [
            f"{quote_source(self._text, operand)} is {kind}"
            for operand, kind in typed_operands
            if not isinstance(operand, Literal)
        ]
        return f" ({', '.join(descriptions)})" if descriptions else ""

    # ---- values by node

    def literal(self, node: Literal, scope: Scope) -> Any:
        return node.value

    def name(self, node: Variable, scope: Scope) -> Any:
        if node.name in scope and not node.rooted:
            value = scope[node.name].value
            if isinstance(value, EvaluationError):
                raise value
            return value
        if node.name in self._variables:
            return self._variables[node.name]
        hint = suggestion(node.name, {*self._variables, *scope})
        raise MissingKeyError(f"unknown name {node.name!r}{hint}", path=(node.name,), offset=node.at)

    def select(self, node: Select, scope: Scope) -> Any:
        operand = self.evaluate(node.operand, scope)
        operator = containers.get_optional_field if node.optional else containers.get_field
        try:
            return self.apply(node, (node.operand,), operator, operand, node.field)
        except MissingKeyError:
            raise self._missing_key_error(node, node.operand, operand, node.field, scope) from None

    def has(self, node: Has, scope: Scope) -> bool:
        operand = self.evaluate(node.operand, scope)
        result: bool = self.apply(node, (node.operand,), containers.has_field, operand, node.field)
        return result

    def index(self, node: Index, scope: Scope) -> Any:
        operand, key = self.evaluate(node.operand, scope), self.evaluate(node.key, scope)
        operator = containers.get_optional_item if node.optional else containers.get_item
        try:
            return self.apply(node, (node.operand, node.key), operator, operand, key)
        except MissingKeyError:
            raise self._missing_key_error(node, node.operand, operand, key, scope) from None

    def _missing_key_error(
        self, node: SyntaxNode, operand_node: SyntaxNode, operand: Any, key: Any, scope: Scope
    ) -> MissingKeyError:
        origin = self.find_origin(operand_node, scope)
        place = format_path(origin.path) if origin.exact else quote_source(self._text, operand_node)
        path = origin.with_step(key).path
        if operand is None:
            message = f"no such key {key!r}: {place} is null"
        elif type(operand) in LISTS:
            message = f"index {key} out of range in {place} ({format_count(len(operand), 'item')})"
        else:
            text_keys = (text_key for text_key in operand if type(text_key) is str)
            hint = suggestion(key, text_keys) if type(key) is str else ""
            message = f"no such key {key!r} in {place}{hint}"
        return MissingKeyError(message, path=path, offset=node.at)

    def unary(self, node: Unary, scope: Scope) -> Any:
        operand = self.evaluate(node.operand, scope)
        return self.apply(
            node, (node.operand,), operators.negate if node.operator == "-" else operators.invert, operand
        )

    def binary(self, node: Binary, scope: Scope) -> Any:
        left, right = self.evaluate(node.left, scope), self.evaluate(node.right, scope)
        operator, metered = operators.BINARY["==" if node.operator == "!=" else node.operator]
        values = (left, right, self._meter) if metered else (left, right)
        result = self.apply(node, (node.left, node.right), operator, *values)
        return not result if node.operator == "!=" else result

    def logic(self, node: Logic, scope: Scope) -> bool:
        decisive = node.operator == "||"
        return self._decide(decisive, ((operand, scope) for operand in node.operands))

    def _decide(self, decisive: bool, conditions: Iterable[tuple[SyntaxNode, Scope]]) -> bool:
        """Return `decisive` if any condition has the value `decisive`.

        If no condition has the value `decisive` and a condition failed, raise the first error. If no condition failed,
        return the opposite of `decisive`.
        """
        first_error: EvaluationError | None = None
        for node, scope in conditions:
            try:
                if self.evaluate_condition(node, scope) is decisive:
                    return decisive
            except BudgetError:
                raise
            except EvaluationError as fault:
                first_error = first_error or fault
        if first_error is not None:
            raise first_error
        return not decisive

    def conditional(self, node: Conditional, scope: Scope) -> Any:
        return self.evaluate(node.then if self.evaluate_condition(node.condition, scope) else node.otherwise, scope)

    def list_literal(self, node: ListLiteral, scope: Scope) -> list[Any]:
        values: list[Any] = []
        for element, optional in node.elements:
            value = self.evaluate(element, scope)
            values += self.apply(element, (element,), containers.present_values, value) if optional else (value,)
        return values

    def map_literal(self, node: MapLiteral, scope: Scope) -> dict[Any, Any]:
        entries: list[tuple[Any, Any]] = []
        for key_node, value_node, optional in node.entries:
            key, value = self.evaluate(key_node, scope), self.evaluate(value_node, scope)
            items = self.apply(value_node, (value_node,), containers.present_values, value) if optional else (value,)
            entries += ((key, item) for item in items)
        result: dict[Any, Any] = self.apply(node, (), containers.make_map, entries)
        return result

    def call(self, node: FunctionCall, scope: Scope) -> Any:
        if node.target is not None and node.function in LAZY:
            operator = comprehensions.value_or if node.function == "orValue" else comprehensions.optional_or
            target = self.evaluate(node.target, scope)
            return self.apply(node, (), operator, target, lambda: self.evaluate(node.arguments[0], scope))
        if mistake := find_call_mistake(node):
            raise mistake
        values = [self.evaluate(operand, scope) for operand in node.operands]
        function = FUNCTIONS[node.function, node.target is not None]
        return self.apply(node, node.operands, function, self._meter, *values)

    # ---- macros

    def macro(self, node: Macro, scope: Scope) -> Any:
        if node.name == "cel.bind":
            return self.evaluate(node.bodies[0], self._bind(node, scope, [self._bind_value(node.target, scope)]))
        target = self.evaluate(node.target, scope)
        match node.name.removesuffix("2"):
            case ("optMap" | "optFlatMap") as name:
                operator = comprehensions.optional_map if name == "optMap" else comprehensions.optional_flat_map
                origin = self.find_origin(node.target, scope)
                body = node.bodies[0]
                return self.apply(
                    node,
                    (),
                    operator,
                    target,
                    lambda held: self.evaluate(body, self._bind(node, scope, [(held, origin)])),
                )
            case "sortBy":
                key = node.bodies[0]
                rounds = iter(self._rounds(node, target, scope))
                return self.apply(
                    node, (), comprehensions.sort_by, target, self._meter, 0, lambda _: self.evaluate(key, next(rounds))
                )
            case name:
                return self._loop(name, node, target, scope)

    def _bind_value(self, node: SyntaxNode, scope: Scope) -> MacroBinding:
        """Return the binding of `cel.bind`.

        If the evaluation of the value fails, reading the variable raises the error, as in cel-go and cel-cpp.
        """
        try:
            return MacroBinding(self.evaluate(node, scope), self.find_origin(node, scope))
        except BudgetError:
            raise
        except EvaluationError as fault:
            return MacroBinding(fault, _UNKNOWN_ORIGIN)

    def _loop(self, name: str, node: Macro, target: Any, scope: Scope) -> Any:
        rounds = self._rounds(node, target, scope)
        first, last = node.bodies[0], node.bodies[-1]
        if name in ("all", "exists"):
            return self._decide(name == "exists", ((first, inner) for inner in rounds))
        if name == "exists_one":
            return sum([self.evaluate_condition(first, inner) for inner in rounds]) == 1
        variable = node.variables[0]
        if name == "filter":
            return [inner[variable].value for inner in rounds if self.evaluate_condition(first, inner)]
        selected_scopes = (inner for inner in rounds if len(node.bodies) == 1 or self.evaluate_condition(first, inner))
        if name in ("map", "transformList"):
            return [self.evaluate(last, inner) for inner in selected_scopes]
        if name == "transformMap":
            map_entries: Iterable[tuple[Any, Any]] = [
                (inner[variable].value, self.evaluate(last, inner)) for inner in selected_scopes
            ]
        else:
            values = [self.evaluate(last, inner) for inner in selected_scopes]
            map_entries = [entry for value in values for entry in self.apply(last, (), comprehensions.entries, value)]
        return self.apply(node, (), containers.make_map, map_entries)

    def _rounds(self, node: Macro, target: Any, scope: Scope) -> Iterable[Scope]:
        """Yield the variables in scope in each round of the macro `node`."""
        self.apply(node.target, (), comprehensions.items, target, self._meter, weight(node))
        origin = self.find_origin(node.target, scope)
        for position, item in enumerate(target):
            derived = ValueOrigin(origin.path, False)
            if type(target) in LISTS:
                bound_values = [(position, derived), (item, origin.with_step(position))]
            else:
                bound_values = [(item, derived), (target[item], origin.with_step(item))]
            if len(node.variables) == 1:
                bound_values = bound_values[1:] if type(target) in LISTS else bound_values[:1]
            yield self._bind(node, scope, bound_values)

    def _bind(self, node: Macro, scope: Scope, bound_values: Iterable[tuple[Any, ValueOrigin]]) -> Scope:
        return {**scope, **{name: MacroBinding(*item) for name, item in zip(node.variables, bound_values, strict=True)}}

    # ---- origins

    def find_origin(self, node: SyntaxNode, scope: Scope) -> ValueOrigin:
        """Return the origin of the value of `node`. The caller must have evaluated `node` without an error."""
        match node:
            case Variable(name=name, rooted=rooted):
                return scope[name].origin if name in scope and not rooted else ValueOrigin((name,), True)
            case Select(operand=operand, field=field):
                return self.find_origin(operand, scope).with_step(field)
            case Index(operand=operand, key=key):
                return self.find_origin(operand, scope).with_step(self.evaluate(key, scope))
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self.find_origin(then if self.evaluate_condition(condition, scope) else otherwise, scope)
            case FunctionCall() | Binary():
                origins = (self.find_origin(child, scope) for child in children(node))
                return ValueOrigin(next((origin.path for origin in origins if origin.path), ()), False)
            case Macro(target=target):
                return ValueOrigin(self.find_origin(target, scope).path, False)
        return _UNKNOWN_ORIGIN


_RULES: Final[dict[type[SyntaxNode], Callable[[_Evaluation, Any, Scope], Any]]] = {
    Literal: _Evaluation.literal,
    Variable: _Evaluation.name,
    Select: _Evaluation.select,
    Has: _Evaluation.has,
    Index: _Evaluation.index,
    Unary: _Evaluation.unary,
    Binary: _Evaluation.binary,
    Logic: _Evaluation.logic,
    Conditional: _Evaluation.conditional,
    ListLiteral: _Evaluation.list_literal,
    MapLiteral: _Evaluation.map_literal,
    FunctionCall: _Evaluation.call,
    Macro: _Evaluation.macro,
}
