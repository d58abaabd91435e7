"""A repository with pull requests, its forge, and a reviewer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from gitops.forge.connect import ForgeProject
from gitops.forge.port import Forge
from gitops.plan.isolated_process import compute_plan
from gitops.pull_requests.reviewer import Reviewer
from gitops.source import Mirror, ReadLimits, SourceTarget
from gitops.windows.window import LOCAL
from tests.support.clock import StillClock
from tests.support.git.forge import TOKEN, FakeForge, Pull
from tests.support.git.repository import Repository


def config(name: str, text: str = "one") -> dict[str, str | None]:
    """Return the file of a ConfigMap."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "prod"},
        "data": {"text": text},
    }
    return {f"{name}.json": json.dumps(manifest)}


class Review:
    """A repository, its forge, and a reviewer; `run` starts a new process."""

    def __init__(self, repository: Repository, kind: str) -> None:
        self.repository, self.forge, self.clock = repository, FakeForge(kind), StillClock()
        self.notices: list[tuple[int, str]] = []
        self.limits, self.cache, self.interval = ReadLimits(), repository.path.parent / "cache", timedelta(minutes=1)
        self.token = repository.path.parent / "token"
        self.token.write_text(f"{TOKEN}\n")
        repository.commit(config("a"))

    def pull(self, files: dict[str, str | None], number: int = 1) -> str:
        """Push a commit to a pull request, and open it if it is new. The commit is on no branch."""
        where = "merge-requests" if self.forge.kind == "gitlab" else "pull"
        git = self.repository.git
        git("checkout", "--quiet", "--detach", "main")
        commit = self.repository.commit(files)
        git("update-ref", f"refs/{where}/{number}/head", commit)
        git("checkout", "--quiet", "main")
        self.forge.pulls.setdefault(number, Pull(number, commit)).head = commit
        return commit

    def lent(self) -> set[str]:
        """Return the heads of pull requests in the local copy."""
        (copy,) = self.cache.glob("**/repository.git")
        said = self.repository.git(
            "--git-dir", str(copy), "for-each-ref", "--format=%(objectname)", "refs/levelgate/lent"
        )
        return set(said.split())

    def run(self, *steps: Callable[[Reviewer], Awaitable[object]]) -> None:
        """Run these steps in one process."""

        async def go() -> None:
            async with self.forge.serving() as forge:
                where = ForgeProject.from_url(
                    str(self.repository.path), self.token, kind=forge.kind, api=forge.url, project="acme/platform"
                )
                found, rest = where.connect(self.clock)
                mirror = Mirror(SourceTarget(str(self.repository.path)), self.cache, limits=self.limits)
                told: Forge = found
                reviewer = Reviewer(
                    told,
                    mirror,
                    "platform",
                    self.clock,
                    "0",
                    LOCAL,
                    lambda *one: self.notices.append(one),
                    compute_plan,
                )
                try:
                    for step in steps:
                        await step(reviewer)
                finally:
                    await rest.close()

        asyncio.run(go())


@pytest.fixture
def on_github(repository: Repository) -> Review:
    """A review whose forge is GitHub."""
    return Review(repository, "github")
