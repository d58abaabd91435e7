"""Objects that somebody else changes back, or deletes, again and again: they are put right at once a few times, then more and more rarely.

What is remembered here bounds the rate of writes and names the other side. Nothing rests on it: a restart counts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from applier.backoff import waits
from applier.causes import Cause, Reason
from applier.execute.results import Result
from applier.state.managed_fields import Lost
from renderer.frozen import dataclass
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
    """What one process has seen of fights in one cluster. What was put right a few times only, which is everything that was ever made, costs
    nothing to those that are asked about.
    """

    def __init__(self) -> None:
        self._few: dict[ObjectKey, _Fight] = {}  # in the order of their last repairs
        self._held: dict[ObjectKey, _Fight] = {}

    def record(self, results: Iterable[Result], now: datetime) -> None:
        """Remember what was repaired in one round. What we delete ourselves is nobody's doing."""
        self._forget(now)
        for result in results:
            if result.error is None and result.action in {"healed", "created"}:
                before = self._few.pop(result.key, None) or self._held.pop(result.key, None)
                times = before.times + 1 if before and before.goes_on(result.lost) else 1
                fight = _Fight(result.lost, times, now)
                (self._held if fight.wait else self._few)[result.key] = fight
            elif result.error is None and result.action.startswith("deleted"):
                self._few.pop(result.key, None)
                self._held.pop(result.key, None)

    def throttled(self, now: datetime) -> Mapping[ObjectKey, Cause]:
        """Objects whose next repair has to wait, until when, and what is told of them."""
        return {
            key: Cause(Reason.CONFLICT, str(fight), at=key, until=fight.last + fight.wait)
            for key, fight in self._held.items()
            if waits(fight.last + fight.wait, fight.wait, now)
        }

    def _forget(self, now: datetime) -> None:
        """Those that are over."""
        while self._few and self._few[first := next(iter(self._few))].is_over(now):
            del self._few[first]
        self._held = {key: fight for key, fight in self._held.items() if not fight.is_over(now)}
