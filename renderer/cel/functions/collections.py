"""Lists, maps and sets: `size`, cel-go's lists and sets, Kubernetes' lists library, kro's maps and lists.

The sets library compares elements by `==`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.containers import NUMBERS, lookup
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.nanoseconds import DURATION_TYPES, TIMESTAMP_TYPES
from renderer.cel.operators import add, check_sortable, contains, equal
from renderer.cel.values import LISTS, NONE, OMIT, Optional, type_name
from renderer.phrasing import format_count

_COMPARABLE: Final = (NUMBERS, TIMESTAMP_TYPES, DURATION_TYPES)
"""Sets of types whose values the functions can compare with each other.

Unlike this module, cel-go does not sort numbers of mixed types.
"""


@overload("size(string): int", "size(bytes): int", "size(list): int", "size(map): int")
@overload("string.size(): int", "bytes.size(): int", "list.size(): int", "map.size(): int")
def size(value: Any) -> int:
    """Return the number of characters, bytes, elements or entries of `value`."""
    return len(value)


@overload("list.slice(int, int): list")
def slice_list(meter: Meter, values: list[Any], start: int, end: int) -> list[Any]:
    """Return the elements from index `start` up to, but not including, index `end`.

    Raises: EvaluationError if `start` is after `end`, or either is outside of `values`.
    """
    if start < 0 or end < 0 or start > end or end > len(values):
        raise EvaluationError(f"slice({start}, {end}) is outside of a list of {format_count(len(values), 'item')}")
    meter.spend(end - start)
    return values[start:end]


@overload("list.flatten(): list", "list.flatten(int): list")
def flatten(meter: Meter, values: list[Any], depth: int = 1) -> list[Any]:
    """Return `values` with each nested list replaced by its elements, to a nesting of `depth` levels.

    Raises: EvaluationError if `depth` is negative.
    """
    if depth < 0:
        raise EvaluationError("flatten: the depth is negative; use a depth of at least 0")
    flat: list[Any] = []
    meter.spend(len(values))
    for value in values:
        if type(value) in LISTS and depth > 0:
            flat += flatten(meter, value, depth - 1)
        else:
            flat.append(value)
    return flat


@overload("list.distinct(): list")
def distinct(meter: Meter, values: list[Any]) -> list[Any]:
    """Return the elements of `values` without duplicates, in the order of their first occurrence."""
    unique_values: list[Any] = []
    for value in values:
        meter.spend(1 + 4 * len(unique_values))
        if not any(equal(value, other, meter) for other in unique_values):
            unique_values.append(value)
    return unique_values


@overload("list.reverse(): list")
def reverse(meter: Meter, values: list[Any]) -> list[Any]:
    """Return the elements of `values` in reverse order."""
    meter.spend(len(values))
    return values[::-1]


@overload("list.sort(): list")
def sort(meter: Meter, values: list[Any]) -> list[Any]:
    """Return the elements of `values` in ascending order. Raises: EvaluationError if the elements have no order."""
    check_sortable(values, meter)
    return sorted(values)


@overload("lists.range(int): list")
def number_range(meter: Meter, count: int) -> list[int]:
    """Return the integers from 0 to `count` - 1. Raises: EvaluationError if `count` is negative."""
    if count < 0:
        raise EvaluationError(f"lists.range: {count} is negative")
    meter.spend(count)
    return list(range(count))


@overload("list.isSorted(): bool")
def is_sorted(meter: Meter, values: list[Any]) -> bool:
    """Return whether `values` is in ascending order. Raises: EvaluationError if its elements have no order."""
    check_sortable(values, meter, alike=_COMPARABLE)
    return all(a <= b for a, b in pairwise(values))


@overload("list.sum(): dyn")
def total(meter: Meter, values: list[Any]) -> Any:
    """Return the sum of `values`: numbers of one type, or durations. The sum of an empty list is 0.

    Raises: EvaluationError for elements of other types.
    """
    if not values:
        return 0
    for value in values:
        if type(value) not in NUMBERS and type(value) not in DURATION_TYPES:
            raise EvaluationError(f"sum: elements are {type_name(value)}, not numbers or durations")
    result: Any = values[0]
    for value in values[1:]:
        meter.spend(1)
        result = add(result, value, meter)
    return result


def _require_comparable(name: str, meter: Meter, values: list[Any]) -> list[Any]:
    if not values:
        raise EvaluationError(f"{name} of an empty list has no value; test size(list) > 0 first")
    check_sortable(values, meter, alike=_COMPARABLE)
    return values


@overload("list.indexOf(dyn): int")
def index_of(meter: Meter, values: list[Any], target: Any) -> int:
    """Return the index of the first element that equals `target`, or -1 if no element equals `target`."""
    meter.spend(len(values))
    return next((index for index, value in enumerate(values) if equal(value, target, meter)), -1)


@overload("list.lastIndexOf(dyn): int")
def last_index_of(meter: Meter, values: list[Any], target: Any) -> int:
    """Return the index of the last element that equals `target`, or -1 if no element equals `target`."""
    meter.spend(len(values))
    return next((index for index in reversed(range(len(values))) if equal(values[index], target, meter)), -1)


@overload("map.merge(map): map")
def merge(meter: Meter, base: dict[Any, Any], overrides: dict[Any, Any]) -> dict[Any, Any]:
    """Return the entries of both maps. If both maps contain a key, the value in `overrides` takes precedence."""
    meter.spend(len(base) + len(overrides))
    return type(overrides)({**base, **overrides}) if type(base) is dict else type(base)({**base, **overrides})


@overload("map.deepMerge(map): map")
def deep_merge(meter: Meter, base: dict[Any, Any], overrides: dict[Any, Any]) -> dict[Any, Any]:
    """Return the entries of both maps. If both maps contain a map under the same key, deep-merge the two maps.

    For any other key that both maps contain, the value in `overrides` takes precedence.
    """
    merged = merge(meter, base, overrides)
    for key in overrides:
        if lookup(base, key).present and isinstance(base[key], dict) and isinstance(overrides[key], dict):
            merged[key] = deep_merge(meter, base[key], overrides[key])
    return merged


@overload("lists.setAtIndex(list, int, dyn): list")
def set_at(meter: Meter, values: list[Any], index: int, value: Any) -> list[Any]:
    """Return `values` with `value` in place of the element at `index`.

    Raises: EvaluationError if `index` is out of range.
    """
    _check_index(values, index, len(values) - 1)
    meter.spend(len(values))
    return [*values[:index], value, *values[index + 1 :]]


@overload("lists.insertAtIndex(list, int, dyn): list")
def insert_at(meter: Meter, values: list[Any], index: int, value: Any) -> list[Any]:
    """Return `values` with `value` inserted before `index`, which may be the length of `values`.

    Raises: EvaluationError if `index` is out of range.
    """
    _check_index(values, index, len(values))
    meter.spend(len(values) + 1)
    return [*values[:index], value, *values[index:]]


@overload("lists.removeAtIndex(list, int): list")
def remove_at(meter: Meter, values: list[Any], index: int) -> list[Any]:
    """Return `values` without the element at `index`. Raises: EvaluationError if `index` is out of range."""
    _check_index(values, index, len(values) - 1)
    meter.spend(len(values))
    return [*values[:index], *values[index + 1 :]]


def _check_index(values: list[Any], index: int, last: int) -> None:
    if not 0 <= index <= last:
        raise EvaluationError(f"index {index} out of range ({format_count(len(values), 'item')})")


@overload("sets.contains(list, list): bool")
def contains_all(meter: Meter, values: list[Any], required: list[Any]) -> bool:
    """Return whether `values` contains every element of `required`."""
    return all(contains(value, values, meter) for value in required)


overload_each(
    {
        "list.first(): optional_type": lambda values: Optional(values[0]) if values else NONE,
        "list.last(): optional_type": lambda values: Optional(values[-1]) if values else NONE,
        "list.min(): dyn": lambda meter, values: min(_require_comparable("min", meter, values)),
        "list.max(): dyn": lambda meter, values: max(_require_comparable("max", meter, values)),
        "sets.equivalent(list, list): bool": lambda meter, left, right: (
            contains_all(meter, left, right) and contains_all(meter, right, left)
        ),
        "sets.intersects(list, list): bool": lambda meter, left, right: any(
            contains(value, right, meter) for value in left
        ),
        "omit(): omit": lambda: OMIT,
        "dyn(dyn): dyn": lambda value: value,
    }
)
