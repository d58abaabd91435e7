"""The definitions of a rollout, written down as they are said and counted from scratch each time: slow, and an oracle for what is fast."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.policy import Mode, Policy
from gitops.rollouts.shapes import Exponential, Linear, Shape


def frontier(shape: Shape, mode: Mode, settled: int, total: int) -> int:
    match shape:
        case Linear(n):
            size = n.value if not n.is_percent else max(1, total * n.value // 100)
            open_to = (
                settled + size
                if mode is Mode.SLIDING
                else min(range(0, total + 2 * size, size), key=lambda b: (b <= settled, b))
            )
        case Exponential(k) if mode is Mode.SLIDING:
            open_to = max(settled + 1, k * settled)
        case Exponential(k):
            open_to = min(k**j for j in range(total + 2) if k**j >= settled + 1)
        case _:
            open_to = total
    return min(open_to, total)


def is_updated(item: RolloutItem) -> bool:
    return item.updated or item.granted


def is_settled(item: RolloutItem, bake: timedelta, now: datetime) -> bool:
    if not item.updated or not item.healthy:
        return False
    if not item.granted:
        return True
    return item.progress.ready_since is not None and now - item.progress.ready_since >= bake


def has_failed(item: RolloutItem, policy: Policy, bake: timedelta, now: datetime) -> bool:
    if not item.granted or is_settled(item, bake, now):
        return False
    getting_nowhere = not (item.updated and item.healthy) and item.progress.elapsed(now) > policy.progress_deadline
    return bool(item.error) or item.progress.flaps > policy.max_flaps or getting_nowhere


def in_order(items: Collection[RolloutItem]) -> list[RolloutItem]:
    return sorted(items, key=lambda item: (-item.priority, item.key))


class NaiveRollout:
    """One look at all items."""

    def __init__(self, policy: Policy, items: Collection[RolloutItem], now: datetime) -> None:
        self.policy = policy
        self.items = in_order(items)
        self.now = now
        waves = [(policy.wave_of(item.labels), item) for item in self.items]
        self.waves = {one.name: [item for name, item in waves if name == one.name] for one in policy.all_waves}

    def wave(self, name: str) -> list[RolloutItem]:
        return self.waves[name]

    def bake(self, name: str) -> timedelta:
        own = {wave.name: wave.bake for wave in self.policy.waves}.get(name)
        return self.policy.bake if own is None else own

    def settled(self, name: str) -> int:
        return sum(is_settled(item, self.bake(name), self.now) for item in self.wave(name))

    def failed(self, name: str) -> int:
        return sum(has_failed(item, self.policy, self.bake(name), self.now) for item in self.wave(name))

    def passed(self, name: str) -> list[RolloutItem]:
        """Held, wherever they are on their way, and neither settled nor failed."""
        return [
            item
            for item in self.wave(name)
            if item.held
            and not is_settled(item, self.bake(name), self.now)
            and not has_failed(item, self.policy, self.bake(name), self.now)
        ]

    def exceeds(self) -> bool:
        """Have more failed, in some wave, than may?"""
        return any(
            self.failed(wave.name) > self.policy.max_failures.round_down(len(self.wave(wave.name)))
            for wave in self.policy.all_waves
        )

    def frontier(self, name: str) -> int:
        shape = {wave.name: wave.shape for wave in self.policy.waves}.get(name) or self.policy.shape
        return frontier(shape, self.policy.mode, self.settled(name) + self.failed(name), len(self.wave(name)))

    def eligible(self, name: str) -> list[RolloutItem]:
        return [item for item in self.wave(name) if not is_updated(item) and not item.held and not item.blocked]

    def may_move(self, *, halted: bool, over: bool) -> list[str]:
        """Every eligible x with u + rank(x) < F(s), in the first waves that nothing is missing before."""
        if halted or (self.exceeds() and not over):
            return []
        needed = -(-len(self.items) * self.policy.min_available.value // 100)
        lacking = sum(item.healthy for item in self.items) < needed
        found: list[str] = []
        for wave in self.policy.all_waves:
            passed = self.passed(wave.name)
            u = sum(is_updated(item) for item in self.wave(wave.name) if item not in passed)
            eligible = [item for item in self.eligible(wave.name) if not (lacking and item.healthy)]
            found += [item.key for rank, item in enumerate(eligible) if u + rank < self.frontier(wave.name)]
            if self.settled(wave.name) + self.failed(wave.name) + len(passed) < len(self.wave(wave.name)):
                break
        return found
