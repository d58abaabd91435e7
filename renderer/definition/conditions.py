"""Evaluation of `includeWhen` and `readyWhen`, conditions with three answers: yes, no and not known yet.

If `includeWhen` of a node is unknown, Levelgate neither writes nor prunes the node. If `readyWhen` of a node is
unknown, the node is not ready. One false condition makes the whole list false, even if other conditions are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from renderer.cel import Meter, NoSuchKey, Optional, Program, compile_expression, type_name
from renderer.errors import ExpressionError
from renderer.frozen import dataclass

CanArrive = Callable[[ExpressionError], bool]
"""Function that returns whether the data that an expression lacks may still appear."""


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The answer of `includeWhen`. If the answer is yes, no field is set. Otherwise exactly one field is set."""

    false: str = ""
    """The false condition in words."""
    error: str = ""
    """The message of a failed condition."""
    waiting: tuple[str, ...] = ()
    """Texts that name the missing data. Each text can follow "waits for"."""


def evaluate_include_when(
    conditions: Iterable[Program],
    variables: Mapping[str, Any],
    *,
    is_ready: Callable[[str], bool],
    can_arrive: CanArrive,
    meter: Meter,
) -> ConditionResult:
    """Return whether a node belongs to the instance now.

    The function evaluates a condition only if all nodes that the condition reads are ready.

    Args:
        meter: The meter of the instance.
    """
    waiting: list[str] = []
    error = ""
    for condition in conditions:
        if unready := [name for name in sorted(condition.names - {"schema"}) if not is_ready(name)]:
            waiting += [f"{name} to be ready" for name in unready]
            continue
        try:
            if not as_bool(condition, condition.evaluate(variables, meter.renew())):
                return ConditionResult(false=f"${{{condition.text}}} is false")
        except ExpressionError as problem:
            if can_arrive(problem):
                waiting.append(describe_missing(problem))
            else:
                error = error or str(problem)
    return ConditionResult(error=error) if error else ConditionResult(waiting=tuple(waiting))


def evaluate_ready_when(
    conditions: Iterable[Program], variables: Mapping[str, Any], can_arrive: CanArrive, meter: Meter
) -> ReadyVerdict:
    """Return the answer of `readyWhen` for an object that exists."""
    verdict = None
    for condition in conditions:
        try:
            if not as_bool(condition, condition.evaluate(variables, meter.renew())):
                return ReadyVerdict(False, f"${{{condition.text}}} is false")
        except ExpressionError as problem:
            return ReadyVerdict(
                False, f"waits for {describe_missing(problem)}" if can_arrive(problem) else str(problem)
            )
        verdict = True
    return ReadyVerdict(verdict)


def describe_missing(problem: ExpressionError) -> str:
    """Return a text that names the missing data, to follow "waits for"."""
    return ".".join(missing_path(problem)).replace(".[", "[") if isinstance(problem, NoSuchKey) else str(problem)


def missing_path(problem: NoSuchKey) -> tuple[str, ...]:
    """Return the whole path that the expression reads at and below the missing key.

    If the expression reads nothing below the key, return the path of the key.
    """
    missing = tuple(problem.path)
    reads = compile_expression(problem.expression).reads
    return max((read for read in reads if read[: len(missing)] == missing), key=len, default=missing)


def as_bool(condition: Program, value: Any) -> bool:
    """Return `value`, the value of `condition`, as a bool. As in kro, an empty optional is false.

    Raises: ExpressionError if `value` is not a bool or an optional of a bool.
    """
    if isinstance(value, Optional):
        value = value.value if value.present else False
    if not isinstance(value, bool):
        raise ExpressionError(condition.text, f"must be true or false, not {type_name(value)}")
    return value


@dataclass(frozen=True, slots=True)
class ReadyVerdict:
    """The answer of `readyWhen`."""

    verdict: bool | None = None
    """True if dependents may start, False if dependents must wait, or None if the node has no `readyWhen`."""
    why: str = ""
    """The reason why the node is not ready, for messages."""
