"""Turns for whole passes over many clusters."""

from __future__ import annotations

import asyncio
from itertools import count

from gitops.daemon.turns import Turns


async def test_as_many_have_a_turn_as_the_limit_says() -> None:
    turns, running, most = Turns(2, 60.0, 60.0), 0, 0

    async def work() -> None:
        nonlocal running, most
        async with turns.take(lambda: 0):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work() for _ in range(10)))
    assert (running, most) == (0, 2)


async def test_who_waits_for_a_cluster_that_does_not_answer_keeps_the_others_waiting_for_a_while_only() -> None:
    """S3-7: the turn passes on while the first goes on."""
    turns, answered = Turns(1, 0.01, 60.0), asyncio.Event()

    async def hang() -> None:
        async with turns.take(lambda: 0):
            await answered.wait()

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    async with asyncio.timeout(10), turns.take(lambda: 0):
        assert not hanging.done()
    answered.set()
    await hanging


async def test_a_cluster_that_answers_keeps_its_turn() -> None:
    turns, answers, has_looked_often = Turns(1, 0.001, 60.0), count(), asyncio.Event()

    def count_answers() -> int:
        if (found := next(answers)) == 5:
            has_looked_often.set()
        return found

    async def wait_for_turn() -> None:
        async with turns.take(lambda: 0):
            pass

    async with turns.take(count_answers):
        second = asyncio.create_task(wait_for_turn())
        await has_looked_often.wait()
        assert not second.done()
    await asyncio.wait_for(second, 10)


async def test_a_large_cluster_that_answers_loses_its_turn_after_the_longest_time() -> None:
    turns, answers = Turns(1, 0.001, 0.05), count()
    async with turns.take(lambda: next(answers)), asyncio.timeout(10), turns.take(lambda: 0):
        pass


async def test_a_turn_that_ends_at_once_is_free_again() -> None:
    turns = Turns(1, 60.0, 60.0)
    for _ in range(3):
        async with asyncio.timeout(10), turns.take(lambda: 0):
            pass


async def test_a_turn_ends_with_a_fault() -> None:
    turns = Turns(1, 60.0, 60.0)
    for _ in range(3):
        try:
            async with turns.take(lambda: 0):
                raise ValueError
        except ValueError:
            pass
    async with asyncio.timeout(10), turns.take(lambda: 0):
        pass
