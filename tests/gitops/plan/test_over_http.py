"""Pull requests over `git http-backend`, with a token, as forges serve them: real refs that are no branches, and content that is only data."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from gitops.forge.connect import ForgeProject
from gitops.plan.isolated_process import compute_plan
from gitops.pull_requests.reviewer import Reviewer
from gitops.source import Credentials, Mirror, SourceTarget
from gitops.windows.window import LOCAL
from tests.gitops.source.conftest import server, work
from tests.support.clock import StillClock
from tests.support.git.forge import TOKEN, FakeForge, Pull
from tests.support.git.repository import WorkTree
from tests.support.git.server import GitServer

__all__ = ["server", "work"]

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: prod}\n"
REFS = {"github": "refs/pull/1/head", "gitea": "refs/pull/1/head", "gitlab": "refs/merge-requests/1/head"}


@pytest.mark.parametrize("kind", REFS)
def test_a_fork_is_planned_its_comment_kept_and_its_end_told(
    work: WorkTree, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Nothing of it is checked out or run, whatever its attributes and links say, and though the machine has the filter and the driver that they
    name; a second look fetches nothing.
    """
    proof, forge, clock = tmp_path / "it-ran", FakeForge(kind), StillClock()
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    server.token = TOKEN
    base = work.commit("base", a=CONFIG % "a")
    work.git("checkout", "--quiet", "--detach")
    work.write(".gitattributes", "* filter=evil diff=evil\n")
    work.write(".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch it-ran"\n')
    (work.path / "link.yaml").symlink_to("/etc/passwd")
    head = work.commit("of a fork", b=CONFIG % "b")
    work.git("update-ref", REFS[kind], head)
    work.git("checkout", "--quiet", "main")
    machine = tmp_path / "gitconfig"
    machine.write_text(f'[filter "evil"]\n\tsmudge = touch {proof}\n[diff "evil"]\n\ttextconv = touch {proof};:\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(machine))
    forge.pulls[1] = Pull(1, head, fork=True)
    mirror = Mirror(SourceTarget(server.url()), tmp_path / "cache", credentials=Credentials(token))

    async def go() -> None:
        async with forge.serving():
            found, rest = ForgeProject.from_url("", token, kind=kind, api=forge.url, project="acme/platform").connect(
                clock
            )
            reviewer = Reviewer(found, mirror, "platform", clock, "0", LOCAL, plan=compute_plan)
            assert not await reviewer.review_all()  # the link is told as a problem
            fetches = server.fetches
            await reviewer.review_all()
            assert server.fetches == fetches
            forge.pulls[1].state = "merged"
            clock.moment += timedelta(minutes=1)
            assert await reviewer.review_all()
            await rest.close()

    asyncio.run(go())
    (body,) = forge.bodies(1)
    assert "+ level 0  create ConfigMap/prod/b" in body
    assert "is a symbolic link" in body
    assert "> Merged: this was the last plan." in body
    assert f"`{base[:7]}` → `{head[:7]}`" in body
    assert [one["sha"] for one in forge.states] == ([] if kind == "gitlab" else [head])
    assert not proof.exists()
    assert not [*(tmp_path / "cache").rglob("b.yaml"), *(tmp_path / "cache").rglob("link.yaml")]
    assert "root:" not in body
    assert TOKEN not in body


def test_a_token_that_git_refuses_is_told_and_the_forge_is_left_alone(
    work: WorkTree, server: GitServer, tmp_path: Path
) -> None:
    forge, clock, notices = FakeForge("github"), StillClock(), list[str]()
    token, other = tmp_path / "token", tmp_path / "other"
    token.write_text(f"{TOKEN}\n")
    other.write_text("gu3ssed-t0ken\n")
    server.token = TOKEN
    work.git("update-ref", "refs/pull/1/head", work.commit("base", a=CONFIG % "a"))
    forge.pulls[1] = Pull(1, "0" * 40)
    mirror = Mirror(SourceTarget(server.url()), tmp_path / "cache", credentials=Credentials(other))

    async def go() -> None:
        async with forge.serving():
            found, rest = ForgeProject.from_url(
                "", token, kind="github", api=forge.url, project="acme/platform"
            ).connect(clock)
            reviewer = Reviewer(found, mirror, "platform", clock, "0", LOCAL, plan=compute_plan)

            def notice(_: int, text: str) -> None:
                notices.append(text)
                reviewer.stop.set()

            reviewer.notice = notice
            await reviewer.run(timedelta(seconds=1))
            await rest.close()

    asyncio.run(go())
    assert "the server refused access" in notices[0]
    assert not any("t0ken" in one for one in notices)
    assert not [one for one in forge.asked if not one.startswith("GET")]
