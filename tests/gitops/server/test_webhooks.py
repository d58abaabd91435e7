"""Hooks: bodies of the real shapes, signed, unsigned, cut, huge and sent again (threat 18). The only effect is "poll now"."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from applier.errors import Unavailable
from applier.token_bucket import Rate
from gitops.server import webhooks
from gitops.source_config import parse_source
from tests.support.monitoring.scene import Scene, scene
from tests.support.monitoring.webhooks import GITHUB, REPOSITORY, SECRET, signed

NEVER_SECONDS = 3600.0
BODIES: dict[str, Any] = {
    "github": GITHUB,
    "gitea": GITHUB,
    "gitlab": {
        "object_kind": "push",
        "project": {"git_http_url": f"{REPOSITORY}.git", "git_ssh_url": "git@git.example.com:shop/deploy.git"},
    },
    "bitbucket": {"push": {}, "repository": {"full_name": "shop/deploy", "links": {"html": {"href": REPOSITORY}}}},
    "generic": {"url": f"{REPOSITORY}.git"},
}


@pytest.fixture
async def hooked(tmp_path: Path) -> AsyncIterator[Scene]:
    """Two sources of the repository, one of another; every provider may call."""
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    async with scene() as seen:
        seen.sources = tuple(
            parse_source(text)
            for text in (
                f"shop={REPOSITORY}.git",
                "ssh=git@git.example.com:shop/deploy.git",
                "other=https://git.example.com/shop/other.git",
            )
        )
        seen.secrets = dict.fromkeys(BODIES, file)
        yield seen


@asynccontextmanager
async def sent(seen: Scene, provider: str, body: bytes, headers: dict[str, str]) -> AsyncIterator[tuple[int, str]]:
    async with seen.client() as client:
        response = await client.post(f"/hooks/{provider}", data=body, headers=headers)
        yield response.status, await response.text()


@pytest.mark.parametrize("provider", BODIES)
async def test_a_signed_call_asks_the_sources_of_that_repository_and_no_other(hooked: Scene, provider: str) -> None:
    body = json.dumps(BODIES[provider]).encode()
    async with sent(hooked, provider, body, signed(provider, body)) as (status, text):
        assert (status, text) == (202, "\n")
    assert hooked.polled == [("shop", "ssh")]


async def test_a_form_is_what_github_sends_unless_it_is_told_otherwise(hooked: Scene) -> None:
    """GitHub, "Creating webhooks": `application/x-www-form-urlencoded` is the default. The signature is that of the raw body."""
    body = urlencode({"payload": json.dumps({**GITHUB, "note": "a+b & c"})}).encode()
    headers = {**signed("github", body), "Content-Type": "application/x-www-form-urlencoded"}
    async with sent(hooked, "github", body, headers) as (status, _):
        assert status == 202
    assert hooked.polled == [("shop", "ssh")]


@pytest.mark.parametrize("provider", BODIES)
@pytest.mark.parametrize("wrong", ["none", "empty", "other secret", "cut", "other body", "not ascii"])
async def test_what_is_not_proven_does_nothing_and_learns_nothing(hooked: Scene, provider: str, wrong: str) -> None:
    body = json.dumps(BODIES[provider]).encode()
    (name, value), *_ = signed(provider, body).items()
    headers = {
        "none": {},
        "empty": {name: ""},
        "other secret": signed(provider, body, b"battery staple"),
        "cut": {name: value[:-1]},
        "other body": signed(provider, body + b" ") if provider != "gitlab" else {name: value + " x"},
        "not ascii": {name: "sha256=é"},
    }[wrong]
    async with sent(hooked, provider, body, headers) as (status, text):
        assert (status, text) == (401, "401: Unauthorized")
    assert hooked.polled == []


async def test_whoever_cannot_be_heard_is_told_to_call_again(hooked: Scene) -> None:
    hooked.refusal = Unavailable("the cluster is away")
    body = json.dumps(GITHUB).encode()
    async with sent(hooked, "github", body, signed("github", body)) as (status, text):
        assert (status, text) == (503, "503: Service Unavailable")


async def test_an_unknown_provider_and_one_without_a_secret_are_not_there(hooked: Scene) -> None:
    hooked.secrets = {name: file for name, file in hooked.secrets.items() if name != "github"}
    body = json.dumps(GITHUB).encode()
    for provider in ("github", "gitee"):
        async with sent(hooked, provider, body, signed("github", body)) as (status, _):
            assert status == 404
    assert hooked.polled == []


async def test_nobody_can_call_with_an_empty_secret(hooked: Scene, tmp_path: Path) -> None:
    for content in (b"", b"\n \n"):
        (tmp_path / "secret").write_bytes(content)
        async with sent(hooked, "gitlab", b"{}", {"X-Gitlab-Token": ""}) as (status, _):
            assert status == 401


async def test_both_secrets_count_while_one_is_replaced(hooked: Scene, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"old\nnew\n")
    body = json.dumps(GITHUB).encode()
    for secret in (b"old", b"new"):
        async with sent(hooked, "github", body, signed("github", body, secret)) as (status, _):
            assert status == 202


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"payload=",
        b"payload=%7B%zz",
        b"null",
        b"\xff\xfe",
        b'{"repository": []}',
        b'{"repository": {"clone_url": 7}}',
        b"[" * 10_000,
    ],
)
async def test_a_signed_body_that_says_nothing_asks_nobody(hooked: Scene, body: bytes) -> None:
    async with sent(hooked, "github", body, signed("github", body)) as (status, _):
        assert status == 202
    assert hooked.polled == []


async def hanging() -> AsyncIterator[bytes]:
    """A body that never ends."""
    yield b"{"
    await asyncio.Event().wait()


async def test_a_huge_body_is_not_read(hooked: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced as such, or sent in pieces without a word of how many."""
    monkeypatch.setattr("gitops.server.webhook_endpoint.BODY_TIMEOUT_SECONDS", NEVER_SECONDS)
    body = b"x" * (webhooks.MAX_BODY_BYTES + 1)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield body[: webhooks.MAX_BODY_BYTES // 10]

    async with hooked.client() as client:
        assert (await client.post("/hooks/github", data=BytesIO(body), headers=signed("github", body))).status == 413
        assert (await client.post("/hooks/github", data=pieces())).status == 413
        announced = {"Content-Length": str(webhooks.MAX_BODY_BYTES + 1)}
        async with asyncio.timeout(60):  # nothing of it has to come
            assert (await client.post("/hooks/github", data=hanging(), headers=announced)).status == 413
    assert hooked.polled == []


async def test_a_body_that_comes_slowly_is_waited_for_but_not_for_ever(
    hooked: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitops.server.webhook_endpoint.BODY_TIMEOUT_SECONDS", NEVER_SECONDS)
    body = json.dumps(GITHUB).encode()

    async def trickling() -> AsyncIterator[bytes]:
        for number in range(0, len(body), 7):
            await asyncio.sleep(0)
            yield body[number : number + 7]

    async with hooked.client() as client:
        assert (await client.post("/hooks/github", data=trickling(), headers=signed("github", body))).status == 202
        monkeypatch.setattr("gitops.server.webhook_endpoint.BODY_TIMEOUT_SECONDS", 0.05)
        assert (await client.post("/hooks/github", data=hanging())).status == 408
    assert hooked.polled == [("shop", "ssh")]


async def test_slow_bodies_hold_up_nobody_else(hooked: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has proven nothing cannot keep a forge waiting; more than can be held are told to come back, at once."""
    monkeypatch.setattr("gitops.server.webhook_endpoint.MAX_BODIES", 20)
    monkeypatch.setattr("gitops.server.webhook_endpoint.BODY_TIMEOUT_SECONDS", NEVER_SECONDS)
    begun: asyncio.Queue[None] = asyncio.Queue()
    forever = asyncio.Event()

    async def hanging() -> AsyncIterator[bytes]:
        yield b"{"
        begun.put_nowait(None)
        await forever.wait()

    body = json.dumps(GITHUB).encode()
    async with hooked.client() as client, asyncio.TaskGroup() as group:
        slow = [group.create_task(client.post("/hooks/github", data=hanging())) for _ in range(19)]
        for _ in slow:
            await begun.get()
        answers = [await client.post("/hooks/github", data=body, headers=signed("github", body)) for _ in range(3)]
        assert [one.status for one in answers] == [202] * 3
        slow.append(group.create_task(client.post("/hooks/github", data=hanging())))
        await begun.get()
        async with asyncio.timeout(60):  # a slow one is not given up meanwhile
            answer = await client.post("/hooks/github", data=body, headers=signed("github", body))
            while answer.status != 503:  # the last slow one may be on its way
                answer = await client.post("/hooks/github", data=body, headers=signed("github", body))
        assert answer.headers["Retry-After"] == "5"
        assert 'result="busy"' in await hooked.metrics()
        forever.set()
        for one in slow:
            assert (await one).status == 401
    assert (hooked.polled[:3]) == [("shop", "ssh")] * 3


async def test_bodies_hold_no_more_than_their_share_together(hooked: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitops.server.webhook_endpoint.MAX_TOTAL_BYTES", 1000)
    async with hooked.client() as client:
        assert (await client.post("/hooks/github", data=b"x" * 900)).status == 401
        assert (await client.post("/hooks/github", data=b"x" * 1100)).status == 503
        assert (await client.post("/hooks/github", data=b"x" * 900)).status == 401  # what was held is given back


async def test_a_call_that_is_sent_again_and_again_is_slowed_down(hooked: Scene) -> None:
    body = json.dumps(GITHUB).encode()
    async with hooked.client() as client:
        codes = [
            (await client.post("/hooks/github", data=body, headers=signed("github", body))).status for _ in range(30)
        ]
    assert codes == [202] * 20 + [429] * 10
    assert len(hooked.polled) == 20


def test_the_bucket_fills_again_with_time() -> None:
    rate = webhooks.RateLimit(Rate(per_second=0.1, burst=2))
    assert [rate.allows("a", 0.0) for _ in range(3)] == [True, True, False]
    assert not rate.allows("a", 9.0)
    assert rate.allows("a", 10.5)
    assert rate.allows("b", 10.5)


async def test_hooks_take_nothing_but_posts(hooked: Scene) -> None:
    async with hooked.client() as client:
        assert (await client.get("/hooks/github")).status == 405
