"""The budget of one evaluation.

One unit is about the work of one small step (0.1 microseconds). Kubernetes gives 1,000,000 units to one expression
and ten times that to all expressions of one object; the numbers here are the same. Work is charged before it is
done, so that no single step can outgrow the budget: a loop pays for its items when it starts, a concatenation for
its result before it is built.
"""

from __future__ import annotations

from typing import Final

from renderer.cel.faults import BudgetFault

EXPRESSION_UNITS: Final = 1_000_000
OBJECT_UNITS: Final = 10_000_000
LARGEST_TEXT: Final = 1 << 20
"""Characters of a string (or bytes) that an expression may produce."""

_TOGETHER: Final = f"the expressions of this object together need more than {OBJECT_UNITS:,}"
_CHARACTERS_PER_UNIT: Final = 10
_LONG: Final = 100


class Meter:
    """Counts down the units of an expression, and of the whole object that it is part of."""

    __slots__ = ("granted", "left", "rest")

    def __init__(self, rest: int = EXPRESSION_UNITS) -> None:
        self.rest = rest
        self.granted = self.left = min(EXPRESSION_UNITS, rest)

    def renew(self) -> Meter:
        """Start the next expression of the same object: it has a full budget, as far as the object's goes."""
        self.rest -= self.granted - self.left
        self.granted = self.left = min(EXPRESSION_UNITS, self.rest)
        return self

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            alone = self.granted == EXPRESSION_UNITS
            whose = f"the expression needs more than {EXPRESSION_UNITS:,}" if alone else _TOGETHER
            raise BudgetFault(f"stopped: {whose} units of work")

    def read(self, text: str | bytes) -> None:
        """Pay for going through a text once; nothing where it is short."""
        if len(text) > _LONG:
            self.spend(len(text) // _CHARACTERS_PER_UNIT)

    def compare(self, left: str | bytes, right: str | bytes) -> None:
        """Pay for comparing two texts; nothing where they are short."""
        if len(left) > _LONG and len(right) > _LONG:
            self.spend(min(len(left), len(right)) // _CHARACTERS_PER_UNIT)

    def produce(self, length: int) -> None:
        """Pay for a text of this length, before it is built."""
        if length > LARGEST_TEXT:
            raise BudgetFault(f"stopped: the expression produces a text of more than {LARGEST_TEXT:,} characters")
        self.spend(length // _CHARACTERS_PER_UNIT)
