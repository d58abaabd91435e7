"""Optional values (cel-go, "optional types").

The argument of `or` and `orValue` is lazy. Therefore both evaluators call the functions of `comprehensions` instead of
the functions that this module declares for `or` and `orValue`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.comprehensions import expect_optional, optional_or, value_or
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.nanoseconds import TIMESTAMP_TYPES
from renderer.cel.values import NONE, Optional

_ZERO_TIMESTAMP: Final = datetime(1, 1, 1, tzinfo=UTC)


@overload("optional_type.value(): dyn")
def value_of(value: Optional) -> Any:
    """Return the value of the optional `value`. Raises: EvaluationError if `value` is empty."""
    if value.present:
        return value.value
    raise EvaluationError("the optional has no value; use orValue(...)")


@overload("optional.ofNonZeroValue(dyn): optional")
def of_non_zero_value(value: Any) -> Optional:
    """Return an optional of `value`, or `NONE` if `value` is the zero value of its type.

    As in cel-go, the zero value of timestamps is the first moment of year 1.
    """
    is_zero = value == _ZERO_TIMESTAMP if type(value) in TIMESTAMP_TYPES else not value
    return NONE if is_zero else Optional(value)


@overload("optional.unwrap(list): list", "list.unwrapOpt(): list")
def unwrap(meter: Meter, values: list[Any]) -> list[Any]:
    """Return the values of the optionals in `values` that are not empty."""
    meter.spend(len(values))
    return [optional.value for optional in map(expect_optional, values) if optional.present]


overload_each(
    {
        "optional.of(dyn): optional": Optional,
        "optional.none(): optional": lambda: NONE,
        "optional_type.hasValue(): bool": lambda value: value.present,
        "optional_type.or(optional_type): optional": lambda value, other: optional_or(value, lambda: other),
        "optional_type.orValue(dyn): dyn": lambda value, other: value_or(value, lambda: other),
    }
)
