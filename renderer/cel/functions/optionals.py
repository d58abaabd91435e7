"""Optional values (cel-go, "optional types").

The argument of `or` and `orValue` is lazy. Therefore both evaluators call the functions of `comprehensions` instead of
the functions that this module declares for `or` and `orValue`.
"""

from __future__ import annotations

from typing import Any

from renderer.cel.budget import Meter
from renderer.cel.comprehensions import expect_optional, optional_or, value_or
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.values import NONE, Optional


@overload("optional_type.value(): dyn")
def value_of(value: Optional) -> Any:
    """Return the value of the optional `value`. Raises: EvaluationError if `value` is empty."""
    if value.present:
        return value.value
    raise EvaluationError("the optional has no value; use orValue(...)")


@overload("optional.unwrap(list): list", "list.unwrapOpt(): list")
def unwrap(meter: Meter, values: list[Any]) -> list[Any]:
    """Return the values of the optionals in `values` that are not empty."""
    meter.spend(len(values))
    return [optional.value for optional in map(expect_optional, values) if optional.present]


overload_each(
    {
        "optional.of(dyn): optional": Optional,
        "optional.none(): optional": lambda: NONE,
        "optional.ofNonZeroValue(dyn): optional": lambda value: Optional(value) if value else NONE,
        "optional_type.hasValue(): bool": lambda value: value.present,
        "optional_type.or(optional_type): optional": lambda value, other: optional_or(value, lambda: other),
        "optional_type.orValue(dyn): dyn": lambda value, other: value_or(value, lambda: other),
    }
)
