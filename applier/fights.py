"""Objects that somebody else changes back, or deletes, again and again: they are put right at once a few times, then more and more rarely.

What is remembered here bounds the rate of writes and names the other side. Nothing rests on it: a restart counts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from applier.execute import Result
from applier.ownership import Lost
from applier.reasons import Blocked, Reason
from renderer.identity import ObjectKey

PATIENCE = 3
"""Repairs of the same fields in a row that follow at once."""

FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(minutes=30)
"""How long the next repair waits: doubled after each."""

QUIET = timedelta(minutes=10)
"""A repair that was needed so long after the last one, or after twice its wait, is no more of the same fight."""


@dataclass(frozen=True, slots=True)
class _Fight:
    """The last of `times` repairs in a row; no fields where the object itself had been deleted."""

    fields: tuple[Lost, ...]
    times: int
    last: datetime

    @property
    def wait(self) -> timedelta:
        over = self.times - PATIENCE
        return timedelta() if over < 0 else min(FIRST_WAIT * 2 ** min(over, 10), LONGEST_WAIT)

    def is_over(self, now: datetime) -> bool:
        return now - self.last >= max(QUIET, 2 * self.wait)

    def goes_on(self, fields: Iterable[Lost]) -> bool:
        paths = {lost.path for lost in fields}
        return bool(paths & {lost.path for lost in self.fields}) or not (paths or self.fields)

    def __str__(self) -> str:
        said = "; ".join(map(str, self.fields[:3])) or "it is deleted by somebody else"
        return f"{said}, again and again: put right {self.times} times, from now on rarely; stop the other, or leave it out of Git"


class Fights:
    """What one process has seen of fights in one cluster."""

    def __init__(self) -> None:
        self._fights: dict[ObjectKey, _Fight] = {}

    def note(self, results: Iterable[Result], now: datetime) -> None:
        """Remember what was repaired in one round. What we delete ourselves is nobody's doing."""
        self._fights = {key: fight for key, fight in self._fights.items() if not fight.is_over(now)}
        for result in results:
            if result.error is None and result.action in {"healed", "created"}:
                before = self._fights.get(result.key)
                times = before.times + 1 if before and before.goes_on(result.lost) else 1
                self._fights[result.key] = _Fight(result.lost, times, now)
            elif result.error is None and result.action.startswith("deleted"):
                self._fights.pop(result.key, None)

    def held_back(self, now: datetime) -> Mapping[ObjectKey, Blocked]:
        """Objects whose next repair has to wait, until when, and what is told of them."""
        return {
            key: Blocked(Reason.CONFLICT, str(fight), at=key, until=fight.last + fight.wait)
            for key, fight in self._fights.items()
            if fight.wait and now < fight.last + fight.wait
        }
