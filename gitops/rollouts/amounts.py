"""Quantities as people write them in policies: a whole number, or a share such as `25%`."""

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
        """`3` or `25%`. Raises ValueError for another text, a negative number or more than 100 %."""
        if isinstance(amount, str):
            match = _PERCENT.fullmatch(amount)
            if not match or int(match[1]) > 100:
                raise ValueError(f"{amount!r} is neither a whole number nor a percentage such as 25%")
            return cls(int(match[1]), is_percent=True)
        if amount < 0:
            raise ValueError(f"{amount} is below 0")
        return cls(amount)

    def round_down(self, total: int) -> int:
        """In items out of `total`; a share is rounded down."""
        return total * self.value // 100 if self.is_percent else self.value

    def round_up(self, total: int) -> int:
        """In items out of `total`; a share is rounded up."""
        return -(-total * self.value // 100) if self.is_percent else self.value

    def __str__(self) -> str:
        return f"{self.value}%" if self.is_percent else str(self.value)


ALL_ITEMS: Final = CountOrPercent(100, is_percent=True)
NO_ITEMS: Final = CountOrPercent(0)
ONE_ITEM: Final = CountOrPercent(1)
