"""The functions that only gates have (KREP-006). A call of one becomes a read of a value that whoever judges the gate puts there.

    inWindow("dba")                     @windows["dba"]         x.ready()               x["@ready"]
    external("budget")                  @externals["budget"]    inFlight(webapps)       @counters["inFlight"]
    linearlyReady(each, webapps, 3)     @rates["linear 3"]

So gates need no evaluator of their own, and what a gate asks for can be read off its tree. No expression can write such a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, NamedTuple

from renderer.cel import syntax_tree
from renderer.cel.analysis import call_mistake
from renderer.cel.errors import EvaluationError
from renderer.cel.functions import find_function
from renderer.cel.syntax_tree import FunctionCall, Index, Macro, Select, SyntaxNode, Variable, with_children
from renderer.frozen import dataclass
from renderer.phrasing import suggestion

WINDOWS: Final = "@windows"
EXTERNALS: Final = "@externals"
COUNTERS: Final = "@counters"
RATES: Final = "@rates"

COMMON: Final = frozenset({"now", "target"})
"""The variables that every gate has."""
METHODS: Final = ("ready", "updated", "settled", "revision")
_COUNTED: Final = ("inFlight", "settled", "failed")
_NAMED: Final = {"inWindow": (WINDOWS, "window"), "external": (EXTERNALS, "external fact")}
_RATED: Final[Mapping[str, Literal["linear", "exponential"]]] = {
    "linearlyReady": "linear",
    "exponentiallyReady": "exponential",
}
_PERCENT: Final = re.compile(r"[1-9][0-9]?%|100%")


def of_item(method: str) -> str:
    """The field in which an item has the answer of one of its `METHODS`."""
    return f"@{method}"


@dataclass(frozen=True, slots=True)
class GateScope:
    """The variables of a gate. `items` are the names of what the gate lets move, `collection` names all of them together; neither is there for a
    single resource. `ancestors` are the resources that it depends on, each with whether it is a list. `values` are all others.
    """

    items: frozenset[str] = frozenset()
    collection: str = ""
    ancestors: Mapping[str, bool] = field(default_factory=dict)
    values: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return self.items | self.ancestors.keys() | self.values | ({self.collection} - {""})


class PaceCall(NamedTuple):
    """A pace that a gate asks for. The argument is n (`3`, or `"25%"`) or the factor."""

    shape: Literal["linear", "exponential"]
    argument: int | str

    def __str__(self) -> str:
        return f"{self.shape} {self.argument}"


class _Things(NamedTuple):
    """What a part of an expression is: an item that has lifecycle methods, or a list of such. `root` is the variable that it comes from."""

    root: str
    is_list: bool


_Bound = Mapping[str, _Things | None]


class GateRewriter:
    """Rewrites one gate. `rates`: those that it asks for. `waits_for`: the ancestors, and the collection, that it asks whether they are ready,
    updated or settled."""

    def __init__(self, scope: GateScope) -> None:
        self.scope = scope
        self.rates: set[PaceCall] = set()
        self.waits_for: set[str] = set()

    def bind(self, node: SyntaxNode) -> SyntaxNode:
        """The tree without functions of gates. Raises Fault where one is not called as it should be."""
        return self._bind(node, {})

    def _bind(self, node: SyntaxNode, bound: _Bound) -> SyntaxNode:
        match node:
            case FunctionCall(target=None, function="inWindow" | "external"):
                return self._named(node)
            case FunctionCall(target=None, function="inFlight" | "settled" | "failed"):
                return self._counter(node, bound)
            case FunctionCall(target=None, function="linearlyReady" | "exponentiallyReady"):
                return self._rate(node, bound)
            case FunctionCall(function="ready" | "updated" | "settled" | "revision", target=SyntaxNode() as target):
                return self._method(node, target, bound)
            case FunctionCall() if not find_function(node.function, method=node.target is not None):
                raise _unknown(node)
            case Macro(target=target):
                inner = {**bound, **self._variables(node, bound)}
                return with_children(node, lambda child: self._bind(child, bound if child is target else inner))
        return with_children(node, lambda child: self._bind(child, bound))

    def _named(self, call: FunctionCall) -> SyntaxNode:
        values, what = _NAMED[call.function]
        match call.arguments:
            case (syntax_tree.Literal(value=str() as name),) if name:
                return _read(call, values, name)
        raise EvaluationError(
            f'{call.function}() takes the name of one {what} as a text, as in {call.function}("name")', at=call.at
        )

    def _counter(self, call: FunctionCall, bound: _Bound) -> SyntaxNode:
        match call.arguments:
            case (collection,) if self._is_collection(collection, bound):
                return _read(call, COUNTERS, call.function)
        raise self._misused(call, self.scope.collection)

    def _rate(self, call: FunctionCall, bound: _Bound) -> SyntaxNode:
        shape = _RATED[call.function]
        match call.arguments:
            case (item, collection, *rest) if self._is_item(item, bound) and self._is_collection(collection, bound):
                rate = PaceCall(shape, _argument(call, shape, rest))
                self.rates.add(rate)
                return _read(call, RATES, str(rate))
        raise self._misused(call, f"each, {self.scope.collection}")

    def _misused(self, call: FunctionCall, arguments: str) -> EvaluationError:
        if not self.scope.collection:
            return EvaluationError(f"{call.function}() needs a collection; this is a single resource", at=call.at)
        return EvaluationError(
            f"{call.function}() is about this collection: write {call.function}({arguments})", at=call.at
        )

    def _method(self, call: FunctionCall, target: SyntaxNode, bound: _Bound) -> SyntaxNode:
        things = self._things(target, bound)
        if things is None and self._is_unknown(target, bound):
            things = _Things("", False)
        if things is None or things.is_list or call.arguments:
            raise EvaluationError(f"{call.function}() {self._asked_of(things, call)}", at=call.at)
        if call.function != "revision" and things.root not in self.scope.items:
            self.waits_for.add(things.root)
        return Select(call.at, call.end, call.depth, self._bind(target, bound), of_item(call.function), False)

    def _is_unknown(self, node: SyntaxNode, bound: _Bound) -> bool:
        """Is it a variable that is not there at all? All such are told of together."""
        return isinstance(node, Variable) and node.name not in self.scope.names | COMMON and node.name not in bound

    def _asked_of(self, things: _Things | None, call: FunctionCall) -> str:
        if things and call.arguments:
            return "takes no arguments"
        if things:
            return f"is asked of one item; of all of them: {things.root}.all(x, x.{call.function}())"
        able = sorted(self.scope.items | self.scope.ancestors.keys())
        return f"is asked of an item of a collection or of a resource; here there are {', '.join(able) or 'none'}"

    def _variables(self, macro: Macro, bound: _Bound) -> _Bound:
        """What the variables of a macro are: the last one is the element of a list."""
        things = self._things(macro.target, bound)
        if macro.name == "cel.bind":
            return {macro.variables[0]: things}
        element = _Things(things.root, False) if things and things.is_list else None
        return {**dict.fromkeys(macro.variables), macro.variables[-1]: element}

    def _things(self, node: SyntaxNode, bound: _Bound) -> _Things | None:
        match node:
            case Variable(name=name, rooted=False) if name in bound:
                return bound[name]
            case Variable(name=name) if name in self.scope.items:
                return _Things(name, False)
            case Variable(name=name) if name == self.scope.collection:
                return _Things(name, True)
            case Variable(name=name) if name in self.scope.ancestors:
                return _Things(name, self.scope.ancestors[name])
            case Index(operand=operand, optional=False):
                things = self._things(operand, bound)
                return _Things(things.root, False) if things and things.is_list else None
            case Macro(name="filter" | "sortBy", target=target):
                return self._things(target, bound)
        return None

    def _is_item(self, node: SyntaxNode, bound: _Bound) -> bool:
        return isinstance(node, Variable) and node.name in self.scope.items and (node.rooted or node.name not in bound)

    def _is_collection(self, node: SyntaxNode, bound: _Bound) -> bool:
        return (
            isinstance(node, Variable)
            and node.name == self.scope.collection
            and (node.rooted or node.name not in bound)
        )


def _read(call: FunctionCall, values: str, key: str) -> SyntaxNode:
    """`values[key]`, in the place of a call."""
    name = Variable(call.at, call.end, 1, values)
    return Index(call.at, call.end, call.depth, name, syntax_tree.Literal(call.at, call.end, 1, key), False)


def _argument(call: FunctionCall, shape: str, rest: list[SyntaxNode]) -> int | str:
    match shape, rest:
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
                'n must be a whole number of at least 1, or a share from "1%" to "100%"', at=rest[0].at
            )
        case "exponential", [_]:
            raise EvaluationError("the factor must be a whole number of at least 2", at=rest[0].at)
    raise EvaluationError(f"{call.function}() takes two or three arguments, not {len(call.arguments)}", at=call.at)


def _unknown(call: FunctionCall) -> EvaluationError:
    """A call of a function that nobody has; of a gate's function, where that was probably meant."""
    known = METHODS if call.target else (*_COUNTED, *_NAMED, *_RATED)
    if not (hint := suggestion(call.function, known)):
        return call_mistake(call) or EvaluationError(f"unknown function {call.function}()", at=call.at)
    return EvaluationError(f"unknown {'method' if call.target else 'function'} {call.function}(){hint}", at=call.at)
