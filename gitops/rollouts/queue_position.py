"""Queue position of an item in its wave, and the forecast of a wave: blocking items and earliest starts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from renderer.frozen import dataclass

MAX_LISTED_ITEMS = 10
"""Maximum number of items that a report names individually."""
MAX_FORECAST_STARTS: Final = 50
"""Maximum number of starts that the forecast of one wave lists.

Later items start no earlier than the last listed start.
"""
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class QueuePosition(NamedTuple):
    """Place of an item in the order of its wave, and the numbers that decide when the item may move."""

    place: int
    """Place in the order, counted from 1."""
    total: int
    """Number of items in the wave."""
    limit: int
    """Number of items that may be in flight or settled."""
    moved: int
    """Number of items that are in flight or settled."""
    then: int = 0
    """Value of `limit` once every item in flight has settled."""
    wave: str = ""
    """Name of the wave, or an empty string for nodes of a collection, which have no waves."""
    shape: str = ""

    def __str__(self) -> str:
        moved = f"{self.moved} is" if self.moved == 1 else f"{self.moved} are"
        return f"{ordinal(self.place)} of {self.total}; {self.limit} may be in flight or settled, {moved}"

    @property
    def stable_fields(self) -> dict[str, Any]:
        """Return the fields that stay the same when other items settle. A status stores only these fields."""
        return {name: getattr(self, name) for name in ("place", "total", "wave", "shape")}


@dataclass(frozen=True, slots=True)
class BlockingItem:
    """Item for which other items of a wave wait, with the reason why the item itself waits."""

    name: str
    reason: str
    """Reason why the item waits."""
    until: _Moment | None = None
    """End in UTC of the item's wait, or None if the end is unknown."""


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Earliest possible start of the item at `place` in a wave, and of all items after it."""

    place: int
    """First place to which the forecast applies, counted from 1."""
    at: _Moment
    """Earliest start in UTC."""


@dataclass(frozen=True, slots=True)
class WaveForecast:
    """Blocking items and earliest starts for the items of a wave that have not moved."""

    others: tuple[BlockingItem, ...] = ()
    """First blocking items: every item of the wave waits for each of these items."""
    starts: tuple[StartForecast, ...] = ()
    """Earliest starts by place, in order."""

    def start_of(self, place: int) -> datetime | None:
        """Return the earliest start in UTC of the item at `place`, or None if the start is unknown."""
        return max((forecast.at for forecast in self.starts if forecast.place <= place), default=None)


def ordinal(number: int) -> str:
    """Return `number` as an English ordinal, such as `1st`, `8th` or `11th`."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
