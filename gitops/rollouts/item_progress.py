"""Progress of one item after its grant: the healthy period, losses of health, and the clock for `progressDeadline`.

The clock starts at the grant. When a level of the item becomes ready, or the item loses its health, the clock restarts.
While the item is healthy, or waits for a window, a hold or an approval, the clock pauses. The status of the instance
stores the progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from renderer.frozen import dataclass

_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_STORED_FIELDS: Final = {
    "readySince": "ready_since",
    "flaps": "flaps",
    "spent": "spent",
    "runningSince": "running_since",
    "levels": "levels",
}


@dataclass(frozen=True, slots=True)
class ItemProgress:
    """Healthy period, losses of health and clock of one item since the grant of its target. Times are in UTC."""

    ready_since: _Moment | None = None
    """Start of the current healthy period, or None while the item is not healthy."""
    flaps: int = 0
    """Number of losses of health during the bake time."""
    spent: timedelta = timedelta()
    """Time on the clock at the start of the current run or pause."""
    running_since: _Moment | None = None
    """Start of the current run of the clock, or None while the clock is paused."""
    levels: int = 0
    """Number of consecutive ready levels, counted from the first level."""

    @classmethod
    def start(cls, now: datetime) -> ItemProgress:
        """Return the progress of an item that gets the grant for its target at `now`."""
        return cls(running_since=now)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ItemProgress | None:
        """Return the progress from which `to_dict` made `stored`, or None if `stored` is unreadable."""
        try:
            return msgspec.convert({name: stored[key] for key, name in _STORED_FIELDS.items() if key in stored}, cls)
        except msgspec.ValidationError:
            return None

    def to_dict(self) -> dict[str, Any]:
        """Return the progress as JSON, without empty fields.

        Times are in RFC 3339. `spent` is an ISO 8601 duration.
        """
        fields = msgspec.to_builtins(self)
        return {key: fields[name] for key, name in _STORED_FIELDS.items() if getattr(self, name)}

    def with_observation(
        self,
        now: datetime,
        *,
        is_healthy: bool,
        levels: int = 0,
        is_waiting: bool = False,
        bake: timedelta = timedelta(),
    ) -> ItemProgress:
        """Return the progress after an observation of the item.

        Args:
            is_healthy: whether the item runs its target and is healthy.
            levels: number of levels that are ready, counted from the first.
            is_waiting: whether the item waits for a window, a hold or an approval.
            bake: bake time of the item's wave. A loss of health during the bake time counts as a flap.
        """
        if self.reflects(is_healthy=is_healthy, levels=levels, is_waiting=is_waiting):
            return self  # If the observation changes nothing, the status is not written.
        if is_healthy:
            return replace(
                self, ready_since=self.ready_since or now, spent=timedelta(), running_since=None, levels=levels
            )
        lost_health = self.ready_since is not None
        has_flapped = self.ready_since is not None and now - self.ready_since < bake
        spent = timedelta() if lost_health or levels > self.levels else self.elapsed(now)
        return ItemProgress(
            flaps=self.flaps + has_flapped,
            spent=spent,
            running_since=None if is_waiting else now,
            levels=levels,
        )

    def reflects(self, *, is_healthy: bool, levels: int, is_waiting: bool) -> bool:
        """Return whether an observation of the item changes nothing. See `with_observation` for the parameters."""
        if is_healthy:
            is_paused = not self.spent and self.running_since is None
            return self.ready_since is not None and is_paused and levels == self.levels
        return self.ready_since is None and levels <= self.levels and is_waiting == (self.running_since is None)

    def elapsed(self, now: datetime) -> timedelta:
        """Return the time on the clock at `now`."""
        return self.spent if self.running_since is None else self.spent + (now - self.running_since)

    def overdue_after(self, deadline: timedelta) -> datetime | None:
        """Return the time in UTC at which the clock reaches `deadline`, or None while the clock is paused."""
        return None if self.running_since is None else self.running_since + deadline - self.spent
