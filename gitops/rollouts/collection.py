"""Items of a rollout, with counters that each change updates. For n items one change costs O(log n).

`set_item` and `remove` change one item. `advance_to` advances the time. A heap holds the times at which an item changes
by time alone: the end of a bake, or a deadline. `recount` computes the counters from scratch, as a check. The caller
compares all items of a collection with the same targets. If the targets change, the caller builds a new collection.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import reduce
from heapq import heappop, heappush
from operator import add, sub
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from applier.causes import Cause, Reason
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import ItemOrder, Policy
from renderer.frozen import dataclass

_P = TypeVar("_P", bound=tuple[Any, ...])


class SortedKeys(Generic[_P]):
    """Set of keys in the order of their sort keys. The last part of a sort key is the key itself.

    Adding or removing a key costs O(log n). Iterating over the first k keys costs O(k log k). A removed sort key leaves
    the heap when the sort key reaches the top. The heap holds each sort key at most once.
    """

    def __init__(self) -> None:
        self._heap: list[_P] = []
        self._queued: set[_P] = set()
        self._members: dict[str, _P] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[_P]:
        """Yield the sort keys in order, lazily.

        The walk starts at the root of the heap and always yields the least entry that it has reached. Sorting all
        entries would cost O(n log n), although `advance_to` reads one entry and a decision only the first entries.
        """
        reached = [(self._heap[0], 0)] if self._heap else []
        while reached:
            sort_key, index = heappop(reached)
            if self._members.get(sort_key[-1]) == sort_key:
                yield sort_key
            for child in (2 * index + 1, 2 * index + 2):
                if child < len(self._heap):
                    heappush(reached, (self._heap[child], child))

    def add(self, sort_key: _P) -> None:
        """Add the key in `sort_key`, or move it to its new place in the order."""
        self._members[sort_key[-1]] = sort_key
        if sort_key not in self._queued:
            self._queued.add(sort_key)
            heappush(self._heap, sort_key)

    def discard(self, key: str) -> None:
        """Remove `key`, if present."""
        self._members.pop(key, None)
        while self._heap and self._members.get(self._heap[0][-1]) != self._heap[0]:
            self._queued.discard(heappop(self._heap))


_MIN_TIME = datetime.min.replace(tzinfo=UTC)
_PERSON_REASONS: Final = frozenset({Reason.HELD, Reason.SUSPENDED})


@dataclass(frozen=True, slots=True)
class RolloutItem:
    """Item of a rollout: an instance, a node of a collection or a cluster, compared with the target of its wave."""

    key: str
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    updated: bool = False
    """The item runs the target, or its applied revision renders the same objects as the target."""
    granted: bool = False
    """The item has a grant for the target. The grant counts at once, even before Levelgate writes the grant."""
    healthy: bool = True
    """In the latest observation, the item is healthy at the revision that it runs."""
    is_new: bool = False
    """The item runs no revision yet."""
    is_isolated: bool = False
    """The item is new, and its creation is not paced. If the item fails, other items do not wait for the item."""
    progress: ItemProgress = field(default_factory=ItemProgress)
    error: str = ""
    """Message of a failed write that Levelgate does not retry."""
    held: Cause | None = None
    """Cause that keeps the item at its revision. Other items do not wait for a held item."""
    blocked: Cause | None = None
    """Cause of the closed gate or window before the grant, or of a missing permission after the grant."""

    @property
    def has_moved(self) -> bool:
        """Return whether the item counts as moved: from its grant on, even before Levelgate writes the grant."""
        return self.updated or self.granted

    @property
    def is_passed_over(self) -> bool:
        """Return whether other items do not wait for this item because of its hold.

        A hold before the move counts, whatever its cause. During the move, only a hold or suspension by a person
        counts.
        """
        return self.held is not None and (not self.has_moved or self.held.reason in _PERSON_REASONS)


class Counters(NamedTuple):
    """Numbers of items in each state, for one wave or for several waves together."""

    total: int = 0
    updated: int = 0
    """Items that run the target or have a grant for the target, except paused items."""
    settled: int = 0
    failed: int = 0
    healthy: int = 0
    held: int = 0
    """Items that other items do not wait for, and that are neither settled nor failed."""
    paused: int = 0
    """Held items that have moved."""

    @property
    def in_flight(self) -> int:
        """Return how many items have moved, are not paused and are not settled."""
        return self.updated - self.settled

    def add_counters(self, other: Counters) -> Counters:
        """Return the sum of these counters and `other`, number by number."""
        return Counters._make(map(add, self, other))

    def subtract_counters(self, other: Counters) -> Counters:
        """Return these counters minus `other`, number by number."""
        return Counters._make(map(sub, self, other))


class ItemState(NamedTuple):
    """State of an item in its rollout at one time."""

    is_settled: bool
    has_failed: bool
    is_passed_over: bool
    """Other items do not wait for this item."""
    is_eligible: bool
    """The item has not moved, and neither a hold nor a closed gate of its own stops it. Wave and pace do not count."""
    changes_at: datetime | None
    """Time in UTC at which this state changes by time alone, or None if time alone does not change it."""


def item_state(item: RolloutItem, now: datetime, *, bake: timedelta, policy: Policy) -> ItemState:
    """Return the state of `item` at `now`.

    An item without a grant is settled while it is healthy at the target. An item with a grant must also have baked. A
    granted item has failed after a final write error, after more than `maxFlaps` losses of health, or after its
    deadline. If an isolated item fails, other items do not wait for the item, and the item does not count as failed.
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
"""Place of an item in the order: negated priority, then a hash, then the key.

The hash is empty unless the policy shuffles.
"""


