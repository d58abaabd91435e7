"""Evaluation of `propagateWhen`: the gates that are closed for an item now, and the reason of each closed gate.

The module is pure. docs/rollouts.md lists the rules by number:

- A `GateEvaluator` evaluates all gates of a list, and reports all closed gates (S1-4).
- If an expression fails, or names a window or fact that does not exist, its gate is closed with GateError (S1-5).
- If an unknown fact stops the evaluation, the gate is closed with GateClosed, even if the expression negates the fact
  (S1-11). If the other operands decide the result, the unknown fact does not matter.
- If a part of an expression reads the collection, and otherwise only facts of the reconciliation, the evaluator
  computes the part once for all items (S1-14). If the part fails, the evaluator keeps no result.

Because of the kept results, a `GateEvaluator` serves one list of gates, one target and one reconciliation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple

from applier.causes import Cause, CauseRef, Reason
from gitops.gates.pace import make_counter_variables, make_rate_variables, plain_rate
from gitops.rollouts.advance import Pace
from gitops.rollouts.closed_windows import format_closed_windows, window_ref
from gitops.rollouts.collection import Counters, RolloutItem
from gitops.rollouts.policy import Policy
from gitops.windows.verdict import WindowPeriod
from renderer.cel import NoSuchKey
from renderer.cel.syntax_tree import walk
from renderer.cel.why_false import Operand, find_decisive_operands
from renderer.definition.conditions import as_bool
from renderer.definition.gate_functions import (
    COUNTERS,
    EXTERNALS,
    PACE_SETTING_COUNTERS,
    RATES,
    WINDOWS,
    lifecycle_field,
)
from renderer.definition.gates import Gate, value_key
from renderer.errors import ExpressionError
from renderer.frozen import dataclass
from renderer.secret_redaction import without_secret_data

TIME_GATE_INTERVAL: Final = timedelta(minutes=1)
"""Time between two evaluations of a gate that reads `now`, because no event announces the next change of the gate."""


@dataclass(frozen=True, slots=True)
class TargetVariables:
    """Variable `target` of gates: the revision that an item may move to, and the commit of that revision."""

    revision: int
    """Number of the revision."""
    commit: str
    author: str
    """Name of the author, without the email address."""
    message: str

    def as_value(self) -> dict[str, Any]:
        """Return the variable as a CEL value, with the trailers of the commit message."""
        return {
            "revision": self.revision,
            "commit": self.commit,
            "author": self.author,
            "message": self.message,
            "trailers": parse_trailers(self.message),
        }


class ExternalFact(NamedTuple):
    """Answer of an external fact, or the reason why the answer is unknown."""

    answer: bool | None
    """Answer of the fact, or None if the answer is unknown."""
    why: str = ""
    """Reason why the answer is unknown, or an empty string."""


@dataclass(frozen=True, slots=True)
class GateFacts:
    """Facts that are the same for all items in one reconciliation."""

    now: datetime
    """Time of the reconciliation in UTC."""
    target: TargetVariables
    windows: Mapping[str, bool]
    """State of each window that a gate names and that exists, by name: true if the window is open.

    From its cutoff on, a window counts as closed.
    """
    externals: Mapping[str, ExternalFact] | None
    """External facts that the operator declares, by name.

    If the configuration is not available, `externals` is None, and every fact is unknown.
    """


@dataclass(frozen=True, slots=True)
class GateSubject:
    """Item, or resource that an item depends on, with the progress that gates can read."""

    manifest: Mapping[str, Any]
    """Manifest of the object, or an empty mapping if the object does not exist."""
    ready: bool = False
    """True if the object exists and is ready, at any revision. An instance is ready if all of its nodes are ready."""
    updated: bool = False
    """True if the instance has moved to the target or has the grant to move, or if the node is applied as rendered."""
    settled: bool = False
    """True if the instance has settled in its rollout, or if the node is updated and healthy."""
    revision: int = 0
    """Number of the revision that the instance renders. For a node, the revision of its instance.

    For an object that the set no longer renders, the number is 0.
    """

    def as_value(self) -> dict[str, Any]:
        """Return the subject as a CEL value, without the data of Secrets."""
        lifecycle = {"ready": self.ready, "updated": self.updated, "settled": self.settled, "revision": self.revision}
        return {
            **without_secret_data(self.manifest),
            **{lifecycle_field(name): value for name, value in lifecycle.items()},
        }


@dataclass(frozen=True, slots=True)
class GateVariables:
    """Variables that the gates of one item can read, apart from facts and counters."""

    item: GateSubject | None = None
    """Item that the gates are for, or None for a resource without `forEach`."""
    ancestors: Mapping[str, GateSubject | Sequence[GateSubject]] = field(default_factory=dict)
    """Resources that the item depends on, by id of the node. For a collection, the value is a list of resources."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of `schema` and of the iterators of a collection, by name."""


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """Gate that is closed for an item, with the operands or the error that closes the gate."""

    gate: Gate
    reason: Reason
    """Reason why the gate is closed.

    If the evaluation fails, or if a window or fact in the gate does not exist, the reason is GateError. If only windows
    close the gate, the reason is WindowClosed, also for an open window in a negation. If only the pace closes the gate,
    the reason is PaceReached. In all other cases, such as an unknown fact
    or failed items, the reason is GateClosed.
    """
    operands: tuple[str, ...] = ()
    """Operands that decided the result, with their values."""
    windows: frozenset[str] = frozenset()
    """Names of the windows whose change may open the gate."""
    error: str = ""
    """Message for the reason GateError, or an empty string for any other reason."""
    awaits_opening: bool = False
    """True if the gate waits only for windows to open.

    If an open window closes the gate, as in `!inWindow("freeze")`, the value is False.
    """

    def is_bypassed(self, bypassed_windows: Collection[str]) -> bool:
        """Return whether only windows close the gate, and `bypassed_windows` contains all these windows.

        Source: docs/people.md, Break-glass.
        """
        return self.reason is Reason.WINDOW_CLOSED and self.windows <= frozenset(bypassed_windows)

    def as_json(self) -> dict[str, Any]:
        """Return the expression and its location, with the operands and their values, or with the error."""
        result_fields: dict[str, Any] = {"error": self.error} if self.error else {"operands": list(self.operands)}
        return {"expression": self.gate.text, "at": str(self.gate.origin), **result_fields}

    def __str__(self) -> str:
        """Return a text such as `${inWindow("dba-hours")} (apps/webapp.yaml:23): inWindow("dba-hours") = false`."""
        detail = self.error or ", ".join(self.operands)
        location = f" ({self.gate.origin})" if self.gate.origin.file else ""
        return f"${{{self.gate.text}}}{location}" + (f": {detail}" if detail else " is false")


