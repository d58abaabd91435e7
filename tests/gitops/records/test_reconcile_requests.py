"""People who want it to be looked at now: an annotation, answered by its echo (surface 1.2, 2.4; docs/people.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.waiting import until
from tests.support.git.platform import GitPlatform, config_maps


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[GitPlatform]:
    with GitPlatform(tmp_path) as platform:
        platform.commit(config_maps("one"))
        yield platform


def ask(platform: GitPlatform) -> None:
    platform.put(platform.record_path(), sync_requested_at="now")


def follow(platform: GitPlatform, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a daemon without a timer during a story. It asks the server at its start, and when it is told to."""

    async def play() -> None:
        daemon = asyncio.create_task(platform.follower.run_forever())
        await story()
        platform.follower.stop.set()
        await asyncio.wait_for(daemon, 60)

    platform.call(play())


async def reached(platform: GitPlatform, commit: str, synced: str = "") -> None:
    def is_reached() -> bool:
        record = platform.record()
        return (record.applied, record.synced) == (commit, synced)

    await until(is_reached, within=60)


def test_the_server_is_asked_and_the_record_echoes_the_request(platform: GitPlatform) -> None:
    async def story() -> None:
        await reached(platform, platform.work.git("rev-parse", "main"))
        commit = platform.commit(config_maps("one", "two"))
        ask(platform)
        platform.follower.reconcile_all()
        await reached(platform, commit, "now")

    follow(platform, story)


def test_a_request_is_answered_by_the_next_process_where_the_first_one_is_killed(platform: GitPlatform) -> None:
    platform.settle()
    ask(platform)
    platform.restart()
    follow(platform, lambda: reached(platform, platform.work.git("rev-parse", "main"), "now"))


def test_while_the_server_does_not_answer_there_is_no_echo(platform: GitPlatform) -> None:
    """An echo says that the server was asked and a pass went over it."""
    platform.settle()
    gone = platform.work.path.rename(platform.work.path.with_name("gone"))
    ask(platform)
    for _ in range(3):
        platform.settle()
    assert platform.record().synced == ""
    gone.rename(platform.work.path)
    platform.settle()
    assert platform.record().synced == "now"
