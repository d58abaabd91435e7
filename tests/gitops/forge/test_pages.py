"""Lists of a forge that have more than one page: all of them, from the one server that is configured (docs/review.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gitops.forge.connect import ForgeProject
from gitops.forge.port import Forge, TooManyItems
from tests.support.clock import StillClock
from tests.support.git.forge import BOT, TOKEN, FakeForge, Pull

KINDS = ["github", "gitea", "gitlab"]


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest) -> FakeForge:
    found = FakeForge(request.param, page=50 if request.param == "gitea" else 100)
    found.pulls = {number: Pull(number, f"{number:040}") for number in range(1, 231)}
    return found


def asked(forge: FakeForge, token_file: Path, step: Callable[[Forge], Awaitable[None]]) -> None:
    token_file.write_text(TOKEN)

    async def go() -> None:
        async with forge.serving():
            place = ForgeProject.from_url("", token_file, kind=forge.kind, api=forge.url, project="acme/platform")
            found, rest = place.connect(StillClock())
            try:
                await step(found)
            finally:
                await rest.close()

    asyncio.run(go())


@pytest.mark.parametrize("world", ["", "https://git.example.com"])
def test_all_that_are_open_are_found(forge: FakeForge, tmp_path: Path, world: str) -> None:
    """In as few requests as the forge allows, and from memory where nothing has changed. Behind a proxy the forge links to the name that the world
    knows it by; the token goes to the server that is configured alone.
    """
    forge.world = world

    async def step(found: Forge) -> None:
        for _ in range(2):
            assert sorted(one.number for one in await found.list_open_pulls()) == list(range(1, 231))

    asked(forge, tmp_path / "token", step)
    pages = 5 if forge.kind == "gitea" else 3
    assert (len(forge.asked), forge.unchanged) == (2 * pages, pages)


def test_a_comment_on_the_third_page_is_found(forge: FakeForge, tmp_path: Path) -> None:
    for number in range(210):
        forge.say(1, "ada", f"nice {number}")
    forge.say(1, BOT, "ours")

    async def step(found: Forge) -> None:
        assert (await found.list_comments(1))[-1].body == "ours"

    asked(forge, tmp_path / "token", step)


def test_a_page_that_was_the_last_and_has_not_changed_is_not_taken_for_the_last(
    forge: FakeForge, tmp_path: Path
) -> None:
    """A full page is the same after the list has got another one."""
    for number in range(forge.page):
        forge.say(1, "ada", f"nice {number}")

    async def step(found: Forge) -> None:
        assert len(await found.list_comments(1)) == forge.page
        forge.say(1, BOT, "ours")
        assert (await found.list_comments(1))[-1].body == "ours"

    asked(forge, tmp_path / "token", step)


def test_where_a_proxy_takes_links_away_gitlab_is_followed_by_number(tmp_path: Path) -> None:
    forge = FakeForge("gitlab", links=False)
    forge.pulls = {number: Pull(number, f"{number:040}") for number in range(1, 231)}

    async def step(found: Forge) -> None:
        assert len(await found.list_open_pulls()) == 230

    asked(forge, tmp_path / "token", step)


def test_pages_without_an_end_are_given_up(tmp_path: Path) -> None:
    forge = FakeForge("github", page=1)
    forge.pulls = {number: Pull(number, f"{number:040}") for number in range(1, 60)}

    async def step(found: Forge) -> None:
        with pytest.raises(TooManyItems, match="more than 50 pages") as cut:
            await found.list_open_pulls()
        assert len(cut.value.items) == 50

    asked(forge, tmp_path / "token", step)
    assert len(forge.asked) == 50


def test_among_more_than_are_read_the_newest_of_a_branch_are_found(tmp_path: Path) -> None:
    """Gitea lists all pull requests that there ever were, the newest first; a busy repository has thousands."""
    forge = FakeForge("gitea", page=1)
    forge.pulls = {number: Pull(number, f"{number:040}") for number in range(60, 0, -1)}
    forge.pulls[59].branch = "levelgate/revert"

    async def step(found: Forge) -> None:
        assert [one.number for one in await found.list_pulls_from("levelgate/revert")] == [59]

    asked(forge, tmp_path / "token", step)
