"""`forEach`: the dimensions of a collection, and the combinations of their values.

The first dimension is the outer loop; an empty one gives no items (kro, "Collections").
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from renderer.cel import Program, type_name
from renderer.errors import ExpressionError

NAME: Final = re.compile(r"[a-z][a-zA-Z0-9]*")
MAX_DIMENSIONS: Final = 10
MAX_ITEMS: Final = 1000


@dataclass(frozen=True, slots=True)
class Dimension:
    """One entry of `forEach`: a name for templates, and the list that it takes its values from."""

    iterator: str
    program: Program

    def values(self, variables: Mapping[str, Any]) -> list[Any]:
        """Raises ExpressionError, also where the value is no list."""
        found = self.program.evaluate(variables)
        if isinstance(found, list):
            return found
        raise ExpressionError(self.program.text, f"forEach goes through a list, not {type_name(found)}")


def combinations(dimensions: Sequence[Dimension], variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The values of the iterators, for one item after the other. Raises ExpressionError, also for more than MAX_ITEMS items."""
    lists = [dimension.values(variables) for dimension in dimensions]
    if (count := math.prod(map(len, lists))) > MAX_ITEMS:
        whole = " x ".join(str(len(values)) for values in lists)
        raise ExpressionError(
            ", ".join(dimension.program.text for dimension in dimensions),
            f"the collection would have {count} items{f' ({whole})' if len(lists) > 1 else ''}; at most {MAX_ITEMS} are allowed",
        )
    names = [dimension.iterator for dimension in dimensions]
    return (dict(zip(names, values, strict=True)) for values in itertools.product(*lists))
