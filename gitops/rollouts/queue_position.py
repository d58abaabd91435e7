"""Queue position of an item in its wave, and the forecast of a wave: blocking items and earliest starts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from renderer.frozen import dataclass

MAX_LISTED_ITEMS = 10
"""Items that a report names individually."""
MAX_FORECAST_STARTS: Final = 50
"""Starts that are forecast for one wave. Later items start at the last of them or after."""
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class QueuePosition(NamedTuple):
    """Queue position of an item: `place` of `total`, counted from 1."""

    place: int
    total: int
    limit: int
    """Number of items that may be in flight or settled."""
    moved: int
    """Number of items that are in flight or settled."""
    then: int = 0
    """Value of `limit` once every item in flight has settled."""
    wave: str = ""
    """Name of the wave; empty for nodes of a collection, which have no waves."""
    shape: str = ""

    def __str__(self) -> str:
        moved = f"{self.moved} is" if self.moved == 1 else f"{self.moved} are"
        return f"{ordinal(self.place)} of {self.total}; {self.limit} may be in flight or settled, {moved}"

    @property
    def stable_fields(self) -> dict[str, Any]:
        """Return the fields that other items do not change when they settle; a status stores only these."""
        return {name: getattr(self, name) for name in ("place", "total", "wave", "shape")}


@dataclass(frozen=True, slots=True)
class BlockingItem:
    """An item that others wait for, with its own reason and its end; an unknown end is None."""

    name: str
    reason: str
    until: _Moment | None = None


@dataclass(frozen=True, slots=True)
class StartForecast:
    """A lower bound: items at this place of a wave, and later ones, start at this time or after."""

    place: int
    at: _Moment


@dataclass(frozen=True, slots=True)
class WaveForecast:
    """Forecast for the items of a wave that have not moved."""

    others: tuple[BlockingItem, ...] = ()
    """First items that all of them wait for."""
    starts: tuple[StartForecast, ...] = ()
    """Earliest starts by place, in order."""

    def start_of(self, place: int) -> datetime | None:
        """Return the earliest start of the item at this place; None if it is unknown."""
        return max((forecast.at for forecast in self.starts if forecast.place <= place), default=None)


def ordinal(number: int) -> str:
    """Return an English ordinal: `1st`, `8th`, `11th`."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