class GateEvaluator:
    """Evaluator of one list of gates for the items of one collection.

    If a gate reads the collection, the evaluator calls the function `items` once.

    Attributes:
        conditions: gates that set no pace.
        pace_gates: gates that set a pace, because they read a rate or one of the counters `inFlight` and `settled`.
    """

    def __init__(
        self,
        gates: Sequence[Gate],
        facts: GateFacts,
        items: Callable[[], Iterable[GateSubject]] = tuple,
        *,
        waits_for_failed: bool = False,
    ) -> None:
        """Make an evaluator of `gates`.

        Args:
            waits_for_failed: True if a failed item keeps its place in the pace, because no halt limits the failures.
        """
        self.facts = facts
        self.conditions = tuple(gate for gate in gates if not gate.sets_pace)
        self.pace_gates = tuple(gate for gate in gates if gate.sets_pace)
        self._items = items
        self._waits_for_failed = waits_for_failed
        self._values: dict[tuple[Gate, str], Any] = {}
        self._answers: dict[Gate, ClosedGate | None] = {}
        self._common = {
            "now": facts.now.replace(microsecond=0),  # S1-13: the same input gives the same decision
            "target": facts.target.as_value(),
            WINDOWS: facts.windows,
            # An unknown fact has no value. So a read of the fact fails, and the negation of the fact cannot be true.
            EXTERNALS: {name: fact.answer for name, fact in (facts.externals or {}).items() if fact.answer is not None},
        }

    def closed_gates(
        self, item_variables: GateVariables, counters: Counters, *, bypassed_windows: Collection[str] = ()
    ) -> tuple[ClosedGate, ...]:
        """Return the closed gates of an item, except pace gates and bypassed gates.

        Args:
            counters: the counters of the wave or collection of the item.
        """
        return tuple(
            closed_gate
            for closed_gate in self._iter_closed(item_variables, counters)
            if not closed_gate.is_bypassed(bypassed_windows)
        )

    def overridden_windows(
        self, item_variables: GateVariables, counters: Counters, *, bypassed_windows: Collection[str]
    ) -> frozenset[str]:
        """Return the names of the windows that would close a gate of an item if no break-glass were in force.

        The result does not cover pace gates.

        Args:
            counters: the counters of the wave or collection of the item.
        """
        closed_gates = self._iter_closed(item_variables, counters) if bypassed_windows else ()
        return frozenset(
            name
            for closed_gate in closed_gates
            if closed_gate.is_bypassed(bypassed_windows)
            for name in closed_gate.windows
        )

    def closed_pace_gates(
        self, policy: Policy, item_variables: GateVariables, item: RolloutItem, counters: Counters
    ) -> tuple[ClosedGate, ...]:
        """Return the pace gates that are closed for `item`.

        A break-glass does not bypass the pace. So the result also contains pace gates that only windows close.

        Args:
            counters: the counters of the wave or collection of `item`.
        """
        evaluated = (
            self._evaluate_cached(
                gate,
                item_variables,
                make_counter_variables(counters)
                | make_rate_variables(gate, policy, item, counters, waits_for_failed=self._waits_for_failed),
            )
            for gate in self.pace_gates
        )
        return tuple(filter(None, evaluated))

    def pace(self, policy: Policy, variables_of: Callable[[str], GateVariables]) -> Pace | None:
        """Return the pace that the gates set, or None if no gate sets a pace.

        If the pace is a single rate, also return None, because `gitops.gates.pace.apply_pace` turns a single rate into
        the shape of the policy.

        Args:
            variables_of: function that returns the variables of the item with the given key.
        """
        if not self.pace_gates or plain_rate(self.pace_gates):
            return None
        return lambda item, counters: not self.closed_pace_gates(policy, variables_of(item.key), item, counters)

    @property
    def wake_at(self) -> datetime | None:
        """Return the time in UTC at which to evaluate the gates again, or None if no gate reads the time.

        The opening and closing times of windows do not count.
        """
        reads_time = any(gate.reads_time for gate in (*self.conditions, *self.pace_gates))
        return self.facts.now + TIME_GATE_INTERVAL if reads_time else None

    def _iter_closed(self, item_variables: GateVariables, counters: Counters) -> Iterator[ClosedGate]:
        values = make_counter_variables(counters)
        return filter(None, (self._evaluate_cached(gate, item_variables, values) for gate in self.conditions))

    def _evaluate_cached(
        self, gate: Gate, item_variables: GateVariables, counter_values: Mapping[str, Any]
    ) -> ClosedGate | None:
        """Return the result of `_evaluate`. If `gate` does not read the item, evaluate `gate` once for all items."""
        if not gate.is_fixed:
            return self._evaluate(gate, item_variables, counter_values)
        if gate not in self._answers:
            self._answers[gate] = self._evaluate(gate, item_variables, counter_values)
        return self._answers[gate]

    def _evaluate(
        self, gate: Gate, item_variables: GateVariables, counter_values: Mapping[str, Any]
    ) -> ClosedGate | None:
        """Return `gate` as a closed gate with its reason, or None if `gate` is open.

        If `gate` names a window or fact that does not exist, `gate` is closed even if the expression would be true.
        """
        if problem := _describe_unknown_name(gate, self.facts):
            return ClosedGate(gate, Reason.GATE_ERROR, error=problem)
        gate_variables = {
            name: gate.views[name].convert(value) if name in gate.views else value
            for name, value in self._variables(gate, item_variables)
        }
        variables = {**self._common, **counter_values, **gate_variables}
        try:
            if as_bool(gate.program, self._evaluate_program(gate, variables)):
                return None
        except ExpressionError as error:
            if not _is_unknown_fact(error):  # An unknown fact is not a fault of the gate.
                return ClosedGate(gate, Reason.GATE_ERROR, error=error.message)
        parts = find_decisive_operands(gate.program, variables)
        windows = frozenset(name for part in parts for node in walk(part.node) if (name := value_key(node, WINDOWS)))
        reason = _reason(parts)
        awaits_opening = reason is Reason.WINDOW_CLOSED and not any(part.value for part in parts)
        return ClosedGate(
            gate, reason, tuple(map(self._describe_operand, parts)), windows, awaits_opening=awaits_opening
        )

    def _describe_operand(self, part: Operand) -> str:
        """Return the operand `part` with its value. If a fact is unknown, add the reason."""
        if not (part.error and _is_unknown_fact(part.error)):
            return str(part)
        fact = (self.facts.externals or {}).get(value_key(part.node, EXTERNALS) or "")
        return f"{part.text} = unknown" + (f" ({fact.why})" if fact and fact.why else "")

    def _evaluate_program(self, gate: Gate, variables: Mapping[str, Any]) -> Any:
        """Return the value of the expression of `gate`, computed with the cached values of its fixed parts.

        If a fixed part fails, evaluate the whole expression, because its result may not depend on that part.

        Raises: ExpressionError.
        """
        if gate.fixed_programs:
            try:
                return gate.reduced_program.evaluate({**variables, **self._fixed_values(gate, variables)})
            except ExpressionError:
                pass
        return gate.program.evaluate(variables)

    def _fixed_values(self, gate: Gate, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the parts of `gate` that do not read the item, by placeholder name.

        Raises: ExpressionError.
        """
        for name, program in gate.fixed_programs.items():
            if (gate, name) not in self._values:
                self._values[gate, name] = program.evaluate(variables)
        return {name: self._values[gate, name] for name in gate.fixed_programs}

    def _variables(self, gate: Gate, item_variables: GateVariables) -> Iterator[tuple[str, Any]]:
        """Yield the name and the value of each variable of the item that `gate` reads.

        If a name has no value, omit the name.
        """
        for name in gate.names:
            if name in gate.scope.items and item_variables.item:
                yield name, item_variables.item.as_value()
            elif name == gate.scope.collection:
                yield name, self._collection
            elif name in item_variables.ancestors:
                yield name, _ancestor_value(item_variables.ancestors[name])
            elif name in item_variables.values:
                yield name, item_variables.values[name]

    @cached_property
    def _collection(self) -> list[dict[str, Any]]:
        return [item.as_value() for item in self._items()]


def _ancestor_value(ancestor: GateSubject | Sequence[GateSubject]) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the CEL value of `ancestor`, which is one resource, or all resources of a collection."""
    if isinstance(ancestor, GateSubject):
        return ancestor.as_value()
    return [subject.as_value() for subject in ancestor]


def _describe_unknown_name(gate: Gate, facts: GateFacts) -> str:
    """Return a message about the first window or fact that `gate` names and that does not exist.

    If all windows and facts in `gate` exist, return an empty string.
    """
    if missing := sorted(gate.windows - facts.windows.keys()):
        return f"window {missing[0]} does not exist; declare the window, or correct the gate"
    if facts.externals is not None and (missing := sorted(gate.externals - facts.externals.keys())):
        return f"external fact {missing[0]!r} is not declared; declare it under `externals` in levelgate.yaml"
    return ""


def make_gate_cause(closed_gates: Sequence[ClosedGate], windows: Mapping[str, WindowPeriod]) -> Cause | None:
    """Return the cause that names `closed_gates`, for which an item waits, or None if `closed_gates` is empty.

    If no window of a gate with the reason WindowClosed has a known next change, the reason of the cause is NeverOpens.
    Otherwise the first gate gives the reason, because a cause has only one reason. The details contain all gates.

    Args:
        closed_gates: closed gates in the order of the definition.
        windows: each window that the gates name, with its present period, by name. The window changes at the end of
            the period.
    """
    if not closed_gates:
        return None
    # A gate may open at the first change of one of its windows. The item has to wait for the last of its gates.
    changes = [_change_times(gate, windows) for gate in closed_gates if gate.reason is Reason.WINDOW_CLOSED]
    never_opens = not all(changes)
    reason = Reason.NEVER_OPENS if never_opens else closed_gates[0].reason
    not_before = None if never_opens else max(map(min, changes), default=None)
    gate_windows = [
        windows[name]
        for name in sorted({name for closed_gate in closed_gates for name in closed_gate.windows} & windows.keys())
    ]
    gates = [
        CauseRef("Gate", closed_gate.gate.text, closed_gate.reason)
        for closed_gate in closed_gates
        if closed_gate.reason is not Reason.WINDOW_CLOSED
    ]
    # The sentence about windows says that the item waits for an opening, and does not name the expressions. So the
    # sentence is used only if one window has to open, and no other operand matters.
    is_plain = len(gate_windows) == 1 and all(closed_gate.awaits_opening for closed_gate in closed_gates)
    message = format_closed_windows(gate_windows, not_before) if is_plain else "; ".join(map(str, closed_gates))
    refs = (*map(window_ref, gate_windows), *gates)
    return Cause(
        reason,
        message,
        until=not_before,
        references=refs,
        details={"gates": [closed_gate.as_json() for closed_gate in closed_gates]},
    )


def parse_trailers(message: str) -> dict[str, str]:
    """Return the trailers of the commit message `message`: the lines `Key: value` in its last paragraph.

    If the message has only one paragraph, the message has no trailers. If a key occurs several times, the last line
    counts. Git also reads continuation lines, and ignores a paragraph with too many other lines. This function does
    neither.

    Source: git-interpret-trailers(1).
    """
    paragraphs = re.split(r"\n\s*\n", message.strip())
    pairs = re.findall(r"^([A-Za-z0-9-]+): *(.*)$", paragraphs[-1], re.MULTILINE) if len(paragraphs) > 1 else []
    return {key: value.strip() for key, value in pairs}


def _reason(parts: Sequence[Operand]) -> Reason:
    """Return the reason why a gate is closed, from the operands `parts` that close the gate.

    If all operands are windows, the reason is WindowClosed. If all operands are rates or counters that set the pace,
    the reason is PaceReached. Otherwise the reason is GateClosed.
    """
    if parts and all(value_key(part.node, WINDOWS) for part in parts):
        return Reason.WINDOW_CLOSED
    if parts and all(
        value_key(part.node, RATES) or value_key(part.node, COUNTERS) in PACE_SETTING_COUNTERS for part in parts
    ):
        return Reason.PACE_REACHED
    return Reason.GATE_CLOSED


def _is_unknown_fact(error: ExpressionError) -> bool:
    return isinstance(error, NoSuchKey) and error.path[0] == EXTERNALS


def _change_times(closed_gate: ClosedGate, windows: Mapping[str, WindowPeriod]) -> list[datetime]:
    return [moment for name in closed_gate.windows if name in windows and (moment := windows[name].until)]
