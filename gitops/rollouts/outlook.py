"""Why each item that has not settled has not: one cause each, with its place in the order and the earliest time at which that can end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import islice

from applier.causes import Reason
from gitops.durations import LONGEST
from gitops.rollouts.advance import RolloutSnapshot
from gitops.rollouts.collection import RolloutCollection, RolloutItem, WaveItems
from gitops.rollouts.policy import Policy, Wave
from gitops.rollouts.queue_position import (
    MOST,
    MOST_STARTS,
    BlockingItem,
    QueuePosition,
    StartForecast,
    Wait,
    WaveForecast,
    ordinal,
)
from gitops.rollouts.state import RolloutState, WaveProgress
from gitops.rollouts.targets import shape_of
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RolloutOutlook:
    """`waits` by key, in order; `ahead`, by wave, is what those have in common that have not moved."""

    waits: Mapping[str, Wait]
    ahead: Mapping[str, WaveForecast]


def outlook(
    policy: Policy,
    collection: RolloutCollection,
    state: RolloutState,
    *,
    now: datetime,
    closed: Mapping[str, Wait] | None = None,
) -> RolloutOutlook:
    """Looks at every item, so it is for reports; `decide` does not need it. Parameters as there, after `reserve`."""
    collection.advance_to(now)
    situation = RolloutSnapshot(policy, collection, state, closed or {})
    found: dict[str, Wait] = {}
    views: list[_WaveView] = []
    opens = collection.now
    late: tuple[str, ...] = ()
    members = list(collection)
    for wave in policy.all_waves:
        items = [item for item in members if collection.wave_of(item.key).name == wave.name]
        view = _WaveView(situation, wave, late)
        starts, opens = view.forecast(items, opens)
        found |= view.waits(items, starts)
        late = (*late, *(item.key for item in items if not view.is_passed(item)))
        views.append(view)
    return RolloutOutlook(found, {view.wave.name: view.ahead(found) for view in views})


def progress_of(policy: Policy, collection: RolloutCollection, state: RolloutState) -> tuple[WaveProgress, ...]:
    """How far each wave is, in order. What is ahead of those that wait takes a look at all: it is as the state says."""
    ahead = {wave.name: wave.ahead for wave in state.waves}
    situation = RolloutSnapshot(policy, collection, state, {})
    found = []
    for wave in policy.all_waves:
        counters = collection.waves[wave.name].counters
        target = state.targets[wave.name]
        moving = counters.updated - counters.settled - counters.failed
        shape = str(shape_of(policy, wave, target))
        counts = (counters.total, counters.settled, moving, counters.held, counters.failed)
        limits = situation.limits(wave)
        found.append(WaveProgress(wave.name, shape, *counts, *limits).facing(ahead.get(wave.name, WaveForecast())))
    return tuple(found)


class _WaveView:
    """One wave, as its items see it. `late` are the items of earlier waves that it waits for."""

    def __init__(self, situation: RolloutSnapshot, wave: Wave, late: tuple[str, ...]) -> None:
        self.late = late
        self.situation = situation
        self.policy = situation.policy
        self.collection = situation.collection
        self.wave = wave
        self.target = situation.target(wave)
        self.own: WaveItems = self.collection.waves[wave.name]
        self.limit, self.then = situation.limits(wave)
        self.shape = str(shape_of(self.policy, wave, self.target))
        self.hindrance = next(situation.obstacles(wave), None)
        self.unsettled: tuple[str, ...] = ()
        self.starts: list[StartForecast] = []

    def ahead(self, waits: Mapping[str, Wait]) -> WaveForecast:
        names = self.late if self.hindrance and self.hindrance.reason is Reason.WAVE_NOT_REACHED else self.unsettled
        others = ((name, waits.get(name)) for name in names[:MOST])
        told = (
            BlockingItem(name, str(wait.reason), wait.not_before)
            if wait
            else BlockingItem(name, str(Reason.PROGRESSING))
            for name, wait in others
        )
        return WaveForecast(tuple(told), tuple(self.starts))

    def waits(self, items: Sequence[RolloutItem], starts: Mapping[str, datetime]) -> Iterator[tuple[str, Wait]]:
        self.unsettled = tuple(item.key for item in items if item.moved and not self.is_passed(item))
        lacking = self._lacking() if self.situation.lacks_availability else None
        rank = 0
        for item in items:
            if item.moved:
                if wait := self._on_its_way(item):
                    yield item.key, wait
            else:
                position, start = self._position(self.own.counters.updated + rank + 1), starts.get(item.key)
                yield (
                    item.key,
                    self._hindered(item, position, start)
                    or (lacking if lacking and item.healthy else self._paced(position, start)),
                )
                if self.collection.standing_of(item.key).eligible:
                    self._starts(position.place, start)
                    rank += 1

    def is_passed(self, item: RolloutItem) -> bool:
        """Does the next wave not wait for it?"""
        found = self.collection.standing_of(item.key)
        return found.settled or found.failed or found.passed

    def _on_its_way(self, item: RolloutItem) -> Wait | None:
        found = self.collection.standing_of(item.key)
        if found.settled or (found.passed and not item.passed):  # what is wrong with one that is alone, its nodes say
            return None
        if item.error:
            return Wait(Reason.APPLY_FAILED, item.error)
        if item.progress.flaps > self.policy.max_flaps:
            return Wait(Reason.UNHEALTHY, f"lost its health {item.progress.flaps} times while baking at {self.target}")
        if found.failed:
            return Wait(Reason.UNHEALTHY, f"not healthy at {self.target} within the progress deadline")
        if item.passed:
            return item.held
        if item.blocked:
            return item.blocked
        if item.updated and item.healthy:
            return Wait(Reason.BAKING, f"healthy at {self.target}, has to stay so", not_before=found.due)
        return Wait(Reason.PROGRESSING, f"moving to {self.target}")

    def _paced(self, position: QueuePosition, start: datetime | None) -> Wait:
        wave = f" in wave {self.wave.name}" if self.policy.waves else ""
        told = f"{ordinal(position.place)} of {position.total}{wave}, {self.shape}"
        return Wait(Reason.PACE_REACHED, told, start, self.unsettled, position, shared=True)

    def _hindered(self, item: RolloutItem, position: QueuePosition, start: datetime | None) -> Wait | None:
        wait = item.held or self._of_person() or item.blocked or self.hindrance
        if wait is None or wait.reason is not Reason.WAVE_NOT_REACHED:
            return wait
        return replace(wait, not_before=start, by=self.late, position=position, shared=True)

    def _starts(self, place: int, at: datetime | None) -> None:
        """Remember from which place on others start later."""
        if at and len(self.starts) < MOST_STARTS and not (self.starts and self.starts[-1].at == at):
            self.starts.append(StartForecast(place, at))

    def _lacking(self) -> Wait:
        total = self.collection.counters
        needed = self.policy.min_available.at_least(total.total)
        return Wait(Reason.PACE_REACHED, f"{needed} of {total.total} must be healthy, {total.healthy} are")

    def _position(self, place: int) -> QueuePosition:
        counters = self.own.counters
        return QueuePosition(place, counters.total, self.limit, counters.updated, self.then, self.wave.name, self.shape)

    def _of_person(self) -> Wait | None:
        return self.hindrance if self.hindrance and self.hindrance.reason is Reason.HALTED else None

    def forecast(self, items: Sequence[RolloutItem], opens: datetime) -> tuple[dict[str, datetime], datetime]:
        """The earliest start of each eligible item, and the earliest end of the wave, if all goes well from now on and the wave opens then.

        Only starts after the present are given. A lower bound: who knows when a person approves, or something becomes healthy. Nothing is reckoned
        from the present itself, which every pass would tell anew: where that is all there is to go by, nothing is known. What would begin in more
        than a hundred years is told to begin then.
        """
        now, bake = self.collection.now, self.own.bake
        latest = now + LONGEST
        begin = max((opens, *([self.hindrance.not_before] if self.hindrance and self.hindrance.not_before else [])))
        ends = [self._earliest_end(item) for item in items if item.moved and not self.is_passed(item)]
        heapify(ends)
        eligible = iter([item.key for item in items if self.collection.standing_of(item.key).eligible])
        counters, moment = self.own.counters, begin
        moved = counters.updated
        starts: dict[str, datetime] = {}
        at_any_time = 0
        while True:
            for key in islice(eligible, max(0, self.situation.limit(self.wave, counters) - moved)):
                if moment > now:
                    starts[key] = moment
                    heappush(ends, min(moment + bake, latest))
                else:
                    at_any_time += 1
                moved += 1
            if at_any_time:
                at_any_time -= 1
            elif ends:
                moment = max(moment, heappop(ends))
            else:
                return starts, moment
            counters = counters._replace(settled=counters.settled + 1)

    def _earliest_end(self, item: RolloutItem) -> datetime:
        now = self.collection.now
        if item.updated and item.healthy:
            return self.collection.standing_of(item.key).due or now
        begin = item.blocked.not_before if item.blocked else item.progress.running_since
        if begin is None:
            return now
        return begin + (self.own.bake if item.granted else timedelta())
