"""Why each item that has not settled has not: one cause each, with its place in the order and the earliest time at which that can end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import islice

from applier.causes import Cause, CauseRef, Reason
from gitops.durations import MAX_DURATION
from gitops.rollouts.advance import RolloutSnapshot
from gitops.rollouts.collection import RolloutCollection, RolloutItem, WaveItems
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
from gitops.rollouts.state import RolloutState, WaveProgress
from gitops.rollouts.targets import shape_of
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RolloutOutlook:
    """`waits` by key, in order; `ahead`, by wave, is what those have in common that have not moved."""

    waits: Mapping[str, Cause]
    forecasts: Mapping[str, WaveForecast]


def build_outlook(
    policy: Policy,
    collection: RolloutCollection,
    state: RolloutState,
    *,
    now: datetime,
    closed: Mapping[str, Cause] | None,
) -> RolloutOutlook:
    """Looks at every item, so it is for reports; `decide` does not need it. Parameters as there, after `reserve`."""
    collection.advance_to(now)
    snapshot = RolloutSnapshot(policy, collection, state, closed or {})
    waits: dict[str, Cause] = {}
    views: list[_WaveView] = []
    opens = collection.now
    earlier_unsettled: tuple[str, ...] = ()
    ordered_items = list(collection)
    for wave in policy.all_waves:
        items = [item for item in ordered_items if collection.wave_of(item.key).name == wave.name]
        view = _WaveView(snapshot, wave, earlier_unsettled)
        starts, opens = view.forecast_starts(items, opens)
        waits |= view.waits(items, starts)
        earlier_unsettled = (*earlier_unsettled, *(item.key for item in items if not view.is_concluded(item)))
        views.append(view)
    return RolloutOutlook(waits, {view.wave.name: view.wave_forecast(waits) for view in views})


def with_blocker_references(cause: Cause, causes: Mapping[str, Cause]) -> Cause:
    """Return the cause with references to its first blockers in place of their names; `causes` tells why each of them waits itself."""
    return replace(cause, blockers=(), references=(*_instance_refs(cause.blockers, causes), *cause.references))


def progress_of(policy: Policy, collection: RolloutCollection, state: RolloutState) -> tuple[WaveProgress, ...]:
    """How far each wave is, in order. What is ahead of those that wait takes a look at all: it is as the state says."""
    forecasts = {wave.name: wave.ahead for wave in state.waves}
    snapshot = RolloutSnapshot(policy, collection, state, {})
    progress = []
    for wave in policy.all_waves:
        counters = collection.waves[wave.name].counters
        target = state.targets[wave.name]
        moving = counters.updated - counters.settled - counters.failed
        shape = str(shape_of(policy, wave, target))
        counts = (counters.total, counters.settled, moving, counters.held, counters.failed)
        limits = snapshot.limits(wave)
        progress.append(
            WaveProgress(wave.name, shape, *counts, *limits).with_forecast(forecasts.get(wave.name, WaveForecast()))
        )
    return tuple(progress)


def _instance_refs(names: Sequence[str], causes: Mapping[str, Cause]) -> Iterator[CauseRef]:
    for name in names[:MAX_LISTED_ITEMS]:
        cause = causes.get(name) or Cause(Reason.PROGRESSING)
        yield CauseRef("Instance", name, cause.reason, until=cause.until)


class _WaveView:
    """One wave, as its items see it. `late` are the items of earlier waves that it waits for."""

    def __init__(self, snapshot: RolloutSnapshot, wave: Wave, earlier_unsettled: tuple[str, ...]) -> None:
        self.earlier_unsettled = earlier_unsettled
        self.snapshot = snapshot
        self.policy = snapshot.policy
        self.collection = snapshot.collection
        self.wave = wave
        self.target = snapshot.target(wave)
        self.wave_items: WaveItems = self.collection.waves[wave.name]
        self.limit, self.then = snapshot.limits(wave)
        self.shape = str(shape_of(self.policy, wave, self.target))
        self.obstacle = next(snapshot.obstacles(wave), None)
        self.unsettled: tuple[str, ...] = ()
        self.starts: list[StartForecast] = []

    def wave_forecast(self, waits: Mapping[str, Cause]) -> WaveForecast:
        names = (
            self.earlier_unsettled
            if self.obstacle and self.obstacle.reason is Reason.WAVE_NOT_REACHED
            else self.unsettled
        )
        blocking_items = (BlockingItem(ref.name, str(ref.reason), ref.until) for ref in _instance_refs(names, waits))
        return WaveForecast(tuple(blocking_items), tuple(self.starts))

    def waits(self, items: Sequence[RolloutItem], starts: Mapping[str, datetime]) -> Iterator[tuple[str, Cause]]:
        self.unsettled = tuple(item.key for item in items if item.has_moved and not self.is_concluded(item))
        availability_wait = self._availability_wait() if self.snapshot.lacks_availability else None
        rank = 0
        for item in items:
            if item.has_moved:
                if wait := self._in_flight_wait(item):
                    yield item.key, wait
            else:
                position, start = self._position(self.wave_items.counters.updated + rank + 1), starts.get(item.key)
                yield (
                    item.key,
                    self._obstacle_wait(item, position, start)
                    or (availability_wait if availability_wait and item.healthy else self._pace_wait(position, start)),
                )
                if self.collection.state_of(item.key).is_eligible:
                    self._record_start(position.place, start)
                    rank += 1

    def is_concluded(self, item: RolloutItem) -> bool:
        """Does the next wave not wait for it?"""
        state = self.collection.state_of(item.key)
        return state.is_settled or state.has_failed or state.is_passed_over

    def _in_flight_wait(self, item: RolloutItem) -> Cause | None:
        state = self.collection.state_of(item.key)
        if state.is_settled or (
            state.is_passed_over and not item.is_passed_over
        ):  # what is wrong with one that is alone, its nodes say
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

    def _record_start(self, place: int, starts_at: datetime | None) -> None:
        """Remember from which place on others start later."""
        if (
            starts_at
            and len(self.starts) < MAX_FORECAST_STARTS
            and not (self.starts and self.starts[-1].at == starts_at)
        ):
            self.starts.append(StartForecast(place, starts_at))

    def _availability_wait(self) -> Cause:
        total = self.collection.counters
        needed = self.policy.min_available.round_up(total.total)
        return Cause(Reason.PACE_REACHED, f"{needed} of {total.total} must be healthy, {total.healthy} are")

    def _position(self, place: int) -> QueuePosition:
        counters = self.wave_items.counters
        return QueuePosition(place, counters.total, self.limit, counters.updated, self.then, self.wave.name, self.shape)

    def _halt_obstacle(self) -> Cause | None:
        return self.obstacle if self.obstacle and self.obstacle.reason is Reason.HALTED else None

    def forecast_starts(self, items: Sequence[RolloutItem], opens: datetime) -> tuple[dict[str, datetime], datetime]:
        """The earliest start of each eligible item, and the earliest end of the wave, if all goes well from now on and the wave opens then.

        Only starts after the present are given. A lower bound: who knows when a person approves, or something becomes healthy. Nothing is reckoned
        from the present itself, which every pass would tell anew: where that is all there is to go by, nothing is known. What would begin in more
        than a hundred years is told to begin then.
        """
        now, bake = self.collection.now, self.wave_items.bake
        latest = now + MAX_DURATION
        begin = max((opens, *([self.obstacle.until] if self.obstacle and self.obstacle.until else [])))
        ends = [self._earliest_end(item) for item in items if item.has_moved and not self.is_concluded(item)]
        heapify(ends)
        eligible = iter([item.key for item in items if self.collection.state_of(item.key).is_eligible])
        counters, moment = self.wave_items.counters, begin
        moved_count = counters.updated
        starts: dict[str, datetime] = {}
        untimed_moves = 0
        while True:
            for key in islice(eligible, max(0, self.snapshot.limit(self.wave, counters) - moved_count)):
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
        now = self.collection.now
        if item.updated and item.healthy:
            return self.collection.state_of(item.key).changes_at or now
        begin = item.blocked.until if item.blocked else item.progress.running_since
        if begin is None:
            return now
        return begin + (self.wave_items.bake if item.granted else timedelta())
