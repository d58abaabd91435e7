"""The dimensions of a collection (`forEach`), and the combinations of their values.

The first dimension is the outer loop. An empty dimension yields no items (kro, "Collections").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from renderer.cel import Meter, Program, type_name
from renderer.definition.problem_collector import ProblemCollector
from renderer.definition.variables import find_name_mistake
from renderer.errors import ExpressionError
from renderer.frozen import dataclass

MAX_DIMENSIONS: Final = 10
MAX_ITEMS: Final = 1000


@dataclass(frozen=True, slots=True)
class Dimension:
    """One entry of `forEach`: the name of an iterator, and the list of its values."""

    iterator: str
    program: Program

    def values(self, variables: Mapping[str, Any], meter: Meter) -> list[Any]:
        """Return the values of the iterator.

        Raises: ExpressionError if the evaluation fails, or if the value of the expression is not a list.
        """
        value = self.program.evaluate(variables, meter.renew())
        if isinstance(value, list):
            return value
        raise ExpressionError(self.program.text, f"forEach needs a list, not {type_name(value)}")


def compile_dimensions(
    entries: Any, path: str, ids: Collection[str], collector: ProblemCollector
) -> tuple[Dimension, ...]:
    """Return the dimensions of a `forEach`, and add mistakes to `collector`.

    Args:
        ids: The ids of all resources.
    """
    if entries is None:
        return ()
    if not isinstance(entries, list):
        collector.fail(path, "must be a list of entries such as region: ${schema.spec.regions}")
        return ()
    if len(entries) > MAX_DIMENSIONS:
        collector.fail(path, f"has {len(entries)} dimensions; use at most {MAX_DIMENSIONS}")
    dimensions: list[Dimension] = []
    for index, entry in enumerate(entries):
        taken_names = [*ids, *(dimension.iterator for dimension in dimensions)]
        if dimension := _compile_dimension(entry, f"{path}[{index}]", ids, taken_names, collector):
            dimensions.append(dimension)
    iterators = {dimension.iterator for dimension in dimensions}
    for index, dimension in enumerate(dimensions):
        for name in sorted(dimension.program.names & iterators):
            collector.fail(
                f"{path}[{index}]", f"reads the iterator {name!r}; in a dimension, read only schema and resources"
            )
        collector.refuse_omit([(f"[{index}]", dimension.program)], path, "forEach needs its list")
    return tuple(dimensions)


def _compile_dimension(
    entry: Any, path: str, ids: Collection[str], taken_names: Collection[str], collector: ProblemCollector
) -> Dimension | None:
    if not isinstance(entry, dict) or len(entry) != 1:
        collector.fail(path, "must be one name with one list, such as region: ${schema.spec.regions}")
        return None
    ((name, text),) = entry.items()
    if mistake := find_name_mistake(name):
        collector.fail(path, mistake)
    elif name in ids:
        collector.fail(path, f"{name!r} is the id of a resource; choose another name")
    elif name in taken_names:
        collector.fail(path, f"{name!r} is the name of two iterators; rename one of them")
    program = collector.read_expression(f"{path}.{name}", text)
    return Dimension(name, program) if program else None


def combinations(
    dimensions: Sequence[Dimension], variables: Mapping[str, Any], meter: Meter
) -> Iterator[dict[str, Any]]:
    """Yield the values of the iterators for each item.

    Raises: ExpressionError if an evaluation fails, or if the collection would have more than MAX_ITEMS items.
    """
    lists = [dimension.values(variables, meter) for dimension in dimensions]
    if (count := math.prod(map(len, lists))) > MAX_ITEMS:
        sizes = " x ".join(str(len(values)) for values in lists)
        raise ExpressionError(
            ", ".join(dimension.program.text for dimension in dimensions),
            f"the collection would have {count} items{f' ({sizes})' if len(lists) > 1 else ''}; "
            f"use at most {MAX_ITEMS}",
        )
    names = [dimension.iterator for dimension in dimensions]
    return (dict(zip(names, values, strict=True)) for values in itertools.product(*lists))