class RankedItem(NamedTuple):
    """Item with its state at one time, and its place in the order."""

    item: RolloutItem
    state: ItemState
    sort_key: SortKey

    @property
    def counters(self) -> Counters:
        """Return the share of the item in the counters of its wave."""
        return _counters_of(self.item, self.state)


class WaveView(Protocol):
    """Items of one wave, for readers. `WaveItems` describes the attributes."""

    @property
    def members(self) -> Mapping[str, RankedItem]: ...

    @property
    def counters(self) -> Counters: ...

    @property
    def eligible(self) -> Iterable[SortKey]: ...

    @property
    def repairs(self) -> Iterable[SortKey]: ...

    @property
    def newcomers(self) -> Iterable[SortKey]: ...


class WaveItems:
    """Items of one wave with their counters, and three ordered sets of the items that have not moved."""

    def __init__(self) -> None:
        self.members: dict[str, RankedItem] = {}
        """All items of the wave by key."""
        self.counters = Counters()
        self.eligible = SortedKeys[SortKey]()
        """Items without a hold or a closed gate."""
        self.repairs = SortedKeys[SortKey]()
        """Eligible items that are not healthy."""
        self.newcomers = SortedKeys[SortKey]()
        """Items that run no revision yet and are not held. Their gates may be closed."""

    def add_item(self, ranked: RankedItem) -> None:
        """Count an item that is not in the wave yet."""
        item, state, sort_key = ranked
        self.members[item.key] = ranked
        self.counters = self.counters.add_counters(ranked.counters)
        for pending, belongs in (
            (self.eligible, state.is_eligible),
            (self.repairs, state.is_eligible and not item.healthy),
            (self.newcomers, item.is_new and not item.has_moved and item.held is None),
        ):
            if belongs:
                pending.add(sort_key)

    def remove_item(self, key: str) -> None:
        """Stop counting the item `key`."""
        self.counters = self.counters.subtract_counters(self.members.pop(key).counters)
        for pending in (self.eligible, self.repairs, self.newcomers):
            pending.discard(key)


class RolloutItems(ABC):
    """All items of one rollout at one time, for readers: the instances of one definition under one policy."""

    @property
    @abstractmethod
    def waves(self) -> Mapping[str, WaveView]:
        """Return the waves of the policy, in order, by name."""

    @property
    @abstractmethod
    def bakes(self) -> Mapping[str, timedelta]:
        """Return the bake times by name of the wave."""

    @abstractmethod
    def wave_of(self, key: str) -> str:
        """Return the name of the wave that the item `key` is in. Raises: KeyError if no wave has the item."""

    def __iter__(self) -> Iterator[RolloutItem]:
        """Yield all items in order, wave by wave, at a cost of O(n log n)."""
        for wave in self.waves.values():
            yield from (ranked.item for ranked in sorted(wave.members.values(), key=lambda ranked: ranked.sort_key))

    def __getitem__(self, key: str) -> RolloutItem:
        return self._member(key).item

    def state_of(self, key: str) -> ItemState:
        """Return the state of the item `key`."""
        return self._member(key).state

    def counters_of(self, key: str) -> Counters:
        """Return the share of the item `key` in the counters."""
        return self._member(key).counters

    @property
    def counters(self) -> Counters:
        """Return the sum of the counters of all waves."""
        return reduce(Counters.add_counters, self.wave_counters.values(), Counters())

    @property
    def wave_counters(self) -> Mapping[str, Counters]:
        """Return the counters by name of the wave."""
        return {name: wave.counters for name, wave in self.waves.items()}

    def _member(self, key: str) -> RankedItem:
        return self.waves[self.wave_of(key)].members[key]


