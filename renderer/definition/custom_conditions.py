"""Conditions that the author of a definition adds to `status.conditions` (kro documentation, "Custom conditions").

    - "${runtime.newCondition({type: 'Serving', status: web.status.ready ? 'True' : 'False', reason: 'Pods'})}"

Custom conditions replace kro's own conditions in the status of an instance. Custom conditions may read kro's
conditions. Therefore Levelgate evaluates kro's conditions first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from renderer.cel import Meter, NoSuchKey, Program, to_json
from renderer.cel.syntax_tree import FunctionCall, Literal, MapLiteral, SyntaxNode, Variable, walk
from renderer.errors import ExpressionError
from renderer.frozen import dataclass
from renderer.template.expressions import parse_expression

KRO_CONDITIONS: Final = ("InstanceManaged", "GraphResolved", "ResourcesReady", "Ready")
LEVELGATE_CONDITIONS: Final = ("Healthy", "Propagated")
"""Conditions of every instance that no author may replace."""

_STATUSES: Final = ("True", "False", "Unknown")
_FIELDS: Final = ("type", "status", "reason", "message")
Condition = dict[str, str]


@dataclass(frozen=True, slots=True)
class ConditionExpression:
    """One entry of `status.conditions`: an expression whose value is a condition or a list of conditions."""

    program: Program
    types: tuple[str, ...]
    """The condition types that the expression contains as literals."""


@dataclass(frozen=True, slots=True)
class CustomConditions:
    """The custom conditions of one instance, with the values that their expressions read."""

    entries: tuple[ConditionExpression, ...]
    values: Mapping[str, Any]

    @classmethod
    def of(cls, entries: tuple[ConditionExpression, ...], variables: Mapping[str, Any]) -> CustomConditions | None:
        """Return the conditions with those of `variables` that they read. Without entries, return None."""
        names = {"schema"}.union(*(entry.program.names for entry in entries))
        return cls(entries, {name: variables[name] for name in names & variables.keys()}) if entries else None

    def evaluate(
        self, built_in: Sequence[Mapping[str, Any]], previous: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Condition], str]:
        """Return the custom conditions in order, and the problems of the expressions as text.

        If an expression lacks data, the previous conditions of the types in its `ConditionExpression.types` stay. If
        two conditions have the same type, the function drops both.

        Args:
            built_in: The conditions that expressions may read.
            previous: The conditions of the last status.
        """
        schema, meter = {**self.values["schema"], "status": {"conditions": list(built_in)}}, Meter.of_instance()
        results: list[Condition] = []
        problems: list[str] = []
        for entry in self.entries:
            try:
                results += _to_conditions(
                    entry.program, entry.program.evaluate({**self.values, "schema": schema}, meter.renew())
                )
            except ExpressionError as error:
                if not (isinstance(error, NoSuchKey) and error.path and error.path[0] != "schema"):
                    problems.append(f"status.conditions: {error}")
                results += [_select_fields(condition) for condition in previous if condition.get("type") in entry.types]
        names = [condition["type"] for condition in results]
        duplicates = sorted({name for name in names if names.count(name) > 1 or name in LEVELGATE_CONDITIONS})
        problems += [
            f"status.conditions: more than one condition has the type {name}; use different types"
            for name in duplicates
        ]
        return [condition for condition in results if condition["type"] not in duplicates], "; ".join(problems)


def compile_entries(entries: Any) -> Iterator[tuple[str, ConditionExpression | ExpressionError]]:
    """Yield each entry of `status.conditions` with its place. For an entry with a mistake, yield the error."""
    if not isinstance(entries, list):
        yield "", ExpressionError(str(entries), "must be a list of expressions that make conditions")
        return
    seen_types: set[str] = set()
    for index, text in enumerate(entries):
        place = f"[{index}]"
        try:
            program = parse_expression(text) if isinstance(text, str) else _refuse_non_expression(text)
            types = tuple(_check_program(program))
        except ExpressionError as error:
            yield place, error
            continue
        for name in types:
            if name in seen_types:
                yield (
                    place,
                    ExpressionError(program.text, f"two expressions make the condition {name}; keep one"),
                )
        seen_types |= set(types)
        yield place, ConditionExpression(program, types)


def _check_program(program: Program) -> Iterator[str]:
    """Yield the types of the conditions that an expression makes, except types that the expression computes.

    Raises: ExpressionError for a mistake that is certain without evaluation.
    """
    makes_condition = False
    for node in walk(program.tree):
        match node:
            case FunctionCall(function="runtime.newCondition", arguments=(MapLiteral(entries=entries),)):
                makes_condition = True
                fields = {key.value: value for key, value, _ in entries if isinstance(key, Literal)}
                _check_literals(program, fields)
                if isinstance(fields["type"], Literal):
                    yield str(fields["type"].value)
            case FunctionCall(
                function="runtime.condition", arguments=(Variable(name="schema"), Literal(value=str() as name))
            ):
                if name not in (*KRO_CONDITIONS, *LEVELGATE_CONDITIONS):
                    readable = ", ".join((*KRO_CONDITIONS, *LEVELGATE_CONDITIONS))
                    raise ExpressionError(
                        program.text,
                        f"{name!r} is not a condition that an expression can read; choose from {readable}",
                    )
    if not makes_condition:
        raise ExpressionError(
            program.text, "does not make a condition; write runtime.newCondition({type: ..., status: ...})"
        )


def _check_literals(program: Program, fields: Mapping[Any, SyntaxNode]) -> None:
    match fields["status"]:
        case Literal(value=value) if value not in _STATUSES:
            raise ExpressionError(
                program.text, f"the status of a condition must be True, False or Unknown, not {value!r}"
            )
    match fields["type"]:
        case Literal(value=value) if value in LEVELGATE_CONDITIONS:
            raise ExpressionError(program.text, f"the condition {value} is Levelgate's own; choose another type")


def _refuse_non_expression(value: Any) -> Program:
    raise ExpressionError(str(value), "is not an expression; write the value as ${runtime.newCondition(...)}")


def _to_conditions(program: Program, value: Any) -> list[Condition]:
    json_value = to_json(value, expression=program.text)
    conditions = json_value if isinstance(json_value, list) else [json_value]
    if not all(
        isinstance(condition, dict) and condition.keys() <= set(_FIELDS) and "type" in condition
        for condition in conditions
    ):
        raise ExpressionError(program.text, "must yield a condition or a list of conditions")
    return conditions


def _select_fields(condition: Mapping[str, Any]) -> Condition:
    return {name: condition[name] for name in _FIELDS if name in condition}
