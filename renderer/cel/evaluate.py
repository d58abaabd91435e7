"""Evaluation of an expression for callers that have values and want a Python value.

evaluate("size(names) > 1 ? names[0] : 'none'", {"names": ["a", "b"]})      # 'a'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.nanoseconds import to_python_time
from renderer.cel.program import parse_program
from renderer.cel.values import LISTS, MAPS, Optional
from renderer.errors import ExpressionError

_SCALARS: Final = frozenset((str, int, bool, float, bytes, type(None)))


def evaluate(expression: str, bindings: Mapping[str, Any]) -> Any:
    """Return the value of `expression`, as CEL evaluates the expression without a type check.

    The types of the result are those of `bindings`, and also `Optional` (`NONE` is the empty optional), `TypeValue`,
    and the value types of the Kubernetes libraries. The function truncates timestamps and durations of the result to
    microseconds. Lists and maps of the result are new, so that a change of the result cannot change `bindings`.

    Args:
        expression: Text of the expression, without `${` and `}`.
        bindings: Values of the variables: int (64 bits), `UInt`, float, str, bytes, bool, None, list, dict, aware
            datetime and timedelta. Names may be qualified (`{"request.time": ...}`). If several names match, the
            longest name takes precedence.

    Raises: ExpressionError, often its subclass NoSuchKey or BudgetExceeded.
    """
    program = parse_program(expression)
    try:
        if "." in "".join(bindings):
            bindings = _nest_qualified_names(bindings)
    except TypeError:
        raise ExpressionError(expression, "a name in the bindings is not a string; use strings as names") from None
    value = program.evaluate(bindings)
    if type(value) in _SCALARS:
        return value
    try:
        return _to_native(value, Meter())
    except EvaluationError as fault:
        raise fault.as_error(expression) from None
    except RecursionError:
        raise ExpressionError(expression, "the result is nested too deeply; use fewer levels") from None


def _nest_qualified_names(bindings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bindings with qualified names as nested maps, merged over the values of shorter names."""
    root: dict[str, Any] = {}
    for name in sorted(bindings, key=len):
        *parents, last = name.split(".")
        level = root
        for step in parents:
            existing = level.get(step)
            level[step] = dict(existing) if isinstance(existing, dict) else {}
            level = level[step]
        level[last] = bindings[name]
    return root


def _to_native(value: Any, meter: Meter) -> Any:
    """Return a copy of `value` with Python's own maps and times instead of CEL's, and pay for the size of the copy."""
    kind = type(value)
    if kind in LISTS:
        meter.spend(2 * len(value))
        return [item if type(item) in _SCALARS else _to_native(item, meter) for item in value]
    if kind in MAPS:
        meter.spend(2 * len(value))
        return {key: item if type(item) in _SCALARS else _to_native(item, meter) for key, item in value.items()}
    if kind is Optional:
        return Optional(_to_native(value.value, meter)) if value.present else value
    return to_python_time(value)
