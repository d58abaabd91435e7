"""A forge that is not what it says, or was taken over: no answer of it ends us, fills our memory, or gets the token (docs/review.md)."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gitops.forge.connect import ForgeKind, ForgeProject
from gitops.forge.port import CommentTooLong, Forge, ForgeError, ForgeNotFound, ForgeRefused
from gitops.forge.rest import Rest
from tests.support.clock import StillClock
from tests.support.loopback import listening

TOKEN = "s3cret-token"
DEEP = b"[" * 100_000 + b"]" * 100_000
LISTS: list[Callable[[Forge], Awaitable[object]]] = [
    lambda forge: forge.list_open_pulls(),
    lambda forge: forge.list_comments(1),
    lambda forge: forge.list_pulls_from("topic"),
]
ONES: list[Callable[[Forge], Awaitable[object]]] = [
    lambda forge: forge.get_pull(1),
    lambda forge: forge.create_comment(1, "text"),
    lambda forge: forge.get_login(),
    lambda forge: forge.get_default_branch(),
    lambda forge: forge.create_pull("topic", "main", title="t", body="b"),
]


class Answering:
    """A server that gives one answer to everything, and what it was asked."""

    def __init__(self, data: bytes, status: int = 200, /, **headers: str) -> None:
        self.data, self.status, self.headers = data, status, headers
        self.asked: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        return web.Response(body=self.data, status=self.status, headers=self.headers)

    def run(self, token: Path, step: Callable[[Forge, Rest], Awaitable[object]], kind: str = "github") -> None:
        async def go() -> None:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", self.answer)
            async with listening(app) as url:
                found, rest = ForgeProject.from_url("", token, kind=kind, api=url, project="acme/platform").connect(
                    StillClock()
                )
                try:
                    await step(found, rest)
                finally:
                    await rest.close()

        asyncio.run(go())


@pytest.fixture
def token(tmp_path: Path) -> Path:
    found = tmp_path / "token"
    found.write_text(f"{TOKEN}\n")
    return found


def refusal(answer: Answering, token: Path, ask: Callable[[Forge], Awaitable[object]]) -> ForgeError:
    found: list[ForgeError] = []

    async def step(forge: Forge, _: Rest) -> None:
        with pytest.raises(ForgeError) as error:
            await ask(forge)
        found.append(error.value)

    answer.run(token, step)
    return found[0]


def told(answer: Answering, token: Path, ask: Callable[[Forge], Awaitable[object]]) -> str:
    """What the error says."""
    return str(refusal(answer, token, ask))


@pytest.mark.parametrize("kind", list(ForgeKind))
@pytest.mark.parametrize("document", [{}, [], [{}], [[]], [None], None, 7, "text", {"state": [], "head": None}])
def test_an_answer_of_another_form_is_an_error_in_words(token: Path, kind: str, document: Any) -> None:
    """Whatever is asked; but an empty list is a list."""
    answer = Answering(json.dumps(document).encode())

    async def every(forge: Forge, _: Rest) -> None:
        for ask in ONES if document == [] else [*ONES, *LISTS]:
            with pytest.raises(ForgeError, match="does not have the expected fields"):
                await ask(forge)

    answer.run(token, every, kind)


@pytest.mark.parametrize("status", [200, 403, 500])
def test_an_answer_that_is_nested_without_end_is_an_error(token: Path, status: int) -> None:
    """JSON of a depth that the interpreter does not follow, as an answer and as the reason of a refusal."""
    said = told(Answering(DEEP, status), token, LISTS[0])
    assert "nested too deeply" in said if status == 200 else str(status) in said


@pytest.mark.parametrize("data", [b"<html>", b"{", b"[1e999999, NaN"])
def test_an_answer_that_is_no_json_is_an_error(token: Path, data: bytes) -> None:
    assert "is not JSON" in told(Answering(data), token, LISTS[0])


def test_what_a_forge_wants_remembered_is_not_sent_back(token: Path) -> None:
    """Who asks is told by the token alone."""
    answer = Answering(b"[]", **{"Set-Cookie": "session=1"})

    async def twice(forge: Forge, rest: Rest) -> None:
        rest.api = rest.api.replace("127.0.0.1", "localhost")  # no client keeps cookies of a bare address
        for _ in range(2):
            await forge.list_open_pulls()

    answer.run(token, twice)
    assert [dict(request.cookies) for request in answer.asked] == [{}, {}]


def test_an_answer_without_end_is_not_read_to_its_end(token: Path) -> None:
    """Of a hundred MiB, also where they come as a hundred KiB, a third is read."""
    large = Answering(b" " * (100 << 20))
    assert "larger than 32 MiB" in told(large, token, LISTS[0])

    packed = Answering(gzip.compress(large.data), **{"Content-Encoding": "gzip"})
    assert "larger than 32 MiB" in told(packed, token, LISTS[0])


def test_a_redirect_to_another_host_is_told_and_gets_no_token(token: Path) -> None:
    other = Answering(b"[]")

    async def step(forge: Forge, rest: Rest) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", other.answer)
        async with listening(app) as elsewhere:
            for status in (301, 302, 307, 308):
                answer.status, answer.headers = status, {"Location": f"{elsewhere}/repos/acme/platform/pulls"}
                with pytest.raises(ForgeRefused, match="the API has moved: set its new URL"):
                    await forge.list_open_pulls()
                with pytest.raises(ForgeRefused, match="the API has moved"):
                    await forge.create_comment(1, "text")

    answer = Answering(b"")
    answer.run(token, step)
    assert (len(answer.asked), other.asked) == (8, [])


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_next_page_at_another_host_is_asked_at_ours(token: Path, scheme: str) -> None:
    answer = Answering(b"[]", Link=f'<{scheme}://evil.example.com/steal?page=2>; rel="next"')
    assert "more than 50 pages" in told(answer, token, LISTS[0])
    assert {request.path for request in answer.asked} == {"/repos/acme/platform/pulls"}


def test_what_is_remembered_is_bounded(token: Path) -> None:
    """Anybody may write as many comments as long as the forge allows, on as many pull requests: what has not changed is asked for again."""
    answer = Answering(json.dumps([{"id": 1, "body": "x" * (20 << 20)}]).encode(), ETag='"1"')

    async def step(forge: Forge, rest: Rest) -> None:
        for number in range(1, 6):
            await forge.list_comments(number)
            assert sum(one.size for _, one in rest._etag_cache.values()) <= 64 << 20
        assert rest._etag_cache

    answer.run(token, step)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the token cannot be read: the first line is empty; write the secret into the first line"),
        ("\n", "the token cannot be read: the first line is empty; write the secret into the first line"),
        ("t\u00f6ken", "its first line is not a token"),
        ("a\x00b", "its first line is not a token"),
    ],
)
def test_a_file_without_a_token_is_named(token: Path, text: str, problem: str) -> None:
    token.write_bytes(text.encode())
    answer = Answering(b"[]")
    said = told(answer, token, LISTS[0])
    assert f"{token}: {problem}" in said
    assert not answer.asked


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, ForgeRefused) for status in (301, 401, 403, 405)),
        *((status, ForgeNotFound) for status in (404, 410)),
        *((status, CommentTooLong) for status in (400, 413, 422)),
        *((status, ForgeError) for status in (500, 502)),
    ],
)
def test_an_error_tells_no_token_and_no_line_of_its_own(token: Path, status: int, kind: type[ForgeError]) -> None:
    """What the forge says is cut and stays on one line; whether it can be tried again, or shorter, follows from the status."""
    answer = Answering(json.dumps({"message": "bad\x1b[31m\n" + "x" * 5000}).encode(), status)
    error = refusal(answer, token, LISTS[0])
    assert type(error) is kind
    assert TOKEN not in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 500
