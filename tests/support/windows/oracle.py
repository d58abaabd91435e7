"""The oracle of I5: who wrote content although the windows closed, told from the writes alone, with arithmetic of its own.

Windows open once a day in UTC, so that one can reckon in minutes of the day. What is written with a content that the object had before is healing;
the tests commit no content twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

DAY = 24 * 60
VERBS = ("create", "update", "prune", "heal")
FINISHING = ("Instance", "Rollout")
"""Drains under which an instance that has begun ends new."""


@dataclass(frozen=True)
class Daily:
    """Active from minute `start` of each day for `minutes`; `field` and `names` are its selector."""

    deny: bool
    start: int
    minutes: int
    cutoff: int = 0
    drain: str = "Instance"
    verbs: tuple[str, ...] = VERBS[:3]
    field: str = ""
    names: tuple[str, ...] = ()

    @property
    def spec(self) -> dict[str, Any]:
        return {
            "kind": "Deny" if self.deny else "Allow",
            "timeZone": "UTC",
            "schedule": {"cron": f"{self.start % 60} {self.start // 60} * * *"},
            "duration": f"{self.minutes}m",
            "cutoff": f"{self.cutoff}m",
            "drain": self.drain,
            "verbs": list(self.verbs),
            "selector": {self.field: list(self.names)} if self.field else {},
        }

    def left(self, moment: datetime) -> int:
        """Minutes until it closes; none or fewer while it is not active: so long ago, at most a day, it closed."""
        return self.minutes - (moment.hour * 60 + moment.minute - self.start) % DAY


@dataclass(frozen=True)
class Written:
    """One write of content: `member` names the object, `unit` the instance and what it is brought to, or that it goes.
    `content` is None where it was deleted."""

    moment: datetime
    kind: str
    namespace: str
    definition: str
    unit: Hashable
    member: str
    content: Hashable

    def is_governed(self, window: Daily, verb: str) -> bool:
        own = {"": (), "kinds": (self.kind,), "namespaces": (self.namespace,), "rgds": (self.definition,)}[window.field]
        return verb in window.verbs and (not window.field or bool(set(own) & set(window.names)))


@dataclass
class Watch:
    """Looks at writes as they come; `breaches` are those that no window allowed, `counted` says how many of each verb there were."""

    windows: Sequence[Daily] = ()
    breaches: list[str] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    _had: dict[str, set[Hashable]] = field(default_factory=dict)
    _begun: set[Hashable] = field(default_factory=set)

    def see(self, write: Written) -> None:
        had = self._had.setdefault(write.member, set())
        verb = "prune" if write.content is None else "heal" if write.content in had else "update" if had else "create"
        self.counted[verb] = self.counted.get(verb, 0) + 1
        if why := self._closed(write, verb):
            self.breaches.append(f"{verb} at {write.moment:%a %H:%M}, {why}: {write}")
        if write.content is None:
            had.clear()
        else:
            had.add(write.content)
        self._begun.add(write.unit)

    def _closed(self, write: Written, verb: str) -> str:
        governing = [window for window in self.windows if write.is_governed(window, verb)]
        goes_on = write.unit is not None and write.unit in self._begun
        if denies := [one for one in governing if one.deny and one.left(write.moment) > 0]:
            lasting = [one.minutes - one.left(write.moment) for one in denies]
            drains = goes_on and all(one.drain in FINISHING for one in denies) and min(lasting) < 60
            return "" if drains else f"denied by {denies}"
        allows = [window for window in governing if not window.deny]
        if not allows or any(one.left(write.moment) > one.cutoff for one in allows):
            return ""
        if goes_on and any(one.left(write.moment) > 0 for one in allows):
            return ""  # in the cutoff, what was begun goes on
        drains = goes_on and any(one.drain in FINISHING and one.left(write.moment) > -60 for one in allows)
        return "" if drains else f"allowed by none of {allows}"


@st.composite
def calendars(draw: st.DrawFn, *, selectors: Sequence[tuple[str, tuple[str, ...]]]) -> list[Daily]:
    """One to three windows, all with the same drain."""
    drain = draw(st.sampled_from(["Unit", "None", "Instance", "Rollout"]))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        deny, minutes = draw(st.booleans()), draw(st.integers(60, 22 * 60))
        verbs = draw(st.sampled_from([VERBS[:3], VERBS, ("update",), ("create", "prune"), ("heal", "update")]))
        cutoff = 0 if deny else draw(st.sampled_from([0, 30]))
        name, names = draw(st.sampled_from([("", ()), *selectors]))
        found.append(Daily(deny, draw(st.integers(0, DAY - 1)), minutes, cutoff, drain, verbs, name, names))
    return found
