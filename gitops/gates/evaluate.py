"""Is the `propagateWhen` of one item open now, and if not, why?

A function of values. All gates of a list are judged and all closed ones told (S1-4); one that cannot be judged is closed (S1-5). What an
expression says of all items alike is worked out once for all of them (S1-14): one `GateEvaluator` is for one list of gates, one target and one pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple

from applier.causes import Cause, CauseRef, Reason
from gitops.rollouts.advance import Pace
from gitops.rollouts.closed_windows import format_closed_windows, window_ref
from gitops.rollouts.collection import Counters, RolloutItem
from gitops.rollouts.policy import Mode, Policy
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Shape, frontier
from gitops.windows.verdict import ClosedWindow
from renderer.cel import NoSuchKey
from renderer.cel.syntax_tree import walk
from renderer.cel.why_false import Operand, find_decisive_operands
from renderer.definition.conditions import as_bool
from renderer.definition.gate_functions import COUNTERS, EXTERNALS, RATES, WINDOWS, PaceCall, lifecycle_field
from renderer.definition.gates import Gate, value_key
from renderer.errors import ExpressionError
from renderer.frozen import dataclass
from renderer.secret_redaction import without_secret_data

TIME_GATE_INTERVAL: Final = timedelta(minutes=1)
"""A gate that reads `now` is judged again after this: when it changes nobody can know before."""


@dataclass(frozen=True, slots=True)
class TargetVariables:
    """What gates read as `target`: where an item would move to."""

    revision: int
    commit: str
    author: str
    message: str

    def as_value(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "commit": self.commit,
            "author": self.author,
            "message": self.message,
            "trailers": parse_trailers(self.message),
        }


class ExternalFact(NamedTuple):
    """What is known of an external fact: is it so? None where that is not known; then `why`."""

    answer: bool | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class GateFacts:
    """What is the same for all items in one pass. `windows`: is each open, cutoff counted; it must hold all that gates name. `externals` are all
    that the operator declares, None where nobody knows which these are: then nothing is known of any.
    """

    now: datetime
    target: TargetVariables
    windows: Mapping[str, bool]
    externals: Mapping[str, ExternalFact] | None


@dataclass(frozen=True, slots=True)
class GateSubject:
    """An item, or a resource that an item depends on, as gates see it: the live object, empty where there is none, and what it stands at."""

    manifest: Mapping[str, Any]
    ready: bool = False
    updated: bool = False
    settled: bool = False
    revision: int = 0

    def as_value(self) -> dict[str, Any]:
        lifecycle = {"ready": self.ready, "updated": self.updated, "settled": self.settled, "revision": self.revision}
        return {
            **without_secret_data(self.manifest),
            **{lifecycle_field(name): value for name, value in lifecycle.items()},
        }


@dataclass(frozen=True, slots=True)
class GateVariables:
    """What the gates of one item may read, by name, besides facts and counters. `item` is None for a single resource; `values` are `schema`
    and the iterators, `ancestors` the resources that it depends on.
    """

    item: GateSubject | None = None
    ancestors: Mapping[str, GateSubject | Sequence[GateSubject]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """One gate that is not open. `parts`: the operands that made it so, with their values.

    `reason`: WindowClosed where windows alone did, PaceReached where the pace alone did, GateError where it cannot be judged, else GateClosed.
    `windows`: those whose change may open it; `awaits_opening`: it waits for them to open, and for nothing else.
    """

    gate: Gate
    reason: Reason
    operands: tuple[str, ...] = ()
    windows: frozenset[str] = frozenset()
    error: str = ""
    awaits_opening: bool = False

    def is_bypassed(self, bypassed_windows: Collection[str]) -> bool:
        """Does it wait for windows alone, and somebody goes past all of these?"""
        return self.reason is Reason.WINDOW_CLOSED and self.windows <= frozenset(bypassed_windows)

    def as_json(self) -> dict[str, Any]:
        """For a report: the expression, where it stands, and the operands with their values, or why it cannot be judged."""
        result_fields: dict[str, Any] = {"error": self.error} if self.error else {"operands": list(self.operands)}
        return {"expression": self.gate.text, "at": str(self.gate.origin), **result_fields}

    def __str__(self) -> str:
        """`${inWindow("dba-hours")} (apps/webapp.yaml:23): inWindow("dba-hours") = false`"""
        detail = self.error or ", ".join(self.operands)
        location = f" ({self.gate.origin})" if self.gate.origin.file else ""
        return f"${{{self.gate.text}}}{location}" + (f": {detail}" if detail else " is false")


class GateEvaluator:
    """Judges one list of gates. `items` gives the items of the collection; it is called once, and only if a gate reads them as a list."""

    def __init__(
        self, gates: Sequence[Gate], facts: GateFacts, items: Callable[[], Iterable[GateSubject]] = tuple
    ) -> None:
        self.facts = facts
        self.conditions = tuple(gate for gate in gates if not gate.sets_pace)
        self.rates = tuple(gate for gate in gates if gate.sets_pace)
        self._items = items
        self._values: dict[tuple[Gate, str], Any] = {}
        self._answers: dict[Gate, ClosedGate | None] = {}
        self._common = {
            "now": facts.now.replace(microsecond=0),
            "target": facts.target.as_value(),
            WINDOWS: facts.windows,
            EXTERNALS: {name: fact.answer for name, fact in (facts.externals or {}).items() if fact.answer is not None},
        }

    def closed_gates(self, view: GateVariables, bypassed_windows: Collection[str] = ()) -> tuple[ClosedGate, ...]:
        """The conditions that keep this item where it is, where somebody goes `past` these windows; those that set the pace are not asked."""
        return tuple(
            closed_gate for closed_gate in self._iter_closed(view) if not closed_gate.is_bypassed(bypassed_windows)
        )

    def overridden_windows(self, view: GateVariables, bypassed_windows: Collection[str]) -> frozenset[str]:
        """The windows, by name, whose conditions are closed for this item and passed."""
        closed_gates = self._iter_closed(view) if bypassed_windows else ()
        return frozenset(
            name
            for closed_gate in closed_gates
            if closed_gate.is_bypassed(bypassed_windows)
            for name in closed_gate.windows
        )

    def closed_pace_gates(
        self, policy: Policy, view: GateVariables, item: RolloutItem, counters: Counters
    ) -> tuple[ClosedGate, ...]:
        """The gates that set the pace and let this item not move, given the counters of its wave."""
        return tuple(
            filter(
                None,
                (
                    self._evaluate_cached(gate, view, _counter_values(gate, policy, item, counters))
                    for gate in self.rates
                ),
            )
        )

    def pace(self, policy: Policy, variables_of: Callable[[str], GateVariables]) -> Pace | None:
        """The pace of a rollout where the gates set one that no shape of a policy is; see `paced`. `view_of` an item's key."""
        if not self.rates or plain_rate(self.rates):
            return None
        return lambda item, counters: not self.closed_pace_gates(policy, variables_of(item.key), item, counters)

    @property
    def wake_at(self) -> datetime | None:
        """When to ask again although no event came; windows apart, which have edges of their own."""
        reads_time = any(gate.reads_time for gate in (*self.conditions, *self.rates))
        return self.facts.now + TIME_GATE_INTERVAL if reads_time else None

    def _iter_closed(self, view: GateVariables) -> Iterator[ClosedGate]:
        return filter(None, (self._evaluate_cached(gate, view, {}) for gate in self.conditions))

    def _evaluate_cached(self, gate: Gate, view: GateVariables, counter_values: Mapping[str, Any]) -> ClosedGate | None:
        if not gate.is_fixed:
            return self._evaluate(gate, view, counter_values)
        if gate not in self._answers:
            self._answers[gate] = self._evaluate(gate, view, counter_values)
        return self._answers[gate]

    def _evaluate(self, gate: Gate, view: GateVariables, counter_values: Mapping[str, Any]) -> ClosedGate | None:
        if problem := _describe_unknown_name(gate, self.facts):
            return ClosedGate(gate, Reason.GATE_ERROR, error=problem)
        gate_variables = {
            name: gate.views[name](value) if name in gate.views else value
            for name, value in self._variables(gate, view)
        }
        variables = {**self._common, **counter_values, **gate_variables}
        try:
            if as_bool(gate.program, self._evaluate_program(gate, variables)):
                return None
        except ExpressionError as error:
            if not _is_unknown_fact(error):
                return ClosedGate(gate, Reason.GATE_ERROR, error=error.message)
        parts = find_decisive_operands(gate.program, variables)
        windows = frozenset(name for part in parts for node in walk(part.node) if (name := value_key(node, WINDOWS)))
        reason = _reason(parts)
        awaits_opening = reason is Reason.WINDOW_CLOSED and not any(part.value for part in parts)
        return ClosedGate(
            gate, reason, tuple(map(self._describe_operand, parts)), windows, awaits_opening=awaits_opening
        )

    def _describe_operand(self, part: Operand) -> str:
        if not (part.error and _is_unknown_fact(part.error)):
            return str(part)
        fact = (self.facts.externals or {}).get(value_key(part.node, EXTERNALS) or "")
        return f"{part.text} = unknown" + (f" ({fact.why})" if fact and fact.why else "")

    def _evaluate_program(self, gate: Gate, variables: Mapping[str, Any]) -> Any:
        """Where a part that is the same for all fails, the whole is evaluated, because what stands around it may not need it."""
        if gate.fixed_programs:
            try:
                return gate.reduced_program.evaluate({**variables, **self._fixed_values(gate, variables)})
            except ExpressionError:
                pass
        return gate.program.evaluate(variables)

    def _fixed_values(self, gate: Gate, variables: Mapping[str, Any]) -> dict[str, Any]:
        for name, program in gate.fixed_programs.items():
            if (gate, name) not in self._values:
                self._values[gate, name] = program.evaluate(variables)
        return {name: self._values[gate, name] for name in gate.fixed_programs}

    def _variables(self, gate: Gate, view: GateVariables) -> Iterator[tuple[str, Any]]:
        for name in gate.names:
            if name in gate.scope.items and view.item:
                yield name, view.item.as_value()
            elif name == gate.scope.collection:
                yield name, self._collection
            elif name in view.ancestors:
                ancestor = view.ancestors[name]
                yield (
                    name,
                    ancestor.as_value()
                    if isinstance(ancestor, GateSubject)
                    else [subject.as_value() for subject in ancestor],
                )
            elif name in view.values:
                yield name, view.values[name]

    @cached_property
    def _collection(self) -> list[dict[str, Any]]:
        return [item.as_value() for item in self._items()]


