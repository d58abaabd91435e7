"""Shapes of a rollout, which limit the items in flight; counts and percentages.

A shape is a frontier F(s) over N items: at most F(s) items may be in flight or settled while s have settled. F never
decreases and is at least min(N, s + 1), so a rollout ends if its items settle. The arithmetic is integer. In floating
point ceil(log 125 / log 5) is 4 instead of 3, so factor 5 would allow 625 items instead of 125.
"""

from __future__ import annotations

import re
from typing import Final

from renderer.frozen import dataclass

_PERCENT: Final = re.compile(r"(0|[1-9][0-9]{0,2})%")


@dataclass(frozen=True, slots=True)
class CountOrPercent:
    """A number of items, or a percentage of all of them."""

    value: int
    is_percent: bool = False

    @classmethod
    def parse(cls, amount: int | str) -> CountOrPercent:
        """Return the amount that a policy declares: `3` or `25%`.

        Raises: ValueError for other text, a negative number or more than 100 %.
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
        """Return the number of items out of `total`; a percentage is rounded down."""
        return total * self.value // 100 if self.is_percent else self.value

    def round_up(self, total: int) -> int:
        """Return the number of items out of `total`; a percentage is rounded up."""
        return -(-total * self.value // 100) if self.is_percent else self.value

    def __str__(self) -> str:
        return f"{self.value}%" if self.is_percent else str(self.value)


ALL_ITEMS: Final = CountOrPercent(100, is_percent=True)
NO_ITEMS: Final = CountOrPercent(0)
ONE_ITEM: Final = CountOrPercent(1)


@dataclass(frozen=True, slots=True)
class Linear:
    """Batches of `n` items; a percentage is of N, rounded down, at least 1. Raises: ValueError if `n` is below 1."""

    n: CountOrPercent = ONE_ITEM

    def __post_init__(self) -> None:
        if self.n.value < 1:
            raise ValueError(f"n is {self.n}; it must be at least 1, or a percentage such as 25%")

    def __str__(self) -> str:
        return f"linear {self.n}"


@dataclass(frozen=True, slots=True)
class Exponential:
    """One item first, then `factor` times the settled ones. Raises: ValueError if `factor` is below 2."""

    factor: int = 2

    def __post_init__(self) -> None:
        if self.factor < 2:
            raise ValueError(f"factor is {self.factor}; it must be a whole number of at least 2")

    def __str__(self) -> str:
        return f"exponential {self.factor}"


@dataclass(frozen=True, slots=True)
class Unpaced:
    """All items at once."""

    def __str__(self) -> str:
        return "all at once"


Shape = Linear | Exponential | Unpaced


def frontier(shape: Shape, settled: int, total: int, *, sliding: bool = False) -> int:
    """Return F(s): how many of `total` items may be in flight or settled while `settled` have settled.

    By default a batch starts once the whole previous batch has settled. With `sliding`, each settled item makes room at
    once. Both agree at the end of each batch, and `sliding` never allows fewer.
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
