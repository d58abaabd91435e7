"""The compiled gates of a definition and of its resources (`propagateWhen`, KREP-006).

A gate of a definition decides about one instance at a time. A gate of a resource decides about that resource, or about
one item of its `forEach`. Windows, external facts, counters and rates are variables whose values `gitops.gates`
provides at evaluation. The module `gate_functions` describes the variables of windows, facts, counters and rates.
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
    PACE_SETTING_COUNTERS,
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
"""Variables that, like the collection, have one value for all items of a reconciliation."""
LIFECYCLE_TYPES: Final[Mapping[str, Type]] = {
    lifecycle_field(method): DYN if method == "revision" else BOOL for method in LIFECYCLE_METHODS
}
"""Types of the fields that gates read on an item or resource, in addition to the fields of its schema."""

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
"""Types of the variables that every gate may read."""


@dataclass(frozen=True, eq=False)
class Gate:
    """One condition of `propagateWhen`, with the programs that evaluate it."""

    path: str
    """Place in the definition, such as `spec.propagateWhen[0]`."""
    origin: SourceLocation
    text: str
    """The expression without `${` and `}`."""
    scope: GateScope
    program: Program
    """The whole condition."""
    reduced_program: Program
    """The condition with `fixed_programs` replaced by variables. Levelgate evaluates this form for each item."""
    fixed_programs: Mapping[str, Program]
    """Parts of the condition that have one value for all items of a reconciliation, by variable name."""
    pace_calls: frozenset[PaceCall]
    waits_for: frozenset[str]
    """The resources, and the collection, whose `ready`, `updated` or `settled` the gate reads."""
    views: Mapping[str, View] = field(default_factory=dict)
    """The conversion of JSON to the values that expressions read, by variable.

    The type check sets the conversions, and leaves out variables that need no conversion.
    """

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the variables that the gate reads, except the variables of gate functions."""
        return frozenset(name for name in self.program.names if not name.startswith("@"))

    @cached_property
    def windows(self) -> frozenset[str]:
        """Return the names of the windows that the gate reads. The windows need not exist."""
        return _read_keys(self.program, WINDOWS)

    @cached_property
    def externals(self) -> frozenset[str]:
        """Return the names of the external facts that the gate reads. The facts need not exist."""
        return _read_keys(self.program, EXTERNALS)

    @cached_property
    def counters(self) -> frozenset[str]:
        """Return the names of the counters that the gate reads, such as `failed`."""
        return _read_keys(self.program, COUNTERS)

    @cached_property
    def needed_windows(self) -> frozenset[str]:
        """Return the windows that must be open before the gate can open."""
        tree = self.program.tree
        parts = tree.operands if isinstance(tree, Logic) and tree.operator == "&&" else (tree,)
        return frozenset(name for part in parts if (name := value_key(part, WINDOWS)))

    @cached_property
    def sets_pace(self) -> bool:
        """Return whether the gate limits the items in flight.

        If the gate sets such a limit, the limit replaces the `shape` of the policy.
        """
        return bool(self.pace_calls or self.counters & PACE_SETTING_COUNTERS)

    @cached_property
    def pace_call(self) -> PaceCall | None:
        """Return the call of a pace function if the whole gate is that call, or else None."""
        return next(iter(self.pace_calls)) if value_key(self.program.tree, RATES) else None

    @cached_property
    def reads_time(self) -> bool:
        """Return whether the gate reads `now`, so that its answer may change at an unknown time."""
        return "now" in self.program.names

    @cached_property
    def reads_collection(self) -> bool:
        """Return whether the gate reads the collection as a list. Counters and rates do not need the list."""
        return self.scope.collection in self.program.names

    @cached_property
    def waits_for_items(self) -> bool:
        """Return whether an item may wait for other items of its collection."""
        return self.sets_pace or self.scope.collection in self.waits_for

    @cached_property
    def is_fixed(self) -> bool:
        """Return whether the gate has the same answer for all items of a reconciliation."""
        return self.program.names <= _FIXED_VARIABLES | {self.scope.collection}


@dataclass(frozen=True, slots=True)
class GateInputs:
    """The names that a list of gates may read."""

    scope: GateScope
    secrets: frozenset[str] = frozenset()
    """Variables of Secrets whose data gates may not read."""
    unavailable_hints: Mapping[str, str] = field(default_factory=dict)
    """For each name that only other parts of the definition can read, the reason why gates cannot read the name."""


def compile_gates(
    expressions: Any, path: str, inputs: GateInputs, collector: ProblemCollector
) -> tuple[Gate, ...] | None:
    """Return the compiled gates, or None if `expressions` is None. Add mistakes to `collector`."""
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
            raise ExpressionError(str(text), "is not an expression; write the value as ${...}")
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
        hint = inputs.unavailable_hints.get(name) or f"{name!r} is not a variable of this gate"
        yield f"{hint}; choose from {', '.join(sorted(readable))}"
    if runtime := sorted(call for call in gate.program.calls if call.startswith("runtime.")):
        yield f"{runtime[0]}() works in status.conditions only"
    for read in gate.program.reads:
        name, *fields = read
        if name in inputs.secrets and SECRET_FIELDS.intersection(fields[:2]):
            yield f"gates cannot read the data of Secrets; read other fields of the Secret {name}"


def _make_program(text: str, tree: SyntaxNode) -> Program:
    return Program(text, tree, analyse(tree))


def _read_keys(program: Program, values: str) -> frozenset[str]:
    return frozenset(read[1] for read in program.reads if read[0] == values)


def value_key(node: SyntaxNode, values: str) -> str:
    """Return the key that `node` reads from the variable `values`, or an empty text for any other node.

    For `@windows["dba"]`, the key is `dba`.
    """
    match node:
        case Index(operand=Variable(name=name), key=Literal(value=str() as key)) if name == values:
            return key
    return ""