def _describe_unknown_name(gate: Gate, facts: GateFacts) -> str:
    """Why it cannot be judged whatever the item; empty where it can."""
    if missing := sorted(gate.windows - facts.windows.keys()):
        return f"window {missing[0]} does not exist"
    if facts.externals is not None and (missing := sorted(gate.externals - facts.externals.keys())):
        return f"external fact {missing[0]!r} is not declared; declare it under `externals` in levelgate.yaml"
    return ""


def apply_pace(policy: Policy, gates: Sequence[Gate] | None) -> Policy:
    """The policy with what a definition says about the pace: nothing (None, or conditions only), no pace at all (an empty list), or a rate.

    A list that sets another pace leaves the policy as it is; `GateEvaluator.pace` takes its place.
    """
    if gates is None:
        return policy
    if not gates:
        return policy.without_pace()
    rate = plain_rate([gate for gate in gates if gate.sets_pace])
    return policy.with_pace(shape_of(rate)) if rate else policy


def plain_rate(gates: Sequence[Gate]) -> PaceCall | None:
    """The one rate that these gates ask for, where there is one and they ask for nothing else."""
    return gates[0].pace_call if len(gates) == 1 else None


def shape_of(rate: PaceCall) -> Shape:
    match rate.argument:
        case int() as factor if rate.shape == "exponential":
            return Exponential(factor)
        case argument:
            return Linear(CountOrPercent.parse(argument))


