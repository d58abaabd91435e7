"""The place of an item in its wave, and what the items of a wave that have not moved wait for."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from renderer.frozen import dataclass

MAX_LISTED_ITEMS = 10
"""Items that a report names one by one."""
MAX_FORECAST_STARTS: Final = 50
"""Times that are reckoned ahead for one wave; what comes later does not start before the last of them."""
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class QueuePosition(NamedTuple):
    """Where an item stands in its wave: `place` of `total`, counted from 1; `limit` may be under way or settled, `moved` are.

    `then` is the limit once all that moved have settled. `wave` and `shape` are those that it goes by; a collection of nodes has no waves.
    """

    place: int
    total: int
    limit: int
    moved: int
    then: int = 0
    wave: str = ""
    shape: str = ""

    def __str__(self) -> str:
        moved = f"{self.moved} is" if self.moved == 1 else f"{self.moved} are"
        return f"{ordinal(self.place)} of {self.total}; {self.limit} may be in flight or settled, {moved}"

    @property
    def stable_fields(self) -> dict[str, Any]:
        """What stays so while the others get on."""
        return {name: getattr(self, name) for name in ("place", "total", "wave", "shape")}


@dataclass(frozen=True, slots=True)
class BlockingItem:
    """An item that others wait for, and why it waits itself; None: nobody knows until when."""

    name: str
    reason: str
    until: _Moment | None = None


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Who has this place in a wave, or a later one, does not start before that time."""

    place: int
    at: _Moment


@dataclass(frozen=True, slots=True)
class WaveForecast:
    """What those of a wave that have not moved wait for: the first items that all of them wait for, and when they start if all goes well."""

    others: tuple[BlockingItem, ...] = ()
    starts: tuple[StartForecast, ...] = ()

    def start_of(self, place: int) -> datetime | None:
        return max((forecast.at for forecast in self.starts if forecast.place <= place), default=None)


def ordinal(number: int) -> str:
    """`1st`, `8th`, `11th`."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
