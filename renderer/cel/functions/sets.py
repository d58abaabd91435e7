"""`sets`: lists as sets (cel-go's sets extension). Elements are equal as `==` has it."""

from __future__ import annotations

from typing import Any

from renderer.cel.budget import Meter
from renderer.cel.functions.registry import overload
from renderer.cel.operators import contains as is_in


@overload("sets.contains(list, list): bool")
def contains(meter: Meter, values: list[Any], required: list[Any]) -> bool:
    return all(is_in(value, values, meter) for value in required)


@overload("sets.equivalent(list, list): bool")
def equivalent(meter: Meter, left: list[Any], right: list[Any]) -> bool:
    return contains(meter, left, right) and contains(meter, right, left)


@overload("sets.intersects(list, list): bool")
def intersects(meter: Meter, left: list[Any], right: list[Any]) -> bool:
    return any(is_in(value, right, meter) for value in left)
