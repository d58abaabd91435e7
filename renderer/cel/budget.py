"""The budget of one evaluation.

One unit is the work of a small step (about 0.1 microseconds). As in Kubernetes, the limit of an expression is 1,000,000
units, and the limit of all expressions of one object is 10,000,000 units. An instance may consist of thousands of
objects. Therefore the limit of all expressions of one instance is 50,000,000 units.

The meter subtracts units before the work, so that no step can exceed the budget. A loop pays for all its items in
advance. A concatenation pays for its result before building the result.
"""

from __future__ import annotations

from typing import Final

from renderer.cel.errors import BudgetError

EXPRESSION_UNITS: Final = 1_000_000
OBJECT_UNITS: Final = 10_000_000
INSTANCE_UNITS: Final = 50_000_000
MAX_TEXT_CHARACTERS: Final = 1 << 20
"""Maximum length of a string (in characters) or of bytes (in bytes) that an expression produces."""

_CHARACTERS_PER_UNIT: Final = 10
_FREE_TEXT_CHARACTERS: Final = 100


class Meter:
    """The remaining units of an expression, and of the object or instance that contains the expression."""

    __slots__ = ("granted", "left", "limit", "rest")

    def __init__(self, rest: int = EXPRESSION_UNITS, *, limit: int = OBJECT_UNITS) -> None:
        self.rest = rest
        self.limit = limit
        self.granted = self.left = min(EXPRESSION_UNITS, rest)

    @classmethod
    def of_instance(cls) -> Meter:
        return cls(INSTANCE_UNITS, limit=INSTANCE_UNITS)

    def renew(self) -> Meter:
        """Start the next expression of the same object or instance, and return this meter.

        The expression receives EXPRESSION_UNITS. If the object or instance has fewer units left, the expression
        receives the remaining units.
        """
        self.rest -= self.granted - max(self.left, 0)
        self.granted = self.left = min(EXPRESSION_UNITS, self.rest)
        return self

    def of_object(self) -> Meter:
        """Return a meter for one object of this meter's instance.

        After the last expression of the object, the caller must pass the returned meter to `charge`.
        """
        remaining = self.renew().rest
        return Meter(OBJECT_UNITS) if remaining >= OBJECT_UNITS else Meter(remaining, limit=INSTANCE_UNITS)

    def charge(self, object_meter: Meter) -> None:
        """Subtract the units that `object_meter` has spent from the remaining units of this instance.

        Args:
            object_meter: The last meter that `of_object` returned.
        """
        self.rest -= min(OBJECT_UNITS, self.rest) - object_meter.renew().rest

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            has_full_budget = self.granted == EXPRESSION_UNITS
            scope_name = "object" if self.limit == OBJECT_UNITS else "instance"
            excess = f"the expressions of this {scope_name} together need more than {self.limit:,}"
            excess = f"the expression needs more than {EXPRESSION_UNITS:,}" if has_full_budget else excess
            raise BudgetError(f"stopped: {excess} units of work; use smaller lists, maps or texts")

    def read(self, text: str | bytes) -> None:
        """Pay for one pass over `text`. Texts of at most 100 characters are free.

        Raises: BudgetError if the pass exceeds the budget.
        """
        if len(text) > _FREE_TEXT_CHARACTERS:
            self.spend(len(text) // _CHARACTERS_PER_UNIT)

    def compare(self, left: str | bytes, right: str | bytes) -> None:
        """Pay for a comparison.

        If either text has at most 100 characters, the comparison is free.

        Raises: BudgetError if the comparison exceeds the budget.
        """
        if len(left) > _FREE_TEXT_CHARACTERS and len(right) > _FREE_TEXT_CHARACTERS:
            self.spend(min(len(left), len(right)) // _CHARACTERS_PER_UNIT)

    def produce(self, length: int) -> None:
        """Pay for a text of `length` characters before the caller builds the text.

        Raises: BudgetError if the text exceeds the budget or MAX_TEXT_CHARACTERS.
        """
        self.check_length(length)
        self.spend(length // _CHARACTERS_PER_UNIT)

    def check_length(self, length: int) -> None:
        """Check the length of a text that the caller has paid for in parts.

        Raises: BudgetError if `length` exceeds MAX_TEXT_CHARACTERS.
        """
        if length > MAX_TEXT_CHARACTERS:
            raise BudgetError(
                f"stopped: the expression produces a text of more than {MAX_TEXT_CHARACTERS:,} characters; "
                "shorten the text"
            )
