"""Shapes of a rollout, which limit the items in flight, and numbers of items as counts or percentages.

A shape is a frontier F(s) over N items: while s items have settled, at most F(s) items may be in flight or settled. F
never decreases, and F(s) is at least min(N, s + 1). So if all items settle, the rollout ends. The functions use integer
arithmetic. In floating point, ceil(log 125 / log 5) is 4 instead of 3, so factor 5 would let 625 items move instead of
125.
"""

from __future__ import annotations

import re
from typing import Final

from renderer.frozen import dataclass

_PERCENT: Final = re.compile(r"(0|[1-9][0-9]{0,2})%")


@dataclass(frozen=True, slots=True)
class CountOrPercent:
    """Number of items, or percentage of all items."""

    value: int
    is_percent: bool = False

    @classmethod
    def parse(cls, amount: int | str) -> CountOrPercent:
        """Return the value of `amount` in a policy, such as `3` or `25%`.

        Raises: ValueError if `amount` is not a number or a percentage, is negative, or is more than 100 %.
        """
        if isinstance(amount, str):
            match = _PERCENT.fullmatch(amount)
            if not match or int(match[1]) > 100:
                raise ValueError(f"{amount!r} is neither a whole number nor a percentage such as 25%")
            return cls(int(match[1]), is_percent=True)
        if amount < 0:
            raise ValueError(f"{amount} is below 0")
        return cls(amount)

    def round_down(self, total: int) -> int:
        """Return the number of items out of `total`. Round a percentage down."""
        return total * self.value // 100 if self.is_percent else self.value

    def round_up(self, total: int) -> int:
        """Return the number of items out of `total`. Round a percentage up."""
        return -(-total * self.value // 100) if self.is_percent else self.value

    def __str__(self) -> str:
        return f"{self.value}%" if self.is_percent else str(self.value)


ALL_ITEMS: Final = CountOrPercent(100, is_percent=True)
NO_ITEMS: Final = CountOrPercent(0)
ONE_ITEM: Final = CountOrPercent(1)


@dataclass(frozen=True, slots=True)
class Linear:
    """Shape with batches of `n` items.

    A percentage in `n` is a share of all items, rounded down, but at least 1 item.

    Raises: ValueError if `n` is below 1.
    """

    n: CountOrPercent = ONE_ITEM

    def __post_init__(self) -> None:
        if self.n.value < 1:
            raise ValueError(f"n is {self.n}; it must be at least 1, or a percentage such as 25%")

    def __str__(self) -> str:
        return f"linear {self.n}"


@dataclass(frozen=True, slots=True)
class Exponential:
    """Shape with one item in the first batch. After each batch, `factor` times as many items may have moved.

    Raises: ValueError if `factor` is below 2.
    """

    factor: int = 2

    def __post_init__(self) -> None:
        if self.factor < 2:
            raise ValueError(f"factor is {self.factor}; it must be a whole number of at least 2")

    def __str__(self) -> str:
        return f"exponential {self.factor}"


@dataclass(frozen=True, slots=True)
class Unpaced:
    """Shape in which all items may move at once."""

    def __str__(self) -> str:
        return "all at once"


Shape = Linear | Exponential | Unpaced


def frontier(shape: Shape, settled: int, total: int, *, sliding: bool = False) -> int:
    """Return how many of `total` items may be in flight or settled while `settled` items have settled.

    If `sliding` is false, a batch starts after the whole previous batch has settled. If `sliding` is true, each settled
    item lets further items move at once. Both values of `sliding` give the same number at the end of each batch. A true
    `sliding` never gives a lower number.
    """
    match shape:
        case Unpaced():
            reach = total
        case Linear(n):
            size = max(1, n.round_down(total))
            reach = settled + size if sliding else (settled // size + 1) * size
        case Exponential(factor):
            reach = max(settled + 1, factor * settled) if sliding else _power_above(factor, settled)
    return min(total, reach)


def _power_above(factor: int, settled: int) -> int:
    """Return the smallest power of `factor` above `settled`."""
    power = 1
    while power <= settled:
        power *= factor
    return power