def sort_key_of(item: RolloutItem, salt: str | None) -> SortKey:
    """Return the place of `item` in the order.

    Args:
        salt: text on which a shuffled order depends, or None for an order that is not shuffled.
    """
    shuffled = "" if salt is None else hashlib.sha256(f"{salt}/{item.key}".encode()).hexdigest()
    return -item.priority, shuffled, item.key


class RolloutCollection(RolloutItems):
    """Items of one rollout that are set one by one, and a clock that advances."""

    def __init__(self, policy: Policy, bakes: Mapping[str, timedelta], *, salt: str = "") -> None:
        """Make a collection without items.

        Args:
            bakes: bake time by name of the wave, for every wave of `policy`.
            salt: text that differs for each target. A shuffled order depends on the salt.
        """
        self.policy = policy
        self.now = _MIN_TIME
        self._waves = {wave.name: WaveItems() for wave in policy.all_waves}
        self._bakes = bakes
        self._salt = salt if policy.order is ItemOrder.SHUFFLE_PER_REVISION else None
        self._wave_names: dict[str, str] = {}
        self._moments = SortedKeys[tuple[datetime, str]]()

    def __len__(self) -> int:
        return len(self._wave_names)

    @property
    def waves(self) -> Mapping[str, WaveItems]:
        return self._waves

    @property
    def bakes(self) -> Mapping[str, timedelta]:
        return self._bakes

    def wave_of(self, key: str) -> str:
        return self._wave_names[key]

    def set_item(self, item: RolloutItem) -> None:
        """Add `item`, or replace the item with the same key."""
        self.remove(item.key)
        wave = self.policy.wave_of(item.labels)
        state = item_state(item, self.now, bake=self._bakes[wave], policy=self.policy)
        self._wave_names[item.key] = wave
        self._waves[wave].add_item(RankedItem(item, state, sort_key_of(item, self._salt)))
        if state.changes_at is not None:
            self._moments.add((state.changes_at, item.key))

    def remove(self, key: str) -> None:
        """Remove the item `key`, if present."""
        if wave := self._wave_names.pop(key, None):
            self._waves[wave].remove_item(key)
            self._moments.discard(key)

    def advance_to(self, now: datetime) -> Sequence[str]:
        """Advance the time of the collection to `now`, and return the keys of the items whose state changed.

        If `now` is before the time of the collection, the time stays as it is.
        """
        self.now = max(self.now, now)
        due_keys: list[str] = []
        while (moment := self.next_change) and moment <= self.now:
            due_keys.append(next(iter(self._moments))[1])
            self.set_item(self[due_keys[-1]])
        return due_keys

    @property
    def next_change(self) -> datetime | None:
        """Return the next time in UTC at which a bake or a deadline ends, or None if no bake or deadline is pending."""
        return next(iter(self._moments), (None,))[0]

    def recount(self) -> bool:
        """Count all items from scratch, and return whether the previous counters are correct.

        If the previous counters are wrong, this module has a bug.
        """
        fresh = RolloutCollection(self.policy, self._bakes, salt=self._salt or "")
        fresh.now = self.now
        for item in self:
            fresh.set_item(item)
        is_right = all(_are_equal(self.waves[name], fresh.waves[name]) for name in self.waves)
        self._waves, self._wave_names, self._moments = fresh._waves, fresh._wave_names, fresh._moments
        return is_right


def build_collection(
    policy: Policy, bakes: Mapping[str, timedelta], items: Iterable[RolloutItem], *, now: datetime, salt: str = ""
) -> RolloutCollection:
    """Return a collection of `items` at the time `now`.

    Args:
        bakes: bake time by name of the wave, for every wave of `policy`.
        salt: text that differs for each target, for a shuffled order.
    """
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
