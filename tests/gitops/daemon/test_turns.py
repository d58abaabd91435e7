"""Turns for whole passes over many clusters."""

from __future__ import annotations

import asyncio

from gitops.daemon.turns import Turns


async def test_as_many_have_a_turn_as_the_limit_says() -> None:
    turns, running, most = Turns(2, 60.0), 0, 0

    async def work() -> None:
        nonlocal running, most
        async with turns.take():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work() for _ in range(10)))
    assert (running, most) == (0, 2)


async def test_who_waits_for_a_cluster_that_does_not_answer_keeps_the_others_waiting_for_a_while_only() -> None:
    """S3-7: the turn passes on while the first goes on."""
    turns, answered = Turns(1, 0.01), asyncio.Event()

    async def hang() -> None:
        async with turns.take():
            await answered.wait()

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    async with asyncio.timeout(10), turns.take():
        assert not hanging.done()
    answered.set()
    await hanging


async def test_a_turn_ends_with_a_fault() -> None:
    turns = Turns(1, 60.0)
    for _ in range(3):
        try:
            async with turns.take():
                raise ValueError
        except ValueError:
            pass
    async with asyncio.timeout(10), turns.take():
        pass
