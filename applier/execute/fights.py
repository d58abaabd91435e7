"""Fights over objects that another writer changes or deletes again and again, and the growing waits between repairs.

The memory of fights only limits the rate of writes and identifies the other writer. After a restart, the counts start
at zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from applier.backoff import exponential_backoff, is_waiting
from applier.causes import Cause, Reason
from applier.execute.results import Result
from applier.state.managed_fields import LostField
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import join_names

MAX_IMMEDIATE_REPAIRS = 3
"""Number of consecutive repairs of the same fields that Levelgate does not delay."""

FIRST_REPAIR_WAIT, MAX_REPAIR_WAIT = timedelta(minutes=1), timedelta(minutes=30)
"""Range of the wait before the next repair. The wait doubles after each repair."""

QUIET_PERIOD = timedelta(minutes=10)
"""Shortest time without repairs that ends a fight. If twice the last wait is longer, that time applies instead."""


@dataclass(frozen=True, slots=True)
class _Fight:
    """Consecutive repairs of one object.

    If the other writer deletes the object instead of changing fields, `lost_fields` is empty.
    """

    lost_fields: tuple[LostField, ...]
    """Fields that the last repair healed."""
    repairs: int
    last_repair: datetime

    @property
    def wait(self) -> timedelta:
        excess = self.repairs - MAX_IMMEDIATE_REPAIRS
        return timedelta() if excess < 0 else exponential_backoff(excess, FIRST_REPAIR_WAIT, MAX_REPAIR_WAIT)

    def is_over(self, now: datetime) -> bool:
        return now - self.last_repair >= max(QUIET_PERIOD, 2 * self.wait)

    def is_continued_by(self, lost_fields: Iterable[LostField]) -> bool:
        paths = {lost.path for lost in lost_fields}
        return bool(paths & {lost.path for lost in self.lost_fields}) or not (paths or self.lost_fields)

    def __str__(self) -> str:
        changes_text = join_names(self.lost_fields, limit=3, separator="; ") or "another client deletes the object"
        return (
            f"{changes_text}, repeatedly: healed {self.repairs} times, and Levelgate now waits between repairs; "
            "stop the other client, or remove the object from Git"
        )


class Fights:
    """Memory of the fights in one cluster, for one process.

    Every new fight begins in a separate mapping, for objects whose repairs Levelgate does not delay. So `throttled`
    reads only the fights whose repairs Levelgate delays.
    """

    def __init__(self) -> None:
        self._unthrottled_fights: dict[ObjectKey, _Fight] = {}  # in the order of their last repairs
        self._throttled_fights: dict[ObjectKey, _Fight] = {}

    def record(self, results: Iterable[Result], now: datetime) -> None:
        """Record the repairs of one round. If Levelgate deletes an object, the fight over the object ends."""
        self._forget_finished(now)
        for result in results:
            if result.error is None and (result.lost_fields or result.action in {"healed", "created"}):
                previous = self._unthrottled_fights.pop(result.key, None) or self._throttled_fights.pop(
                    result.key, None
                )
                repairs = previous.repairs + 1 if previous and previous.is_continued_by(result.lost_fields) else 1
                fight = _Fight(result.lost_fields, repairs, now)
                (self._throttled_fights if fight.wait else self._unthrottled_fights)[result.key] = fight
            elif result.error is None and result.action.startswith("deleted"):
                self._unthrottled_fights.pop(result.key, None)
                self._throttled_fights.pop(result.key, None)

    def throttled(self, now: datetime) -> Mapping[ObjectKey, Cause]:
        """Return the objects whose next repair has to wait, each with the cause to report."""
        return {
            key: Cause(Reason.CONFLICT, str(fight), object_key=key, until=fight.last_repair + fight.wait)
            for key, fight in self._throttled_fights.items()
            if is_waiting(fight.last_repair + fight.wait, fight.wait, now)
        }

    def _forget_finished(self, now: datetime) -> None:
        """Forget the fights that have ended by `now`."""
        while self._unthrottled_fights and self._unthrottled_fights[
            first := next(iter(self._unthrottled_fights))
        ].is_over(now):
            del self._unthrottled_fights[first]
        self._throttled_fights = {key: fight for key, fight in self._throttled_fights.items() if not fight.is_over(now)}
