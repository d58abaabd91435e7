"""`propagateWhen`: the gates of a definition and of its resources, compiled (KREP-006).

A definition's gates decide about one of its instances at a time, a resource's about the resource or about one item of its `forEach`. What a gate
reads of the world (windows, external facts, counters, the rate) is bound by whoever judges it: see `gate_functions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Final

from renderer.cel import Program
from renderer.cel.analysis import analyse, hoist
from renderer.cel.errors import EvaluationError
from renderer.cel.parser import parse
from renderer.cel.syntax_tree import Index, Literal, Logic, SyntaxNode, Variable
from renderer.cel.types import BOOL, DYN, INT, STRING, Record, Scalar, StaticMap, Type
from renderer.definition.gate_functions import (
    COMMON_VARIABLES,
    COUNTERS,
    EXTERNALS,
    LIFECYCLE_METHODS,
    RATES,
    WINDOWS,
    GateRewriter,
    GateScope,
    PaceCall,
    lifecycle_field,
)
from renderer.definition.problem_collector import ProblemCollector
from renderer.errors import ExpressionError, SourceLocation
from renderer.frozen import dataclass
from renderer.secret_redaction import SECRET_FIELDS
from renderer.template.expressions import Expression, scan
from renderer.template.typed_views import View

_FIXED_VARIABLES: Final = COMMON_VARIABLES | {WINDOWS, EXTERNALS}
"""What has one value for all items in a pass, besides the collection."""
LIFECYCLE_TYPES: Final[Mapping[str, Type]] = {
    lifecycle_field(method): DYN if method == "revision" else BOOL for method in LIFECYCLE_METHODS
}
"""What gates may ask of an item or a resource, beside its own fields."""

_BOOLEANS: Final = StaticMap(STRING, BOOL)
VARIABLE_TYPES: Final[Mapping[str, Type]] = {
    "target": Record(
        {
            "revision": INT,
            **dict.fromkeys(("commit", "author", "message"), STRING),
            "trailers": StaticMap(STRING, STRING),
        }
    ),
    "now": Scalar("timestamp"),
    WINDOWS: _BOOLEANS,
    EXTERNALS: _BOOLEANS,
    RATES: _BOOLEANS,
    COUNTERS: StaticMap(STRING, INT),
}
"""The types of what every gate may read."""


@dataclass(frozen=True, eq=False)
class Gate:
    """One condition: where it stands in its definition and in Git, its text without `${` and `}`, and what it asks for.

    `waits_for`: the resources, and the collection, that it asks whether they are ready, updated or settled. `program` gives the answer. `reduced`
    gives the same from the values of `fixed`, which are the same for all items in one pass. `views` say how it sees its variables, where that is
    not as JSON has them; they come with the check of its types.
    """

    path: str
    origin: SourceLocation
    text: str
    scope: GateScope
    program: Program
    reduced_program: Program
    fixed_programs: Mapping[str, Program]
    pace_calls: frozenset[PaceCall]
    waits_for: frozenset[str]
    views: Mapping[str, View] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        """The variables that it reads."""
        return frozenset(name for name in self.program.names if not name.startswith("@"))

    @cached_property
    def windows(self) -> frozenset[str]:
        """The windows that it asks for; whether there are such is to be checked."""
        return _read_keys(self.program, WINDOWS)

    @cached_property
    def externals(self) -> frozenset[str]:
        """The external facts that it asks for; whether there are such is to be checked."""
        return _read_keys(self.program, EXTERNALS)

    @cached_property
    def needed_windows(self) -> frozenset[str]:
        """The windows that have to be open for this gate to be open, whatever else is."""
        tree = self.program.tree
        parts = tree.operands if isinstance(tree, Logic) and tree.operator == "&&" else (tree,)
        return frozenset(name for part in parts if (name := value_key(part, WINDOWS)))

    @cached_property
    def sets_pace(self) -> bool:
        """Does it say how many may move at a time? Then it does so in place of the policy's shape."""
        return bool(self.pace_calls or _read_keys(self.program, COUNTERS) & {"inFlight", "settled"})

    @cached_property
    def pace_call(self) -> PaceCall | None:
        """The rate that it asks for, where it asks for nothing else."""
        return next(iter(self.pace_calls)) if value_key(self.program.tree, RATES) else None

    @cached_property
    def reads_time(self) -> bool:
        """Does its answer change by time alone, at a moment that nobody knows before?"""
        return "now" in self.program.names

    @cached_property
    def reads_collection(self) -> bool:
        """Does it read the items of the collection as a list? Counters and rates do without."""
        return self.scope.collection in self.program.names

    @cached_property
    def waits_for_items(self) -> bool:
        """May one item wait for others of its collection?"""
        return self.sets_pace or self.scope.collection in self.waits_for

    @cached_property
    def is_fixed(self) -> bool:
        """Has it the same answer for all items in one pass?"""
        return self.program.names <= _FIXED_VARIABLES | {self.scope.collection}


