"""Items of a rollout with counters that follow each change, so that one event costs the logarithm of their number.

Items change one at a time (`set_item`, `remove`), and time moves with `advance_to`. A heap holds the moments at which time
alone changes an item: the end of a bake, a deadline. `recount` computes the same from scratch, as a check. A collection
belongs to one assignment of targets. `SortedKeys` is an ordered set that is cheap to change while it is large.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import reduce
from heapq import heappop, heappush
from operator import add, sub
from typing import Any, Final, Generic, NamedTuple, TypeVar

from applier.causes import Cause, Reason
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import ItemOrder, Policy
from renderer.frozen import dataclass

_P = TypeVar("_P", bound=tuple[Any, ...])


class SortedKeys(Generic[_P]):
    """A set of keys, each with a place whose last part is the key, in the order of the places. Adding and removing cost a logarithm, reading the
    first k costs k logarithms. A removed place stays in the heap until it comes to the top; no place is in it twice.
    """

    def __init__(self) -> None:
        self._heap: list[_P] = []
        self._queued: set[_P] = set()
        self._members: dict[str, _P] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[_P]:
        """As far as it is asked for: a walk from the root of the heap that always takes the least of what it has reached."""
        reached = [(self._heap[0], 0)] if self._heap else []
        while reached:
            sort_key, index = heappop(reached)
            if self._members.get(sort_key[-1]) == sort_key:
                yield sort_key
            for child in (2 * index + 1, 2 * index + 2):
                if child < len(self._heap):
                    heappush(reached, (self._heap[child], child))

    def add(self, sort_key: _P) -> None:
        self._members[sort_key[-1]] = sort_key
        if sort_key not in self._queued:
            self._queued.add(sort_key)
            heappush(self._heap, sort_key)

    def discard(self, key: str) -> None:
        self._members.pop(key, None)
        while self._heap and self._members.get(self._heap[0][-1]) != self._heap[0]:
            self._queued.discard(heappop(self._heap))


_MIN_TIME = datetime.min.replace(tzinfo=UTC)
_PERSON_REASONS: Final = frozenset({Reason.HELD, Reason.SUSPENDED})


@dataclass(frozen=True, slots=True)
class RolloutItem:
    """One instance (or item of a collection, or cluster) as a rollout sees it. Everything speaks of the target of its wave.

    `updated`: runs the target, or renders the same there. `granted`: was let move
    there; that counts at once. `healthy` is asked of a fresh observation, at whatever revision it is. `is_new`: it runs nothing yet. `alone`: it has
    never run anything and nobody set a pace for that, so the others do not wait for it where it fails. `error`: what the server said for good when
    it was applied. `held`: somebody keeps it where it is; the others pass it. `blocked`: another gate is closed for it, or, once it was granted,
    what it waits for on its way.
    """

    key: str
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    updated: bool = False
    granted: bool = False
    healthy: bool = True
    is_new: bool = False
    is_isolated: bool = False
    progress: ItemProgress = field(default_factory=ItemProgress)
    error: str = ""
    held: Cause | None = None
    blocked: Cause | None = None

    @property
    def has_moved(self) -> bool:
        """Counts as updated: the grant is a reservation."""
        return self.updated or self.granted

    @property
    def is_passed_over(self) -> bool:
        """The others do not wait for it: it has not moved and is held, or a person holds it on its way."""
        return self.held is not None and (not self.has_moved or self.held.reason in _PERSON_REASONS)


class Counters(NamedTuple):
    """Of one wave. `held` are those that are passed: neither settled nor failed. `paused` are those of them that are on their way; all others that
    were granted or run the target are `updated`.
    """

    total: int = 0
    updated: int = 0
    settled: int = 0
    failed: int = 0
    healthy: int = 0
    held: int = 0
    paused: int = 0

    @property
    def in_flight(self) -> int:
        return self.updated - self.settled

    def add_counters(self, other: Counters) -> Counters:
        return Counters._make(map(add, self, other))

    def subtract_counters(self, other: Counters) -> Counters:
        return Counters._make(map(sub, self, other))


class ItemState(NamedTuple):
    """What an item counts as now, and when that changes by time alone. `passed`: the others do not wait for it, whatever becomes of it."""

    is_settled: bool
    has_failed: bool
    is_passed_over: bool
    is_eligible: bool
    changes_at: datetime | None


def item_state(item: RolloutItem, now: datetime, *, bake: timedelta, policy: Policy) -> ItemState:
    """Settled: updated, healthy, and baked if it was moved. Failed: granted, not settled, and refused for good, flapping, or getting nowhere; what is
    alone is passed then.
    """
    eligible = not item.has_moved and item.held is None and item.blocked is None
    baked_at = deadline_at = None
    if item.updated and item.healthy:
        baked_at = _MIN_TIME if not item.granted else item.progress.ready_since and item.progress.ready_since + bake
    elif item.granted:
        deadline_at = item.progress.overdue_after(policy.progress_deadline)
    settled = baked_at is not None and now >= baked_at
    is_late = deadline_at is not None and now > deadline_at
    failed = item.granted and not settled and (bool(item.error) or item.progress.flaps > policy.max_flaps or is_late)
    changes_at = None
    if baked_at is not None and not settled:
        changes_at = baked_at
    elif deadline_at is not None and not is_late:
        changes_at = deadline_at + datetime.resolution
    is_passed_over = not settled and ((item.is_passed_over and not failed) or (item.is_isolated and failed))
    return ItemState(settled, failed and not is_passed_over, is_passed_over, eligible, changes_at)


def _counters_of(item: RolloutItem, state: ItemState) -> Counters:
    paused = state.is_passed_over and item.has_moved
    return Counters(
        1, item.has_moved and not paused, state.is_settled, state.has_failed, item.healthy, state.is_passed_over, paused
    )


SortKey = tuple[int, str, str]
"""Where an item stands in the order: higher priority first, then shuffled or not, then as declared, then by key."""


class WaveItems:
    """The items of one wave: counters, and three ordered sets of those that have not moved.

    `eligible`: every gate but the pace is open. `repairs`: those of them that are not healthy. `newcomers`: those that run nothing yet and are not
    held, whatever their gates say.
    """

    def __init__(self, name: str, bake: timedelta) -> None:
        self.name = name
        self.bake = bake
        self.counters = Counters()
        self.eligible = SortedKeys[SortKey]()
        self.repairs = SortedKeys[SortKey]()
        self.newcomers = SortedKeys[SortKey]()

    def add(self, item: RolloutItem, state: ItemState, sort_key: SortKey) -> None:
        self.counters = self.counters.add_counters(_counters_of(item, state))
        for pending, belongs in (
            (self.eligible, state.is_eligible),
            (self.repairs, state.is_eligible and not item.healthy),
            (self.newcomers, item.is_new and not item.has_moved and item.held is None),
        ):
            if belongs:
                pending.add(sort_key)

    def remove(self, item: RolloutItem, state: ItemState) -> None:
        self.counters = self.counters.subtract_counters(_counters_of(item, state))
        for pending in (self.eligible, self.repairs, self.newcomers):
            pending.discard(item.key)


class _Member(NamedTuple):
    item: RolloutItem
    item_state: ItemState
    wave: WaveItems


class RolloutCollection:
    """All items of one definition under one policy. `bakes` says how long each wave bakes, by name, for all waves of the policy in order;
    `salt` is what a shuffled order depends on: the target.
    """

    def __init__(self, policy: Policy, bakes: Mapping[str, timedelta], *, salt: str = "") -> None:
        self.policy = policy
        self.waves = {wave.name: WaveItems(wave.name, bakes[wave.name]) for wave in policy.all_waves}
        self.now = _MIN_TIME
        self._salt = salt if policy.order is ItemOrder.SHUFFLE_PER_REVISION else None
        self._members: dict[str, _Member] = {}
        self._moments = SortedKeys[tuple[datetime, str]]()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[RolloutItem]:
        """In order, wave by wave; sorts all of them."""
        for wave in self.waves.values():
            yield from sorted(
                (member.item for member in self._members.values() if member.wave is wave), key=self.sort_key_of
            )

    def __getitem__(self, key: str) -> RolloutItem:
        return self._members[key].item

    @property
    def counters(self) -> Counters:
        """Of all waves together."""
        return reduce(Counters.add_counters, (wave.counters for wave in self.waves.values()), Counters())

    def counters_of(self, key: str) -> Counters:
        """What one item counts as."""
        member = self._members[key]
        return _counters_of(member.item, member.item_state)

    def wave_of(self, key: str) -> WaveItems:
        return self._members[key].wave

    def state_of(self, key: str) -> ItemState:
        return self._members[key].item_state

    def sort_key_of(self, item: RolloutItem) -> SortKey:
        shuffled = "" if self._salt is None else hashlib.sha256(f"{self._salt}/{item.key}".encode()).hexdigest()
        return -item.priority, shuffled, item.key

    def set_item(self, item: RolloutItem) -> None:
        """Add an item, or replace what was known of it."""
        self.remove(item.key)
        wave = self.waves[self.policy.wave_of(item.labels)]
        state = item_state(item, self.now, bake=wave.bake, policy=self.policy)
        self._members[item.key] = _Member(item, state, wave)
        wave.add(item, state, self.sort_key_of(item))
        if state.changes_at is not None:
            self._moments.add((state.changes_at, item.key))

    def remove(self, key: str) -> None:
        """Forget an item; nothing happens if it is not there."""
        member = self._members.pop(key, None)
        if member is not None:
            member.wave.remove(member.item, member.item_state)
            self._moments.discard(key)

    def advance_to(self, now: datetime) -> Sequence[str]:
        """Let time pass. An earlier time than the last one counts as the last one, so that a clock stepping back changes nothing. Answers the items
        whose moment has come.
        """
        self.now = max(self.now, now)
        due_keys: list[str] = []
        while (moment := self.next_change) and moment <= self.now:
            due_keys.append(next(iter(self._moments))[1])
            self.set_item(self[due_keys[-1]])
        return due_keys

    @property
    def next_change(self) -> datetime | None:
        """When a bake ends or a deadline passes next."""
        return next(iter(self._moments), (None,))[0]

    def recount(self) -> bool:
        """Count from scratch and go on with that; False where the running count was wrong, which is a fault of this program."""
        fresh = RolloutCollection(
            self.policy, {wave.name: wave.bake for wave in self.waves.values()}, salt=self._salt or ""
        )
        fresh.now = self.now
        for member in self._members.values():
            fresh.set_item(member.item)
        is_right = all(_are_equal(self.waves[name], fresh.waves[name]) for name in self.waves)
        self.waves, self._members, self._moments = fresh.waves, fresh._members, fresh._moments
        return is_right


def build_collection(
    policy: Policy, bakes: Mapping[str, timedelta], items: Iterable[RolloutItem], *, now: datetime, salt: str = ""
) -> RolloutCollection:
    """The collection of these items at this time."""
    collection = RolloutCollection(policy, bakes, salt=salt)
    collection.advance_to(now)
    for item in items:
        collection.set_item(item)
    return collection


def _are_equal(first: WaveItems, second: WaveItems) -> bool:
    return first.counters == second.counters and all(
        list(first_keys) == list(second_keys)
        for first_keys, second_keys in (
            (first.eligible, second.eligible),
            (first.repairs, second.repairs),
            (first.newcomers, second.newcomers),
        )
    )
