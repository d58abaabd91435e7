"""Optional values (cel-go, "optional types"). `or` and `orValue` are lazy; generated code and the exact evaluator call
`operators` for them.
"""

from __future__ import annotations

from typing import Any

from renderer.cel.budget import Meter
from renderer.cel.comprehensions import expect_optional, optional_or, value_or
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.values import NONE, Optional


@overload("optional.of(dyn): optional")
def optional_of(value: Any) -> Optional:
    return Optional(value)


@overload("optional.none(): optional")
def optional_none() -> Optional:
    return NONE


@overload("optional.ofNonZeroValue(dyn): optional")
def optional_of_non_zero(value: Any) -> Optional:
    return Optional(value) if value else NONE


@overload("optional_type.hasValue(): bool")
def has_value(value: Optional) -> bool:
    return value.present


@overload("optional_type.value(): dyn")
def value_of(value: Optional) -> Any:
    if value.present:
        return value.value
    raise EvaluationError("the optional has no value; use orValue(...)")


@overload("optional.unwrap(list): list", "list.unwrapOpt(): list")
def unwrap(meter: Meter, values: list[Any]) -> list[Any]:
    """The values of those that have one."""
    meter.spend(len(values))
    return [optional.value for optional in map(expect_optional, values) if optional.present]


@overload("optional_type.or(optional_type): optional")
def or_optional(value: Optional, other: Optional) -> Optional:
    return optional_or(value, lambda: other)


@overload("optional_type.orValue(dyn): dyn")
def or_value(value: Optional, other: Any) -> Any:
    return value_or(value, lambda: other)
