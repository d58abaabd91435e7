"""A source that a person keeps at one commit, and lets go again (surface 1.2, 5.2; docs/people.md)."""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from gitops.records.pass_history import parse_passes
from gitops.records.source_requests import Pin, pin_of
from renderer import well_known
from renderer.identity import source_parent
from tests.support.clock import START
from tests.support.git.platform import ONE, TWO, GitPlatform, rewritten

THREE = ONE.replace("one", "three")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitPlatform:
    """Three commits; each adds an object."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = GitPlatform(tmp_path)
    for files in ({"one": ONE}, {"two": TWO}, {"three": THREE}):
        found.work.commit(**files)
        asyncio.run(found.settle())
    return found


async def annotate(world: GitPlatform, **said: str | None) -> None:
    words = {f"levelgate.dev/{name.replace('_', '-')}": value for name, value in said.items()}
    await world.cluster.merge(source_parent("platform"), {"metadata": {"annotations": words}}, manager="ada")
    world.follower.poll(*world.follower._fetcher.take_requests(await world.settle()))
    await world.settle()


async def pinned_to_a_side_branch(world: GitPlatform) -> str:
    """The commit, which no other follows from; `main` is two commits ahead of where it began."""
    world.work.git("checkout", "--quiet", "-b", "side", "main~2")
    side = world.work.commit(side=ONE.replace("one", "side"))
    world.work.git("checkout", "--quiet", "main")
    await annotate(world, pin=side)
    assert await world.deployed() == {"one", "side"}
    return side


def id_of(world: GitPlatform, name: str) -> str:
    return world.work.git("rev-parse", name)


def test_an_older_commit_is_read_instead_of_the_head_also_while_git_is_down(world: GitPlatform) -> None:
    """surface 5.2: roll back while Git is down. Its own approval, whatever history says."""
    wednesday = id_of(world, "main~1")

    async def story() -> None:
        gone = world.work.path.rename(world.work.path.with_name("gone"))
        await annotate(world, pin=wednesday[:9], pin_reason="INC-7")
        assert await world.deployed() == {"one", "two"}
        record = await world.record()
        assert (record.target, record.state) == (wednesday, "Held")
        assert (record.causes[0]["reason"], record.causes[0]["message"]) == (
            "Held",
            f"pinned to {wednesday[:9]} by ada: INC-7",
        )
        assert [(word.what, word.by) for one in parse_passes(record.passes) for word in one.words] == [
            ("pinned", "ada")
        ]
        gone.rename(world.work.path)
        await annotate(world, pin=None, pin_reason=None)
        assert await world.deployed() == {"one", "two", "three"}
        record = await world.record()
        assert (record.target, record.state, record.commit_before_pin) == (id_of(world, "main"), "Settled", "")

    asyncio.run(story())


def test_new_commits_wait_while_it_is_pinned_also_after_a_restart(world: GitPlatform) -> None:
    async def story() -> None:
        await annotate(world, pin=id_of(world, "main~2"))
        world.work.commit(four=ONE.replace("one", "four"))
        world.restart()
        await world.settle()
        assert await world.deployed() == {"one"}
        await annotate(world, pin=None)
        assert await world.deployed() == {"one", "two", "three", "four"}

    asyncio.run(story())


def test_the_head_is_taken_again_from_where_the_pin_began(world: GitPlatform) -> None:
    """A commit of another branch is no step of the history; that of the ref is compared with the commit before the pin."""

    async def story() -> None:
        await pinned_to_a_side_branch(world)
        world.restart()
        await annotate(world, pin=None)
        assert await world.deployed() == {"one", "two", "three"}

    asyncio.run(story())


def test_history_that_was_rewritten_meanwhile_is_held_when_the_pin_ends(world: GitPlatform) -> None:
    """I8: a pin is no way around the question."""
    before = id_of(world, "main")

    async def story() -> None:
        await annotate(world, pin=before)
        commit = rewritten(world)
        await annotate(world, pin=None)
        assert await world.deployed() == {"one", "two", "three"}
        assert (await world.record()).offered == commit

    asyncio.run(story())


def test_a_commit_that_does_not_exist_changes_nothing_and_says_so(world: GitPlatform) -> None:
    async def story() -> None:
        await annotate(world, pin="feedfeed", pin_reason="INC-7")
        assert await world.deployed() == {"one", "two", "three"}
        why = (
            f"{world.work.path}: pinned to feedfeed by ada: INC-7; no branch, tag or commit is called 'feedfeed'; "
            "pin the source to an existing commit, or run levelgate unpin source/platform"
        )
        assert world.notices[-1] == f"cannot be read: {why}; the last commit stays in force"
        assert (unreadable := (await world.record()).unreadable)
        assert unreadable.why == why

    asyncio.run(story())


def test_a_pin_holds_where_its_commit_cannot_be_had_any_more(world: GitPlatform) -> None:
    """I8: after a start without a copy, while the server has lost the commit, a pass knows nothing of the source. That does not end the pin."""

    async def story() -> None:
        side = await pinned_to_a_side_branch(world)
        world.work.git("branch", "-D", "side")
        world.work.git("reflog", "expire", "--expire=now", "--all")
        world.work.git("gc", "--quiet", "--prune=now")
        shutil.rmtree(world.directory / "cache")
        world.restart()
        for _ in range(2):
            world.follower.poll(*world.follower._fetcher.take_requests(await world.settle()))
        assert await world.deployed() == {"one", "side"}
        assert f"has no commit {side[:12]}" in world.notices[-1]
        await annotate(world, pin=None)
        assert await world.deployed() == {"one", "two", "three"}

    asyncio.run(story())


def test_a_pin_ends_at_its_time_and_a_time_that_cannot_be_read_ends_nothing() -> None:
    def record(until: str) -> dict[str, object]:
        said = {well_known.PIN: "4E01B7A", well_known.PIN_UNTIL: until, well_known.PIN_BY: "ada"}
        return {"metadata": {"annotations": said}}

    assert pin_of(record("2026-11-20T12:00:01Z"), START) == Pin("4e01b7a", START + timedelta(seconds=1), "", "ada")
    assert pin_of(record("2026-11-20T12:00:00Z"), START) is None
    assert pin_of(record("soon"), START) == Pin("4e01b7a", None, "", "ada")
    assert pin_of(None, START) is None
