"""People who want it to be looked at now: an annotation, answered by its echo (surface 1.2, 2.4; docs/people.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from renderer import well_known
from renderer.identity import source_parent
from tests.support.git.platform import ONE, TWO, GitPlatform


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitPlatform:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = GitPlatform(tmp_path)
    found.work.commit(one=ONE)
    return found


async def ask(world: GitPlatform, value: str) -> None:
    said = {"metadata": {"annotations": {well_known.SYNC_REQUESTED_AT: value}}}
    await world.cluster.merge(source_parent("platform"), said, manager="kubectl-annotate")


async def follow(world: GitPlatform) -> asyncio.Task[None]:
    """A daemon without a timer: it asks the server at its start, and when it is told to."""
    task = asyncio.create_task(world.follower.run_forever())
    await reached(world, world.work.git("rev-parse", "main"))
    return task


async def reached(world: GitPlatform, commit: str, synced: str = "") -> None:
    async with asyncio.timeout(60):
        while True:
            record = await world.record()
            if (record.applied, record.synced) == (commit, synced):
                return
            await asyncio.sleep(0.02)


async def ended(world: GitPlatform, task: asyncio.Task[None]) -> None:
    world.follower.stop.set()
    await asyncio.wait_for(task, 60)


def test_the_server_is_asked_and_the_record_echoes_the_request(world: GitPlatform) -> None:
    async def story() -> None:
        task = await follow(world)
        commit = world.work.commit(two=TWO)
        await ask(world, "now")
        world.follower.reconcile_all()
        await reached(world, commit, "now")
        await ended(world, task)

    asyncio.run(story())


def test_a_request_is_answered_by_the_next_process_where_the_first_one_is_killed(world: GitPlatform) -> None:
    async def story() -> None:
        await world.settle()
        await ask(world, "now")
        world.restart()
        task = await follow_from(world)
        await reached(world, world.work.git("rev-parse", "main"), "now")
        await ended(world, task)

    async def follow_from(world: GitPlatform) -> asyncio.Task[None]:
        return asyncio.create_task(world.follower.run_forever())

    asyncio.run(story())


def test_while_the_server_does_not_answer_there_is_no_echo(world: GitPlatform) -> None:
    """An echo says that the server was asked and a pass went over it."""

    async def story() -> None:
        await world.settle()
        gone = world.work.path.rename(world.work.path.with_name("gone"))
        await ask(world, "now")
        for _ in range(3):
            world.follower.poll(*world.follower._fetcher.take_requests(await world.settle()))
        assert (await world.record()).synced == ""
        gone.rename(world.work.path)
        await world.settle()
        assert (await world.record()).synced == "now"

    asyncio.run(story())
