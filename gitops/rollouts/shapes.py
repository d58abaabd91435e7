"""The shape of a rollout: how many items may have been started when so many have settled.

A shape is a frontier F(s) over N items: never decreasing, and at least min(N, s + 1), so a rollout whose items settle always ends. Whole numbers
only: with logarithms ceil(log 125 / log 5) is 4 and not 3, and factor 5 would open 625 items instead of 125.
"""

from __future__ import annotations

from gitops.rollouts.amounts import ONE_ITEM, CountOrPercent
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Linear:
    """The same number each time; a share is of N, rounded down, at least 1. Raises ValueError for less than 1."""

    n: CountOrPercent = ONE_ITEM

    def __post_init__(self) -> None:
        if self.n.value < 1:
            raise ValueError(f"n is {self.n}; it must be at least 1, or a percentage such as 25%")

    def __str__(self) -> str:
        return f"linear {self.n}"


@dataclass(frozen=True, slots=True)
class Exponential:
    """1 first, then `factor` times as many as have settled. Raises ValueError for a factor below 2."""

    factor: int = 2

    def __post_init__(self) -> None:
        if self.factor < 2:
            raise ValueError(f"factor is {self.factor}; it must be a whole number of at least 2")

    def __str__(self) -> str:
        return f"exponential {self.factor}"


@dataclass(frozen=True, slots=True)
class Unpaced:
    """All at once."""

    def __str__(self) -> str:
        return "all at once"


Shape = Linear | Exponential | Unpaced


def frontier(shape: Shape, settled: int, total: int, *, sliding: bool = False) -> int:
    """F(s): how many of `total` items may be under way or settled. Batches start whole, once the batch before has settled whole; sliding, each
    item that settles makes room. The two agree where a batch ends, and sliding never opens less.
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
    power = 1
    while power <= settled:
        power *= factor
    return power
