"""kro's `runtime`: functions that make and read conditions of an instance's status.

A condition is a map of `type`, `status`, `reason` and `message`, all text. kro accepts `runtime` in `status.conditions`
only. This module does not check the place of an expression. The callers of this module check the place by
`Program.calls`.
"""

from __future__ import annotations

from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.values import MAPS, type_name

FIELDS: Final = ("type", "status", "reason", "message")
_STATUSES: Final = ("True", "False", "Unknown")


@overload("runtime.newCondition(map): map")
def new_condition(fields: dict[str, Any]) -> dict[str, str]:
    """Return the condition of `runtime.newCondition({type: ..., status: ...})`.

    The parser has checked the keys of `fields`. Raises: EvaluationError for a value that a condition cannot have.
    """
    for name, value in fields.items():
        if type(value) is not str:
            raise EvaluationError(f"runtime.newCondition: {name} must be a string, not {type_name(value)}")
    if not fields["type"]:
        raise EvaluationError("runtime.newCondition: type must not be empty")
    if fields["status"] not in _STATUSES:
        raise EvaluationError(f"runtime.newCondition: status must be {', '.join(_STATUSES)}, not {fields['status']!r}")
    return {name: fields.get(name, "") for name in FIELDS}


@overload("runtime.condition(map, string): map")
def condition(meter: Meter, holder: dict[str, Any], condition_type: str) -> dict[str, str]:
    """Return the condition with the type `condition_type` in `holder.status.conditions`.

    If the condition is absent, all texts of the result are empty.

    Raises: EvaluationError if a field of `holder` has a wrong type.
    """
    conditions = _get_field(_get_field(holder, "obj", "status", {}), "obj.status", "conditions", [])
    meter.spend(len(conditions))
    for item in conditions:
        if type(item) not in MAPS:
            raise EvaluationError(f"runtime.condition: a condition must be a map, not {type_name(item)}")
        if item.get("type") == condition_type:
            return {name: _text_or_empty(item.get(name)) for name in FIELDS}
    return dict.fromkeys(FIELDS, "")


def _get_field(holder: dict[str, Any], place: str, name: str, default: Any) -> Any:
    value = holder.get(name, default)
    if type(value) is not type(default):
        raise EvaluationError(
            f"runtime.condition: {place}.{name} must be of type {type_name(default)}, not {type_name(value)}"
        )
    return value


def _text_or_empty(value: Any) -> str:
    return value if type(value) is str else ""
