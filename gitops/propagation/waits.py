"""Why one item has not settled at its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from applier.reasons import Because, Blocked, Reason

MOST = 10
"""Items that a report names one by one."""


class Position(NamedTuple):
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
        return f"{ordinal(self.place)} of {self.total}; {self.limit} may be under way or settled, {self.moved} are"


@dataclass(frozen=True, slots=True)
class Wait:
    """One cause. `not_before`: the earliest time at which it can end, None where that is not known; `by`: the items that it is because of.

    `because` and `details` are as in `Blocked`: what stands behind it beside other items, such as windows.
    """

    reason: Reason
    message: str
    not_before: datetime | None = None
    by: tuple[str, ...] = ()
    position: Position | None = None
    because: tuple[Because, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, blocked: Blocked) -> Wait:
        return cls(blocked.reason, blocked.message, blocked.until, because=blocked.because, details=blocked.details)

    def blocked(self, items: str, others: Mapping[str, Wait] | None = None) -> Blocked:
        """As a cause in a plan. `items` is what its items are called (`Instance`, `Node`), `others` tells why each of these waits itself."""
        others = others or {}
        because = (
            Because(items, name, wait.reason, until=wait.not_before)
            if (wait := others.get(name))
            else Because(items, name, Reason.PROGRESSING)
            for name in self.by[:MOST]
        )
        position = {"position": self.position._asdict()} if self.position else {}
        return Blocked(
            self.reason,
            self.message,
            until=self.not_before,
            because=(*because, *self.because),
            details={**position, **self.details},
        )


def ordinal(number: int) -> str:
    """`1st`, `8th`, `11th`."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
