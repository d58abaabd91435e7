"""Why one item has not settled at its target."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from applier.reasons import Reason


@dataclass(frozen=True, slots=True)
class Position:
    """Where an item stands in its wave: `place` of `total`, counted from 1; `limit` may be under way or settled, `moved` are."""

    place: int
    total: int
    limit: int
    moved: int

    def __str__(self) -> str:
        return f"{_ordinal(self.place)} of {self.total}; {self.limit} may be under way or settled, {self.moved} are"


@dataclass(frozen=True, slots=True)
class Wait:
    """One cause. `not_before`: the earliest time at which it can end, None where that is not known; `by`: the items that it is because of."""

    reason: Reason
    message: str
    not_before: datetime | None = None
    by: tuple[str, ...] = ()
    position: Position | None = None


def listed(keys: tuple[str, ...], *, most: int = 5) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return ", ".join(keys[:most]) + more


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
