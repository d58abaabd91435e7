"""Hooks wake a reviewer, and do nothing else (threat 18; docs/review.md, *At once*)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession

from gitops.config.fields import ListenAddress
from gitops.forge.connect import ForgeKind
from gitops.pull_requests.reviewer import Reviewer
from gitops.server.http import serve_wake_hooks
from gitops.source_config import parse_source
from tests.support.git.forge import Refusal
from tests.support.git.review import Review, config, on_github
from tests.support.monitoring.webhooks import GITHUB, REPOSITORY, SECRET, signed

__all__ = ["on_github"]

OTHER = json.loads(json.dumps(GITHUB).replace("shop/deploy", "shop/other"))


@pytest.mark.parametrize(
    ("path", "body", "secret", "status", "wakes"),
    [
        ("github", GITHUB, SECRET, 202, True),
        ("github", GITHUB, b"another", 401, False),
        ("github", OTHER, SECRET, 202, False),
        ("gitlab", GITHUB, SECRET, 404, False),
    ],
    ids=["proven", "unproven", "of another repository", "of another forge"],
)
async def test_who_proves_that_the_repository_has_changed_wakes_it(
    on_github: Review, tmp_path: Path, path: str, body: object, secret: bytes, status: int, wakes: bool
) -> None:
    file, data = tmp_path / "hook", json.dumps(body).encode()
    file.write_bytes(SECRET)
    seen = list[bool]()

    async def sent(reviewer: Reviewer) -> None:
        own = parse_source(f"shop={REPOSITORY}.git")
        async with (
            serve_wake_hooks(reviewer.triggered, own, ForgeKind.GITHUB, file, ListenAddress("127.0.0.1", 0)) as url,
            ClientSession() as client,
        ):
            assert url.endswith("/hooks/github")
            async with client.post(
                url.replace("github", path), data=data, headers=signed("github", data, secret)
            ) as answer:
                assert answer.status == status
            async with client.get(url.replace("hooks/github", "metrics")) as answer:
                assert answer.status == 404  # nothing else is served
        seen.append(reviewer.triggered.is_set())

    await asyncio.to_thread(on_github.run, sent)
    assert seen == [wakes]


def followed(review: Review, meanwhile: Callable[[Reviewer, int], None]) -> int:
    """How often it rested until it was stopped; each rest lasts until something ends it. `meanwhile` happens in each, with its number."""
    rests = 0

    async def following(reviewer: Reviewer) -> None:
        async def sleep(_: float) -> None:
            nonlocal rests
            rests += 1
            meanwhile(reviewer, rests)
            await asyncio.Event().wait()

        review.clock.sleep = sleep  # type: ignore[method-assign, assignment]
        await reviewer.run(review.interval)

    review.run(following)
    return rests


def test_what_is_told_of_is_looked_at_at_once(on_github: Review) -> None:
    on_github.pull(config("b"))

    def meanwhile(reviewer: Reviewer, rest: int) -> None:
        if rest == 1:
            on_github.pull({**config("b"), **config("c")})
            reviewer.triggered.set()
        else:
            reviewer.stop.set()

    assert followed(on_github, meanwhile) == 2
    assert "2 create" in on_github.forge.bodies(1)[0]


def test_nobody_wakes_it_before_the_limit_of_the_forge_is_over(on_github: Review) -> None:
    on_github.forge.left, on_github.forge.refusal = 0, Refusal(429, {"Retry-After": "90"})

    def meanwhile(reviewer: Reviewer, _: int) -> None:
        reviewer.triggered.set()
        asyncio.get_running_loop().call_later(0.05, reviewer.stop.set)

    assert followed(on_github, meanwhile) == 1
    assert len(on_github.forge.asked) == 1
