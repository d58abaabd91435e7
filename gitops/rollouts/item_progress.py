"""How one item gets on after it was let move: since when it is healthy, how often it lost that, and how long it has been getting nowhere.

The progress clock starts at the grant, starts anew when a level of the item becomes ready and when health is lost, stands still while the item
waits for a window, a hold or an approval, and does not run while it is healthy: baking is not failing. All of it is kept in the item's status.
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
    """Since the grant at one target. `ready_since` begins the healthy period that still lasts. The clock shows `spent`, and runs since
    `running_since` unless that is None. `levels`: how many levels have become ready.
    """

    ready_since: _Moment | None = None
    flaps: int = 0
    spent: timedelta = timedelta()
    running_since: _Moment | None = None
    levels: int = 0

    @classmethod
    def start(cls, now: datetime) -> ItemProgress:
        """At the moment of the grant."""
        return cls(running_since=now)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], now: datetime) -> ItemProgress:
        """Inverse of `stored`. What cannot be read counts as begun now: it has neither settled nor failed."""
        try:
            return msgspec.convert({name: stored[key] for key, name in _STORED_FIELDS.items() if key in stored}, cls)
        except msgspec.ValidationError:
            return cls.start(now)

    def to_dict(self) -> dict[str, Any]:
        """As JSON for the item's status: times in RFC 3339, `spent` as ISO 8601 duration; what is empty is left out."""
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
        """After an observation. `waiting`: for a window, a hold or an approval; `bake`: how long it has to stay healthy here."""
        if is_healthy:
            return replace(
                self, ready_since=self.ready_since or now, spent=timedelta(), running_since=None, levels=levels
            )
        if self.ready_since is None and levels <= self.levels and is_waiting == (self.running_since is None):
            return self  # nothing has happened: the clock goes on by itself
        lost_health = self.ready_since is not None
        has_flapped = self.ready_since is not None and now - self.ready_since < bake
        spent = timedelta() if lost_health or levels > self.levels else self.elapsed(now)
        return ItemProgress(
            flaps=self.flaps + has_flapped,
            spent=spent,
            running_since=None if is_waiting else now,
            levels=levels,
        )

    def elapsed(self, now: datetime) -> timedelta:
        """What the clock shows."""
        return self.spent if self.running_since is None else self.spent + (now - self.running_since)

    def overdue_after(self, deadline: timedelta) -> datetime | None:
        """The last moment at which the clock has not passed the deadline; None while it stands still."""
        return None if self.running_since is None else self.running_since + deadline - self.spent