@dataclass(frozen=True, slots=True)
class GateInputs:
    """What one list of gates may read, and what is known about it before there are values.

    `secrets` are variables whose data is withheld; `elsewhere` tells of other names why they cannot be read here.
    """

    scope: GateScope
    secrets: frozenset[str] = frozenset()
    unavailable_hints: Mapping[str, str] = field(default_factory=dict)


def compile_gates(
    expressions: Any, path: str, inputs: GateInputs, collector: ProblemCollector
) -> tuple[Gate, ...] | None:
    """The gates of one list, None where there is no list; mistakes are noted."""
    if expressions is None:
        return None
    if not isinstance(expressions, list):
        collector.fail(path, "must be a list of expressions; [] means no gate")
        return ()
    gates = []
    for index, text in enumerate(expressions):
        place = f"{path}[{index}]"
        try:
            gate = _compile_gate(
                text, place, inputs.scope, SourceLocation(collector.document.file, collector.document.line_of(place))
            )
        except ExpressionError as error:
            collector.fail(place, str(error))
            continue
        gates.append(gate)
        for message in _find_mistakes(gate, inputs):
            collector.fail(place, f"${{{gate.text}}}: {message}")
        collector.refuse_omit([("", gate.program)], place, "a condition is true or false")
    return tuple(gates)


def _compile_gate(text: Any, path: str, scope: GateScope, origin: SourceLocation) -> Gate:
    match scan(text) if isinstance(text, str) else ():
        case (Expression(text=inner),):
            inner = inner.strip()
        case _:
            raise ExpressionError(str(text), "is not an expression; write it as ${...}")
    rewriter = GateRewriter(scope)
    try:
        program = _make_program(inner, rewriter.rewrite(parse(inner)))
        if program.mistake:
            raise program.mistake
    except EvaluationError as fault:
        raise fault.as_error(inner) from None
    reduced, fixed = hoist(program.tree, _FIXED_VARIABLES, scope.collection)
    return Gate(
        path=path,
        origin=origin,
        text=inner,
        scope=scope,
        program=program,
        reduced_program=_make_program(inner, reduced),
        fixed_programs={name: _make_program(inner, part) for name, part in fixed.items()},
        pace_calls=frozenset(rewriter.pace_calls),
        waits_for=frozenset(rewriter.waits_for),
    )


def _find_mistakes(gate: Gate, inputs: GateInputs) -> Iterator[str]:
    readable = inputs.scope.names | COMMON_VARIABLES
    for name in sorted(gate.names - readable):
        yield f"{inputs.unavailable_hints.get(name) or f'nothing is called {name!r} here'}; there are {', '.join(sorted(readable))}"
    if runtime := sorted(call for call in gate.program.calls if call.startswith("runtime.")):
        yield f"{runtime[0]}() works in status.conditions only"
    for read in gate.program.reads:
        name, *fields = read
        if name in inputs.secrets and SECRET_FIELDS.intersection(fields[:2]):
            yield f"gates do not see the data of Secrets; {name} is one"


def _make_program(text: str, tree: SyntaxNode) -> Program:
    return Program(text, tree, analyse(tree))


def _read_keys(program: Program, values: str) -> frozenset[str]:
    return frozenset(read[1] for read in program.reads if read[0] == values)


def value_key(node: SyntaxNode, values: str) -> str:
    """The name under which a part of a gate reads one of these values; empty where it is something else."""
    match node:
        case Index(operand=Variable(name=name), key=Literal(value=str() as key)) if name == values:
            return key
    return ""