def make_wait(closed_gates: Sequence[ClosedGate], windows: Mapping[str, ClosedWindow]) -> Cause | None:
    """Why an item does not move, None if nothing is closed. `windows`: since when each is as it is, and when that changes next."""
    if not closed_gates:
        return None
    never_opening = [
        closed_gate
        for closed_gate in closed_gates
        if closed_gate.reason is Reason.WINDOW_CLOSED and not _change_times(closed_gate, windows)
    ]
    reason = Reason.NEVER_OPENS if never_opening else closed_gates[0].reason
    starts = [
        min(change_times)
        for closed_gate in closed_gates
        if closed_gate.reason is Reason.WINDOW_CLOSED and (change_times := _change_times(closed_gate, windows))
    ]
    not_before = None if never_opening else max(starts, default=None)
    closed_windows = [
        windows[name]
        for name in sorted({name for closed_gate in closed_gates for name in closed_gate.windows} & windows.keys())
    ]
    gates = [
        CauseRef("Gate", closed_gate.gate.text, closed_gate.reason)
        for closed_gate in closed_gates
        if closed_gate.reason is not Reason.WINDOW_CLOSED
    ]
    is_plain = len(closed_windows) == 1 and all(closed_gate.awaits_opening for closed_gate in closed_gates)
    message = format_closed_windows(closed_windows, not_before) if is_plain else "; ".join(map(str, closed_gates))
    refs = (*map(window_ref, closed_windows), *gates)
    return Cause(
        reason,
        message,
        until=not_before,
        references=refs,
        details={"gates": [closed_gate.as_json() for closed_gate in closed_gates]},
    )


