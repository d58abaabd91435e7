"""Pauses of a reconciliation, in which other tasks of the event loop run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine

import pytest

from gitops.reconcile import loop_sharing
from tests.support.link_platform import LinkPlatform

NAMES = tuple(f"i{number:02}" for number in range(20))


def turns_of_others(fleet: LinkPlatform) -> int:
    """Return how often another task runs during a reconciliation of new instances."""

    async def count(work: Coroutine[None, None, object]) -> int:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(take_turns())
        await work
        others.cancel()
        return turns

    fleet.push()
    return fleet.call(count(fleet.reconciler.reconcile([fleet.state])))


def test_other_tasks_run_between_the_computations_of_single_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computation that holds the loop for long pauses between two sets: here for its rendering, reads and plan."""
    turns = []
    for longest in (math.inf, -1.0):
        monkeypatch.setattr(loop_sharing, "MAX_HOLD", longest)
        with LinkPlatform(names=NAMES) as fleet:
            turns.append(turns_of_others(fleet))
    without, with_pauses = turns
    assert with_pauses - without > 3 * len(NAMES)
