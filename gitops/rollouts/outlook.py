"""Outlook of a rollout for reports: cause, queue position and earliest start of each item that is not settled.

A forecast contains only future times. A time computed from the present would change in every reconciliation, and each
change would cause a write to the record of the rollout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import groupby, islice

from applier.causes import Cause, CauseRef, Reason
from gitops.durations import MAX_DURATION
from gitops.rollouts.advance import RolloutSnapshot, wave_limits
from gitops.rollouts.collection import Counters, RolloutItem, RolloutItems, WaveView
from gitops.rollouts.policy import Policy, Wave
from gitops.rollouts.queue_position import (
    MAX_FORECAST_STARTS,
    MAX_LISTED_ITEMS,
    BlockingItem,
    QueuePosition,
    StartForecast,
    WaveForecast,
    ordinal,
)
from gitops.rollouts.state import RolloutState, TargetRevision, WaveProgress
from gitops.rollouts.targets import shape_of
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RolloutOutlook:
    """Cause of each item that is not settled, and forecast of each wave, for reports."""

    waits: Mapping[str, Cause]
    """Causes by key of the item, in the order of the rollout."""
    forecasts: Mapping[str, WaveForecast]
    """Forecasts by name of the wave, for the items that have not moved."""


def build_outlook(
    policy: Policy,
    collection: RolloutItems,
    state: RolloutState,
    *,
    now: datetime,
    closed: Mapping[str, Cause] | None,
) -> RolloutOutlook:
    """Return the outlook of a rollout after `reserve` has counted the grants.

    The function reads every item, so only reports use the function. Decisions read only the first items in the order.

    Args:
        closed: cause for each wave whose own windows are closed, by name of the wave.
    """
    snapshot = RolloutSnapshot(policy, collection, state, closed or {})
    waits: dict[str, Cause] = {}
    starts_by_wave: list[tuple[_WaveOutlook, Mapping[str, datetime]]] = []
    opens = now
    earlier_unsettled: tuple[str, ...] = ()
    ordered_items = list(collection)
    for wave in policy.all_waves:
        items = [item for item in ordered_items if collection.wave_of(item.key) == wave.name]
        view = _WaveOutlook(snapshot, now, wave, items, earlier_unsettled)
        starts, opens = view.forecast_starts(opens)
        waits |= view.waits(starts)
        earlier_unsettled = (*earlier_unsettled, *(item.key for item in items if not view.is_concluded(item)))
        starts_by_wave.append((view, starts))
    return RolloutOutlook(waits, {view.wave.name: view.wave_forecast(waits, starts) for view, starts in starts_by_wave})


def with_blocker_references(cause: Cause, causes: Mapping[str, Cause]) -> Cause:
    """Return `cause` with its first blockers as references.

    Each reference has the reason and the end of the blocker's own cause in `causes`.
    """
    return replace(cause, blockers=(), references=(*_instance_refs(cause.blockers, causes), *cause.references))


def progress_of(policy: Policy, wave_counters: Mapping[str, Counters], state: RolloutState) -> tuple[WaveProgress, ...]:
    """Return the progress of each wave, in order.

    Keep the forecasts in `state`, because a new forecast would read every item.

    Args:
        wave_counters: counters by name of the wave.
    """
    forecasts = {wave.name: wave.ahead for wave in state.waves}
    progress = []
    for wave in policy.all_waves:
        counters, target = wave_counters[wave.name], state.targets[wave.name]
        moving = counters.updated - counters.settled - counters.failed
        shape = str(shape_of(policy, wave, target))
        counts = (counters.total, counters.settled, moving, counters.held, counters.failed)
        limits = wave_limits(policy, wave, target, counters)
        progress.append(
            WaveProgress(wave.name, shape, *counts, *limits).with_forecast(forecasts.get(wave.name, WaveForecast()))
        )
    return tuple(progress)


def _instance_refs(names: Sequence[str], causes: Mapping[str, Cause]) -> Iterator[CauseRef]:
    """Yield references to the first `MAX_LISTED_ITEMS` instances in `names`, with their causes in `causes`."""
    for name in names[:MAX_LISTED_ITEMS]:
        cause = causes.get(name) or Cause(Reason.PROGRESSING)
        yield CauseRef("Instance", name, cause.reason, until=cause.until)


@dataclass(frozen=True)
class _WaveOutlook:
    """Wave with all its items, for computing the cause and the earliest start of each item."""

    snapshot: RolloutSnapshot
    now: datetime
    wave: Wave
    items: Sequence[RolloutItem]
    """All items of the wave, in order."""
    earlier_unsettled: tuple[str, ...]
    """Keys of the items in earlier waves that the wave waits for."""

    @cached_property
    def policy(self) -> Policy:
        return self.snapshot.policy

    @cached_property
    def collection(self) -> RolloutItems:
        return self.snapshot.collection

    @cached_property
    def target(self) -> TargetRevision:
        return self.snapshot.target(self.wave)

    @cached_property
    def wave_items(self) -> WaveView:
        return self.collection.waves[self.wave.name]

    @cached_property
    def bake(self) -> timedelta:
        return self.collection.bakes[self.wave.name]

    @cached_property
    def limits(self) -> tuple[int, int]:
        return self.snapshot.limits(self.wave)

    @cached_property
    def shape(self) -> str:
        return str(shape_of(self.policy, self.wave, self.target))

    @cached_property
    def obstacle(self) -> Cause | None:
        """Return the first cause that stops the whole wave, or None if no cause does."""
        return next(self.snapshot.obstacles(self.wave), None)

    @cached_property
    def unsettled(self) -> tuple[str, ...]:
        """Return the keys of the items that have moved and that the rollout still waits for."""
        return tuple(item.key for item in self.items if item.has_moved and not self.is_concluded(item))

    @cached_property
    def eligible_keys(self) -> tuple[str, ...]:
        return tuple(item.key for item in self.items if self.collection.state_of(item.key).is_eligible)

    def wave_forecast(self, waits: Mapping[str, Cause], starts: Mapping[str, datetime]) -> WaveForecast:
        """Return the forecast of the wave.

        Args:
            waits: cause by key of each item that is not settled.
            starts: earliest start in UTC by key of each eligible item.
        """
        names = (
            self.earlier_unsettled
            if self.obstacle and self.obstacle.reason is Reason.WAVE_NOT_REACHED
            else self.unsettled
        )
        blocking_items = (BlockingItem(ref.name, str(ref.reason), ref.until) for ref in _instance_refs(names, waits))
        return WaveForecast(tuple(blocking_items), tuple(self._start_forecasts(starts)))

    def waits(self, starts: Mapping[str, datetime]) -> Iterator[tuple[str, Cause]]:
        """Yield the key and the cause of each item that is not settled.

        Args:
            starts: earliest starts that `forecast_starts` returns.
        """
        availability_wait = self._availability_wait() if self.snapshot.lacks_availability else None
        place = self._first_place
        for item in self.items:
            if item.has_moved:
                if wait := self._in_flight_wait(item):
                    yield item.key, wait
            else:
                position, start = self._position(place), starts.get(item.key)
                yield (
                    item.key,
                    self._obstacle_wait(item, position, start)
                    or (availability_wait if availability_wait and item.healthy else self._pace_wait(position, start)),
                )
                # An item with a hold or a closed gate takes no place, so the next item has the same place.
                place += self.collection.state_of(item.key).is_eligible

    def is_concluded(self, item: RolloutItem) -> bool:
        """Return whether the next wave does not wait for `item`."""
        state = self.collection.state_of(item.key)
        return state.is_settled or state.has_failed or state.is_passed_over

    @property
    def _first_place(self) -> int:
        """Return the place of the first item that has not moved."""
        return self.wave_items.counters.updated + 1

    def _start_forecasts(self, starts: Mapping[str, datetime]) -> Iterator[StartForecast]:
        """Yield a forecast for each place whose item starts later than the items at earlier places."""
        forecasts = (
            StartForecast(place, starts[key])
            for place, key in enumerate(self.eligible_keys, self._first_place)
            if key in starts
        )
        batches = groupby(forecasts, key=lambda forecast: forecast.at)
        return (next(batch) for _, batch in islice(batches, MAX_FORECAST_STARTS))

    def _in_flight_wait(self, item: RolloutItem) -> Cause | None:
        """Return the cause of `item`, which has moved.

        If the item is settled, return None. If the item is isolated and has failed, also return None, because the nodes
        of the item report the failure.
        """
        state = self.collection.state_of(item.key)
        if state.is_settled or (state.is_passed_over and not item.is_passed_over):
            return None
        if item.error:
            return Cause(Reason.APPLY_FAILED, item.error)
        if item.progress.flaps > self.policy.max_flaps:
            return Cause(Reason.UNHEALTHY, f"lost its health {item.progress.flaps} times while baking at {self.target}")
        if state.has_failed:
            return Cause(Reason.UNHEALTHY, f"not healthy at {self.target} within the progress deadline")
        if item.is_passed_over:
            return item.held
        if item.blocked:
            return item.blocked
        if item.updated and item.healthy:
            return Cause(
                Reason.BAKING, f"healthy at {self.target}; waiting for the bake time to pass", until=state.changes_at
            )
        return Cause(Reason.PROGRESSING, f"moving to {self.target}")

    def _pace_wait(self, position: QueuePosition, start: datetime | None) -> Cause:
        """Return the cause of the item at `position`, for which the wave has no room yet."""
        wave = f" in wave {self.wave.name}" if self.policy.waves else ""
        message = f"{ordinal(position.place)} of {position.total}{wave}, {self.shape}"
        return Cause(
            Reason.PACE_REACHED,
            message,
            until=start,
            blockers=self.unsettled,
            details={"position": position.stable_fields},
            is_shared=True,
        )

    def _obstacle_wait(self, item: RolloutItem, position: QueuePosition, start: datetime | None) -> Cause | None:
        """Return the cause, other than pace, that keeps `item` from moving, or None if only pace keeps the item.

        If several causes apply, return the cause that a person should see first.
        """
        wait = item.held or self._halt_obstacle() or item.blocked or self.obstacle
        if wait is None or wait.reason is not Reason.WAVE_NOT_REACHED:
            return wait
        return replace(
            wait,
            until=start,
            blockers=self.earlier_unsettled,
            details={"position": position.stable_fields},
            is_shared=True,
        )

    def _availability_wait(self) -> Cause:
        total = self.collection.counters
        needed = self.policy.min_available.round_up(total.total)
        return Cause(Reason.PACE_REACHED, f"{needed} of {total.total} must be healthy, {total.healthy} are")

    def _position(self, place: int) -> QueuePosition:
        counters, (limit, next_limit) = self.wave_items.counters, self.limits
        return QueuePosition(place, counters.total, limit, counters.updated, next_limit, self.wave.name, self.shape)

    def _halt_obstacle(self) -> Cause | None:
        return self.obstacle if self.obstacle and self.obstacle.reason is Reason.HALTED else None

    def forecast_starts(self, opens: datetime) -> tuple[dict[str, datetime], datetime]:
        """Return the earliest start in UTC by key of each eligible item, and the earliest end of the wave.

        The forecast assumes that the wave opens at `opens` and that each item settles as early as it can. The starts
        are lower bounds, because approvals and recoveries take unknown time. An item that can start now has no entry.
        The assumed end of an item is at most `MAX_DURATION` ahead.
        """
        now, bake = self.now, self.bake
        latest = now + MAX_DURATION
        begin = max((opens, *([self.obstacle.until] if self.obstacle and self.obstacle.until else [])))
        ends = [self._earliest_end(item) for item in self.items if item.has_moved and not self.is_concluded(item)]
        heapify(ends)
        keys_to_start = iter(self.eligible_keys)
        counters, moment = self.wave_items.counters, begin
        moved_count = counters.updated
        starts: dict[str, datetime] = {}
        # The end of items that start at the present is unknown, so the time does not advance for them.
        untimed_moves = 0
        while True:
            for key in islice(keys_to_start, max(0, self.snapshot.limit(self.wave, counters) - moved_count)):
                if moment > now:
                    starts[key] = moment
                    heappush(ends, min(moment + bake, latest))
                else:
                    untimed_moves += 1
                moved_count += 1
            if untimed_moves:
                untimed_moves -= 1
            elif ends:
                moment = max(moment, heappop(ends))
            else:
                return starts, moment
            counters = counters._replace(settled=counters.settled + 1)

    def _earliest_end(self, item: RolloutItem) -> datetime:
        """Return the earliest time in UTC at which `item`, which is in flight, settles.

        If only the health of the item decides, return the present.
        """
        now = self.now
        if item.updated and item.healthy:
            return self.collection.state_of(item.key).changes_at or now
        begin = item.blocked.until if item.blocked else item.progress.running_since
        if begin is None:
            return now
        return begin + (self.bake if item.granted else timedelta())
