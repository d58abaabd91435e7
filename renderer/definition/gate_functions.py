"""The functions that only gates have (KREP-006), rewritten to reads of variables that `gitops.gates` provides.

    inWindow("dba")                     @windows["dba"]         x.ready()               x["@ready"]
    external("budget")                  @externals["budget"]    inFlight(webapps)       @counters["inFlight"]
    linearlyReady(each, webapps, 3)     @rates["linear 3"]

The rewriting keeps gate functions out of the CEL evaluator. The tree of a rewritten gate names all data that the gate
reads. No author can write a name that starts with `@`, because `@` does not start an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, NamedTuple

from renderer.cel import syntax_tree
from renderer.cel.analysis import find_call_mistake
from renderer.cel.errors import EvaluationError
from renderer.cel.functions import find_function
from renderer.cel.syntax_tree import FunctionCall, Index, Macro, Select, SyntaxNode, Variable, with_children
from renderer.frozen import dataclass
from renderer.phrasing import suggestion

WINDOWS: Final = "@windows"
EXTERNALS: Final = "@externals"
COUNTERS: Final = "@counters"
RATES: Final = "@rates"

COMMON_VARIABLES: Final = frozenset({"now", "target"})
"""The variables of every gate."""
LIFECYCLE_METHODS: Final = ("ready", "updated", "settled", "revision")
_COUNTER_FUNCTIONS: Final = ("inFlight", "settled", "failed")
PACE_SETTING_COUNTERS: Final = frozenset({"inFlight", "settled"})
"""Counters that limit the items in flight. A gate that reads only `failed` leaves the pace to the policy."""
_NAMED_VALUES: Final = {"inWindow": (WINDOWS, "window"), "external": (EXTERNALS, "external fact")}
_PACE_SHAPES: Final[Mapping[str, Literal["linear", "exponential"]]] = {
    "linearlyReady": "linear",
    "exponentiallyReady": "exponential",
}
_PERCENT: Final = re.compile(r"[1-9][0-9]?%|100%")


def lifecycle_field(method: str) -> str:
    """Return the name of the field in which an item has the answer of `method`, one of `LIFECYCLE_METHODS`."""
    return f"@{method}"


@dataclass(frozen=True, slots=True)
class GateScope:
    """The variables of a gate, by their role."""

    items: frozenset[str]
    """Variables that refer to the instance or item that the gate holds. For a single resource, the set is empty."""
    collection: str
    """Variable with the list of all instances or items that the gate may hold. Empty for a single resource."""
    ancestors: Mapping[str, bool] = field(default_factory=dict)
    """For each direct or indirect dependency of the resource, by id: True if the value of the dependency is a list."""
    values: frozenset[str] = frozenset()
    """The variables that are neither items, nor the collection, nor ancestors."""

    @property
    def names(self) -> frozenset[str]:
        return self.items | self.ancestors.keys() | self.values | ({self.collection} - {""})


class PaceCall(NamedTuple):
    """A call of a pace function in a gate."""

    shape: Literal["linear", "exponential"]
    argument: int | str
    """The number or share of items that a linear pace allows in flight (`3` or `"25%"`), or the growth factor of an
    exponential pace.
    """

    def __str__(self) -> str:
        return f"{self.shape} {self.argument}"


class _ItemReference(NamedTuple):
    """A part of an expression that is an item with lifecycle methods, or a list of such items."""

    root: str
    """The variable that contains the item."""
    is_list: bool


_MacroScope = Mapping[str, _ItemReference | None]


class GateRewriter:
    """Rewriter of one gate.

    Attributes:
        pace_calls: The calls of pace functions that `rewrite` has found in the gate.
        waits_for: The ancestors, and the collection, whose `ready`, `updated` or `settled` the gate reads. `rewrite`
            fills the set.
    """

    def __init__(self, scope: GateScope) -> None:
        self.scope = scope
        self.pace_calls: set[PaceCall] = set()
        self.waits_for: set[str] = set()

    def rewrite(self, node: SyntaxNode) -> SyntaxNode:
        """Return `node` with gate functions replaced by reads.

        Raises: EvaluationError for a wrong call of a gate function.
        """
        return self._rewrite(node, {})

    def _rewrite(self, node: SyntaxNode, bound: _MacroScope) -> SyntaxNode:
        match node:
            case FunctionCall(target=None, function="inWindow" | "external"):
                return self._rewrite_named(node)
            case FunctionCall(target=None, function="inFlight" | "settled" | "failed"):
                return self._rewrite_counter(node, bound)
            case FunctionCall(target=None, function="linearlyReady" | "exponentiallyReady"):
                return self._rewrite_pace(node, bound)
            case FunctionCall(function="ready" | "updated" | "settled" | "revision", target=SyntaxNode() as target):
                return self._rewrite_method(node, target, bound)
            case FunctionCall() if not find_function(node.function, method=node.target is not None):
                raise _unknown_function_error(node)
            case Macro(target=target):
                inner = {**bound, **self._macro_variables(node, bound)}
                return with_children(node, lambda child: self._rewrite(child, bound if child is target else inner))
        return with_children(node, lambda child: self._rewrite(child, bound))

    def _rewrite_named(self, call: FunctionCall) -> SyntaxNode:
        values, noun = _NAMED_VALUES[call.function]
        match call.arguments:
            case (syntax_tree.Literal(value=str() as name),) if name:
                return _build_read(call, values, name)
        raise EvaluationError(
            f'{call.function}() takes the name of one {noun} as a text, as in {call.function}("name")', offset=call.at
        )

    def _rewrite_counter(self, call: FunctionCall, bound: _MacroScope) -> SyntaxNode:
        match call.arguments:
            case (collection,) if self._is_collection(collection, bound):
                return _build_read(call, COUNTERS, call.function)
        raise self._misuse_error(call, self.scope.collection)

    def _rewrite_pace(self, call: FunctionCall, bound: _MacroScope) -> SyntaxNode:
        shape = _PACE_SHAPES[call.function]
        match call.arguments:
            case (item, collection, *rest) if self._is_item(item, bound) and self._is_collection(collection, bound):
                pace_call = PaceCall(shape, _parse_pace_argument(call, shape, rest))
                self.pace_calls.add(pace_call)
                return _build_read(call, RATES, str(pace_call))
        raise self._misuse_error(call, f"each, {self.scope.collection}")

    def _misuse_error(self, call: FunctionCall, arguments: str) -> EvaluationError:
        if not self.scope.collection:
            return EvaluationError(
                f"{call.function}() needs a collection, and the resource is not a collection; remove the call",
                offset=call.at,
            )
        return EvaluationError(
            f"{call.function}() works only on the collection of the gate; write {call.function}({arguments})",
            offset=call.at,
        )

    def _rewrite_method(self, call: FunctionCall, target: SyntaxNode, bound: _MacroScope) -> SyntaxNode:
        reference = self._find_reference(target, bound)
        if reference is None and self._is_unknown(target, bound):
            reference = _ItemReference("", False)
        if reference is None or reference.is_list or call.arguments:
            raise EvaluationError(f"{call.function}() {self._describe_misuse(reference, call)}", offset=call.at)
        if call.function != "revision" and reference.root not in self.scope.items:
            self.waits_for.add(reference.root)
        return Select(
            call.at, call.end, call.depth, self._rewrite(target, bound), lifecycle_field(call.function), False
        )

    def _is_unknown(self, node: SyntaxNode, bound: _MacroScope) -> bool:
        """Return whether `node` is an undefined variable. The caller reports all undefined variables together."""
        return (
            isinstance(node, Variable)
            and node.name not in self.scope.names | COMMON_VARIABLES
            and node.name not in bound
        )

    def _describe_misuse(self, reference: _ItemReference | None, call: FunctionCall) -> str:
        if reference and call.arguments:
            return "takes no arguments; remove the arguments"
        if reference:
            return f"works on one item; for all items write {reference.root}.all(x, x.{call.function}())"
        candidates = sorted(self.scope.items | self.scope.ancestors.keys())
        advice = f"choose from {', '.join(candidates)}" if candidates else "remove the call"
        return f"works on an item of a collection or on a resource; {advice}"

    def _macro_variables(self, macro: Macro, bound: _MacroScope) -> _MacroScope:
        """Return the item behind each variable inside `macro`, by the name of the variable.

        The last variable of the macro is the element of the list.
        """
        reference = self._find_reference(macro.target, bound)
        if macro.name == "cel.bind":
            return {macro.variables[0]: reference}
        element = _ItemReference(reference.root, False) if reference and reference.is_list else None
        return {**dict.fromkeys(macro.variables), macro.variables[-1]: element}

    def _find_reference(self, node: SyntaxNode, bound: _MacroScope) -> _ItemReference | None:
        match node:
            case Variable(name=name, rooted=False) if name in bound:
                return bound[name]
            case Variable(name=name) if name in self.scope.items:
                return _ItemReference(name, False)
            case Variable(name=name) if name == self.scope.collection:
                return _ItemReference(name, True)
            case Variable(name=name) if name in self.scope.ancestors:
                return _ItemReference(name, self.scope.ancestors[name])
            case Index(operand=operand, optional=False):
                reference = self._find_reference(operand, bound)
                return _ItemReference(reference.root, False) if reference and reference.is_list else None
            case Macro(name="filter" | "sortBy", target=target):
                return self._find_reference(target, bound)
        return None

    def _is_item(self, node: SyntaxNode, bound: _MacroScope) -> bool:
        return isinstance(node, Variable) and node.name in self.scope.items and (node.rooted or node.name not in bound)

    def _is_collection(self, node: SyntaxNode, bound: _MacroScope) -> bool:
        return (
            isinstance(node, Variable)
            and node.name == self.scope.collection
            and (node.rooted or node.name not in bound)
        )


def _build_read(call: FunctionCall, values: str, key: str) -> SyntaxNode:
    """Return the tree of `values[key]` at the place of a call."""
    name = Variable(call.at, call.end, 1, values)
    return Index(call.at, call.end, call.depth, name, syntax_tree.Literal(call.at, call.end, 1, key), False)


def _parse_pace_argument(call: FunctionCall, shape: str, extra_arguments: list[SyntaxNode]) -> int | str:
    match shape, extra_arguments:
        case "linear", []:
            return 1
        case "exponential", []:
            return 2
        case "linear", [syntax_tree.Literal(value=str() as share)] if _PERCENT.fullmatch(share):
            return share
        case "linear", [syntax_tree.Literal(value=n)] if type(n) is int and n >= 1:
            return n
        case "exponential", [syntax_tree.Literal(value=factor)] if type(factor) is int and factor >= 2:
            return factor
        case "linear", [_]:
            raise EvaluationError(
                'n must be a whole number of at least 1, or a share from "1%" to "100%"', offset=extra_arguments[0].at
            )
        case "exponential", [_]:
            raise EvaluationError("the factor must be a whole number of at least 2", offset=extra_arguments[0].at)
    raise EvaluationError(f"{call.function}() takes two or three arguments, not {len(call.arguments)}", offset=call.at)


def _unknown_function_error(call: FunctionCall) -> EvaluationError:
    """Return the error for a call of an unknown function, with a hint if the author probably meant a gate function."""
    candidates = LIFECYCLE_METHODS if call.target else (*_COUNTER_FUNCTIONS, *_NAMED_VALUES, *_PACE_SHAPES)
    if not (hint := suggestion(call.function, candidates)):
        return find_call_mistake(call) or EvaluationError(f"unknown function {call.function}()", offset=call.at)
    return EvaluationError(f"unknown {'method' if call.target else 'function'} {call.function}(){hint}", offset=call.at)
