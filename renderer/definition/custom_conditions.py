"""Conditions that a definition's author writes: `status.conditions`, a list of expressions (kro documentation, "Custom conditions").

    - "${runtime.newCondition({type: 'Serving', status: web.status.ready ? 'True' : 'False', reason: 'Pods'})}"

They replace kro's own conditions in an instance's status. They may read those, and so are evaluated last, when these are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from renderer.cel import Meter, NoSuchKey, Program, to_json
from renderer.cel.syntax_tree import FunctionCall, Literal, MapLiteral, SyntaxNode, Variable, walk
from renderer.errors import ExpressionError
from renderer.frozen import dataclass
from renderer.template.expressions import parse_expression

KROS: Final = ("InstanceManaged", "GraphResolved", "ResourcesReady", "Ready")
OURS: Final = ("Healthy", "Propagated")
"""Conditions of every instance that no author may replace."""

_STATUSES: Final = ("True", "False", "Unknown")
_FIELDS: Final = ("type", "status", "reason", "message")
Condition = dict[str, str]


@dataclass(frozen=True, slots=True)
class ConditionExpression:
    """One expression; `types` are the conditions that it is known to make, from their literal types."""

    program: Program
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CustomConditions:
    """The author's conditions of one instance: what makes them, and what is known of the nodes."""

    entries: tuple[ConditionExpression, ...]
    values: Mapping[str, Any]

    def conditions(
        self, built_in: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Condition], str]:
        """The conditions, in order, and what is wrong with them; `built_in` are those that may be read, `before` those of the last status.

        An expression whose data is not there yet keeps those of its conditions whose types are written out. Two of one type are both dropped.
        """
        schema, meter = {**self.values["schema"], "status": {"conditions": list(built_in)}}, Meter.of_instance()
        found: list[Condition] = []
        problems: list[str] = []
        for entry in self.entries:
            try:
                found += _made(entry.program, entry.program.evaluate({**self.values, "schema": schema}, meter.renew()))
            except ExpressionError as error:
                if not (isinstance(error, NoSuchKey) and error.path and error.path[0] != "schema"):
                    problems.append(f"status.conditions: {error}")
                found += [_kept(one) for one in before if one.get("type") in entry.types]
        names = [one["type"] for one in found]
        twice = sorted({name for name in names if names.count(name) > 1 or name in OURS})
        problems += [f"status.conditions: more than one condition has the type {name}" for name in twice]
        return [one for one in found if one["type"] not in twice], "; ".join(problems)


def compile_entries(written: Any) -> Iterator[tuple[str, ConditionExpression | ExpressionError]]:
    """The entries of `status.conditions` with their places; mistakes instead of those that have any."""
    if not isinstance(written, list):
        yield "", ExpressionError(str(written), "must be a list of expressions that make conditions")
        return
    taken: set[str] = set()
    for index, text in enumerate(written):
        place = f"[{index}]"
        try:
            program = parse_expression(text) if isinstance(text, str) else _no_expression(text)
            types = tuple(_checked(program))
        except ExpressionError as error:
            yield place, error
            continue
        for name in types:
            if name in taken:
                yield place, ExpressionError(program.text, f"a condition of the type {name} is made already")
        taken |= set(types)
        yield place, ConditionExpression(program, types)


def _checked(program: Program) -> Iterator[str]:
    """Literal types of the conditions that an expression makes. Raises ExpressionError for what can be seen to be wrong."""
    made = False
    for node in walk(program.tree):
        match node:
            case FunctionCall(function="runtime.newCondition", arguments=(MapLiteral(entries=entries),)):
                made = True
                given = {key.value: value for key, value, _ in entries if isinstance(key, Literal)}
                _check_literals(program, given)
                if isinstance(given["type"], Literal):
                    yield str(given["type"].value)
            case FunctionCall(
                function="runtime.condition", arguments=(Variable(name="schema"), Literal(value=str() as name))
            ):
                if name not in (*KROS, *OURS):
                    known = ", ".join((*KROS, *OURS))
                    raise ExpressionError(
                        program.text, f"of the instance itself only {known} can be read, not {name!r}"
                    )
    if not made:
        raise ExpressionError(program.text, "makes no condition; write runtime.newCondition({type: ..., status: ...})")


def _check_literals(program: Program, given: Mapping[Any, SyntaxNode]) -> None:
    match given["status"]:
        case Literal(value=value) if value not in _STATUSES:
            raise ExpressionError(program.text, f"the status of a condition is True, False or Unknown, not {value!r}")
    match given["type"]:
        case Literal(value=value) if value in OURS:
            raise ExpressionError(program.text, f"the condition {value} is Levelgate's own; choose another type")


def _no_expression(written: Any) -> Program:
    raise ExpressionError(str(written), "is not an expression; write it as ${runtime.newCondition(...)}")


def _made(program: Program, value: Any) -> list[Condition]:
    found = to_json(value, expression=program.text)
    conditions = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) and one.keys() <= set(_FIELDS) and "type" in one for one in conditions):
        raise ExpressionError(program.text, "must give a condition or a list of conditions")
    return conditions


def _kept(condition: Mapping[str, Any]) -> Condition:
    return {name: condition[name] for name in _FIELDS if name in condition}
