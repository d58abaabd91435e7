"""Cost of one readiness event in a large rollout, as a ratio to a small rollout: `python -m bench.rollout`.

Ratios near 1 mean that the work for an event does not grow with the number of items. Times are CPU times, each the
least of several runs, so that other work of the machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from gitops.rollouts.advance import decide_grants, reserve
from gitops.rollouts.collection import RolloutCollection, RolloutItem, build_collection
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import DEFAULT_POLICY
from gitops.rollouts.state import RolloutState, TargetRevision
from gitops.rollouts.targets import assign_targets, bake_times

SMALL, LARGE = 1_000, 100_000
EVENTS = 200
NOW = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)


def main() -> None:
    small, large = half_way(SMALL), half_way(LARGE)
    print(f"{'one item, microseconds':<44} {SMALL:>9,} {LARGE:>9,} {'ratio':>8}")
    for label, event in (("becomes ready, and a decision", readiness), ("is let move, and counted", release)):
        few, many = (min(event(*rollout) for _ in range(7)) for rollout in (small, large))
        print(f"{label:<44} {few * 1e6:>9.1f} {many * 1e6:>9.1f} {many / few:>8.2f}")
    few, many = (min(timed(partial(whole, size)) for _ in range(2)) / size for size in (SMALL, LARGE))
    print(f"{'from the first to the last, per item':<44} {few * 1e6:>9.1f} {many * 1e6:>9.1f} {many / few:>8.2f}")


def half_way(size: int) -> tuple[RolloutCollection, RolloutState]:
    """Return a rollout in which more than half of the items have moved.

    All moved items except one have settled, so no item may move.
    """
    state = assign_targets(DEFAULT_POLICY, RolloutState(completed=TargetRevision(1)), TargetRevision(2), now=NOW)
    collection = build_collection(DEFAULT_POLICY, bake_times(DEFAULT_POLICY, state), items(size), now=NOW)
    for number in range(moved(size)):
        settle(collection, name(number))
    collection.set_item(replace(collection[name(0)], healthy=False))
    assert not decide_grants(DEFAULT_POLICY, collection, state, now=NOW).grants
    return collection, state


def moved(size: int) -> int:
    """Return the largest power of two that `size` contains: the rollout has just completed a batch."""
    return 1 << (size.bit_length() - 1)


def readiness(collection: RolloutCollection, state: RolloutState) -> float:
    """Return the seconds of one event: a moved item loses or regains its health, and a decision follows."""

    def events() -> None:
        for number in range(1, EVENTS + 1):
            for healthy in (False, True):
                collection.set_item(replace(collection[name(number)], healthy=healthy))
                decide_grants(DEFAULT_POLICY, collection, state, now=NOW)

    return timed(events) / (2 * EVENTS)


def release(collection: RolloutCollection, state: RolloutState) -> float:
    """Return the seconds in which an item moves and settles. Afterwards restore the collection."""
    first = moved(len(collection))
    waiting = [collection[name(first + number)] for number in range(EVENTS)]

    def events() -> None:
        for item in waiting:
            settle(collection, item.key)

    taken = timed(events)
    for item in waiting:
        collection.set_item(item)
    return taken / EVENTS


def whole(size: int) -> None:
    """Run a rollout in which all items settle at once."""
    state = assign_targets(DEFAULT_POLICY, RolloutState(completed=TargetRevision(1)), TargetRevision(2), now=NOW)
    collection = build_collection(DEFAULT_POLICY, bake_times(DEFAULT_POLICY, state), items(size), now=NOW)
    while (decision := decide_grants(DEFAULT_POLICY, collection, state, now=NOW)).grants:
        reserve(collection, decision, now=NOW)
        for key in decision.grants:
            settle(collection, key)
        state = decision.state


def settle(collection: RolloutCollection, key: str) -> None:
    collection.set_item(replace(collection[key], granted=True, updated=True, progress=ItemProgress(ready_since=NOW)))


def items(size: int) -> list[RolloutItem]:
    return [RolloutItem(name(number)) for number in range(size)]


def name(number: int) -> str:
    return f"prod/item-{number:06}"


def timed(action: Callable[[], None]) -> float:
    before = time.process_time()
    action()
    return time.process_time() - before


if __name__ == "__main__":
    main()
