"""The loops of macros, and operations of optionals that evaluate an argument only on demand.

Generated code and the exact evaluator share the functions of this module. The parameters `body`, `key` and `other` are
functions that evaluate an expression. For a value of an unexpected type, a function of this module raises
EvaluationError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.operators import check_sortable
from renderer.cel.values import LISTS, MAPS, NONE, Optional, type_name


def items(container: Any, meter: Meter, weight: int) -> Iterable[Any]:
    """Return the elements of a list or the keys of a map, and pay `weight` units for each before the first round.

    Raises: EvaluationError if `container` is neither a list nor a map, and BudgetError if the loop exceeds the budget.
    """
    if type(container) in LISTS or type(container) in MAPS:
        meter.spend(len(container) * weight)
        return container  # type: ignore[no-any-return]
    raise EvaluationError(f"expected list or map, got {type_name(container)}")


def pairs(container: Any, meter: Meter, weight: int) -> Iterator[tuple[Any, Any]]:
    """Return each index and element of a list, or each key and value of a map, and pay as `items` does."""
    items(container, meter, weight)
    return iter(container.items() if type(container) not in LISTS else enumerate(container))


def entries(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of the map that one round of `transformMapEntry` yields."""
    if type(value) in MAPS:
        return value.items()  # type: ignore[no-any-return]
    raise EvaluationError(f"expected map, got {type_name(value)}")


def is_exactly_one(outcomes: Iterable[bool]) -> bool:
    """Return whether exactly one outcome is true. Read all outcomes, so that an error in any outcome is raised."""
    return sum(outcomes) == 1


def optional_map(value: Any, body: Callable[[Any], Any]) -> Optional:
    """Return `value.optMap(x, body)`: an optional of the body's value, or `NONE` if `value` is empty."""
    optional = expect_optional(value)
    return Optional(body(optional.value)) if optional.present else NONE


def optional_flat_map(value: Any, body: Callable[[Any], Any]) -> Optional:
    """Return `value.optFlatMap(x, body)`: the optional that the body returns, or `NONE` if `value` is empty."""
    optional = expect_optional(value)
    return expect_optional(body(optional.value)) if optional.present else NONE


def value_or(value: Any, other: Callable[[], Any]) -> Any:
    """Return `value.orValue(other)`. As in cel-go, only an empty `value` causes the evaluation of `other`."""
    optional = expect_optional(value)
    return optional.value if optional.present else other()


def optional_or(value: Any, other: Callable[[], Any]) -> Optional:
    """Return `value.or(other)`. As in cel-go, only an empty `value` causes the evaluation of `other`."""
    optional = expect_optional(value)
    return optional if optional.present else expect_optional(other())


def expect_optional(value: Any) -> Optional:
    """Return `value` unchanged. Raises: EvaluationError if `value` is not an optional."""
    if type(value) is Optional:
        return value
    raise EvaluationError(f"expected optional, got {type_name(value)}")


def sort_by(container: Any, meter: Meter, weight: int, key: Callable[[Any], Any]) -> list[Any]:
    """Return `list.sortBy(x, key)`: a stable sort (cel-go, lists extension).

    Raises: EvaluationError if `container` is not a list, or the keys are not of one ordered type.
    """
    if type(container) not in LISTS:
        raise EvaluationError(f"expected list, got {type_name(container)}")
    keyed = [(key(item), item) for item in items(container, meter, weight)]
    check_sortable([pair[0] for pair in keyed], meter)
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0])]
