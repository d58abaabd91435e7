"""`includeWhen` and `readyWhen`: conditions with three answers, yes, no and not known yet.

What is not known decides nothing: a node whose `includeWhen` waits stays as it is, neither written nor deleted; a node whose `readyWhen` waits
is not ready. One condition that is false decides for the whole list, whatever the others say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from renderer.cel import Meter, NoSuchKey, Optional, Program, compile_expression, type_name
from renderer.errors import ExpressionError
from renderer.frozen import dataclass

CanArrive = Callable[[ExpressionError], bool]
"""Can the data that an expression misses still come?"""


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """Exactly one of `false`, `error` and `waiting` is set where the answer is not yes."""

    false: str = ""
    error: str = ""
    waiting: tuple[str, ...] = ()


def evaluate_include_when(
    conditions: Iterable[Program],
    variables: Mapping[str, Any],
    *,
    is_ready: Callable[[str], bool],
    can_arrive: CanArrive,
    meter: Meter,
) -> ConditionResult:
    """Does a node belong to the instance now? Other nodes that a condition reads must be ready before it is asked. `meter` is the instance's."""
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
    """The answer of `readyWhen` about an object that exists; no verdict without conditions."""
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
    """What is waited for, as text."""
    return ".".join(missing_path(problem)).replace(".[", "[") if isinstance(problem, NoSuchKey) else str(problem)


def missing_path(problem: NoSuchKey) -> tuple[str, ...]:
    """The whole path that the expression reads where the missing key lies on it, else the path of the missing key."""
    missing = tuple(problem.path)
    reads = compile_expression(problem.expression).reads
    return max((read for read in reads if read[: len(missing)] == missing), key=len, default=missing)


def as_bool(condition: Program, value: Any) -> bool:
    """The answer of a condition; an optional without a value counts as false (kro). Raises ExpressionError for other values."""
    if isinstance(value, Optional):
        value = value.value if value.present else False
    if not isinstance(value, bool):
        raise ExpressionError(condition.text, f"must be true or false, not {type_name(value)}")
    return value


@dataclass(frozen=True, slots=True)
class ReadyVerdict:
    """The definition's own answer to "may dependents start?": `verdict` None where the node has no `readyWhen`."""

    verdict: bool | None = None
    why: str = ""
