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
    def read(cls, written: int | str) -> CountOrPercent:
        """`3` or `25%`. Raises ValueError for another text, a negative number or more than 100 %."""
        if isinstance(written, str):
            match = _PERCENT.fullmatch(written)
            if not match or int(match[1]) > 100:
                raise ValueError(f"{written!r} is neither a whole number nor a percentage such as 25%")
            return cls(int(match[1]), is_percent=True)
        if written < 0:
            raise ValueError(f"{written} is below 0")
        return cls(written)

    def at_most(self, total: int) -> int:
        """In items out of `total`; a share is rounded down."""
        return total * self.value // 100 if self.is_percent else self.value

    def at_least(self, total: int) -> int:
        """In items out of `total`; a share is rounded up."""
        return -(-total * self.value // 100) if self.is_percent else self.value

    def __str__(self) -> str:
        return f"{self.value}%" if self.is_percent else str(self.value)


ALL_OF_THEM: Final = CountOrPercent(100, is_percent=True)
NONE: Final = CountOrPercent(0)
ONE: Final = CountOrPercent(1)