def parse_trailers(message: str) -> dict[str, str]:
    """The trailers of a commit message, as Git understands them: lines `Key: value` in its last paragraph, which is not its first."""
    paragraphs = re.split(r"\n\s*\n", message.strip())
    pairs = re.findall(r"^([A-Za-z0-9-]+): *(.*)$", paragraphs[-1], re.MULTILINE) if len(paragraphs) > 1 else []
    return {key: value.strip() for key, value in pairs}


def _counter_values(gate: Gate, policy: Policy, item: RolloutItem, counters: Counters) -> dict[str, Any]:
    """Counters, and whether each rate lets the item move: it did already, or fewer are updated than the shape allows."""
    done_count = counters.settled + counters.failed
    sliding = policy.mode is Mode.SLIDING
    return {
        COUNTERS: {"inFlight": counters.in_flight, "settled": counters.settled, "failed": counters.failed},
        RATES: {
            str(rate): item.has_moved
            or counters.updated < frontier(shape_of(rate), done_count, counters.total, sliding=sliding)
            for rate in gate.pace_calls
        },
    }


def _reason(parts: Sequence[Operand]) -> Reason:
    if parts and all(value_key(part.node, WINDOWS) for part in parts):
        return Reason.WINDOW_CLOSED
    if parts and all(value_key(part.node, RATES) or value_key(part.node, COUNTERS) for part in parts):
        return Reason.PACE_REACHED
    return Reason.GATE_CLOSED


def _is_unknown_fact(error: ExpressionError) -> bool:
    return isinstance(error, NoSuchKey) and error.path[0] == EXTERNALS


def _change_times(closed_gate: ClosedGate, windows: Mapping[str, ClosedWindow]) -> list[datetime]:
    return [moment for name in closed_gate.windows if name in windows and (moment := windows[name].until)]
