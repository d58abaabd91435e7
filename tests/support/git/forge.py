"""Forges on loopback that answer as GitHub, Gitea and GitLab do: their paths, fields, pages, limits and refusals."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from yarl import URL

from tests.support.loopback import listening

TOKEN, BOT = "s3cret-token", "levelgate-bot"


@dataclass
class Pull:
    """`state` is open, closed or merged. `path` is where the web shows it."""

    number: int
    head: str
    base: str = "main"
    state: str = "open"
    branch: str = "topic"
    body: str = ""
    fork: bool = False


@dataclass(frozen=True)
class Refusal:
    status: int = 429
    headers: Mapping[str, str] = field(default_factory=dict)
    said: Any = None


@dataclass
class FakeForge:
    """What is there, and what was asked. A comment longer than `limit` is refused. After `left` requests all are refused, with the status, the
    headers and the document of `refusal`. `world` is the address that its links name, where that is not the one that it is asked at; without `links`
    there are none, as behind proxies that take them away.
    """

    kind: str
    limit: int = 65_536
    page: int = 100
    pulls: dict[int, Pull] = field(default_factory=dict)
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    states: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    unchanged: int = 0
    left: int | None = None
    refusal: Refusal = Refusal()
    world: str = ""
    links: bool = True
    token: str = TOKEN
    url: str = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeForge]:
        app = web.Application(middlewares=[self._door])
        for method, path, answer in self._routes():
            app.router.add_route(method, path, answer)
        async with listening(app) as self.url:
            yield self

    def say(self, number: int, author: str, body: str) -> int:
        """Add a comment of another person."""
        made = len(self.comments) + 1
        self.comments[made] = {"id": made, "number": number, "author": author, "body": body}
        return made

    def bodies(self, number: int, author: str = BOT) -> list[str]:
        return [one["body"] for one in self.comments.values() if (one["number"], one["author"]) == (number, author)]

    @web.middleware
    async def _door(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.raw_path}")
        token = {"github": f"Bearer {self.token}", "gitea": f"token {self.token}", "gitlab": self.token}[self.kind]
        if request.headers.get("PRIVATE-TOKEN" if self.kind == "gitlab" else "Authorization") != token:
            return web.json_response({"message": "Bad credentials"}, status=401)
        if self.left is not None:
            if self.left == 0:
                return web.json_response(self.refusal.said, status=self.refusal.status, headers=self.refusal.headers)
            self.left -= 1
        response: web.Response = await handler(request)
        tag = f'W/"{hashlib.sha1(response.body or b"").hexdigest()}"'  # type: ignore[arg-type]
        if request.method == "GET" and request.headers.get("If-None-Match") == tag:
            self.unchanged += 1
            return web.Response(status=304, headers={"ETag": tag})
        if request.method == "GET":
            response.headers["ETag"] = tag
        return response

    def _routes(self) -> list[tuple[str, str, Callable[[web.Request], Any]]]:
        if self.kind == "gitlab":
            at = "/projects/{project}"
            return [
                ("GET", "/user", self._user),
                ("GET", at, self._about),
                ("GET", f"{at}/merge_requests", self._list),
                ("POST", f"{at}/merge_requests", self._propose),
                ("GET", f"{at}/merge_requests/{{number}}", self._get),
                ("GET", f"{at}/merge_requests/{{number}}/notes", self._comments),
                ("POST", f"{at}/merge_requests/{{number}}/notes", self._comment),
                ("PUT", f"{at}/merge_requests/{{number}}/notes/{{id}}", self._edit),
                ("DELETE", f"{at}/merge_requests/{{number}}/notes/{{id}}", self._delete),
                ("POST", f"{at}/statuses/{{sha}}", self._state),
            ]
        at = "/repos/acme/platform"
        return [
            ("GET", "/user", self._user),
            ("GET", at, self._about),
            ("GET", f"{at}/pulls", self._list),
            ("POST", f"{at}/pulls", self._propose),
            ("GET", f"{at}/pulls/{{number}}", self._get),
            ("GET", f"{at}/issues/{{number}}/comments", self._comments),
            ("POST", f"{at}/issues/{{number}}/comments", self._comment),
            ("PATCH", f"{at}/issues/comments/{{id}}", self._edit),
            ("DELETE", f"{at}/issues/comments/{{id}}", self._delete),
            ("POST", f"{at}/statuses/{{sha}}", self._state),
        ]

    async def _user(self, _: web.Request) -> web.Response:
        return web.json_response({"login": BOT, "username": BOT})

    async def _about(self, _: web.Request) -> web.Response:
        return web.json_response({"default_branch": "main"})

    async def _list(self, request: web.Request) -> web.Response:
        wanted = {"open": {"open"}, "opened": {"open"}}.get(
            request.query.get("state", ""), {"open", "closed", "merged"}
        )
        found = [one for one in self.pulls.values() if one.state in wanted]
        if branch := request.query.get("source_branch") or request.query.get("head", "").partition(":")[2]:
            found = [one for one in found if one.branch == branch or self.kind == "gitea"]
        return self._paged(request, [self._pull(one) for one in found])

    async def _get(self, request: web.Request) -> web.Response:
        found = self.pulls.get(int(request.match_info["number"]))
        return web.json_response(self._pull(found)) if found else _missing()

    async def _propose(self, request: web.Request) -> web.Response:
        said = await request.json()
        branch, base = (
            said[name] for name in (("source_branch", "target_branch") if self.kind == "gitlab" else ("head", "base"))
        )
        text = said["description" if self.kind == "gitlab" else "body"]
        if any((one.branch, one.state, one.fork) == (branch, "open", False) for one in self.pulls.values()):
            message = f"A pull request already exists for acme:{branch}."
            return web.json_response({"message": message}, status=422 if self.kind == "github" else 409)
        made = Pull(max(self.pulls, default=0) + 1, "0" * 40, base, branch=branch, body=f"{said['title']}\n{text}")
        self.pulls[made.number] = made
        return web.json_response(self._pull(made), status=201)

    async def _comments(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        return self._paged(request, [self._said(one) for one in self.comments.values() if one["number"] == number])

    async def _comment(self, request: web.Request) -> web.Response:
        body = (await request.json())["body"]
        if len(body.encode()) > self.limit:
            return web.json_response({"message": "Validation Failed"}, status=422)
        made = self.say(int(request.match_info["number"]), BOT, body)
        return web.json_response(self._said(self.comments[made]), status=201)

    async def _edit(self, request: web.Request) -> web.Response:
        body, found = (await request.json())["body"], self.comments.get(int(request.match_info["id"]))
        if found is None:
            return _missing()
        if len(body.encode()) > self.limit:
            return web.json_response({"message": "Validation Failed"}, status=422)
        found["body"] = body
        return web.json_response(self._said(found))

    async def _delete(self, request: web.Request) -> web.Response:
        return web.Response(status=204) if self.comments.pop(int(request.match_info["id"]), None) else _missing()

    async def _state(self, request: web.Request) -> web.Response:
        """GitLab looks for a branch of the project that the commit is on; the head of a fork is on none."""
        of_forks = {one.head for one in self.pulls.values() if one.fork}
        if self.kind == "gitlab" and request.match_info["sha"] in of_forks:
            return web.json_response({"message": "404 References for commit Not Found"}, status=404)
        self.states.append({"sha": request.match_info["sha"], **await request.json()})
        return web.json_response({}, status=201)

    def _paged(self, request: web.Request, items: list[Mapping[str, Any]]) -> web.Response:
        number = int(request.query.get("page", "1"))
        size = min(self.page, int(request.query.get("limit" if self.kind == "gitea" else "per_page", "30")))
        last = size * number >= len(items)
        url = URL(self.world).join(request.url.relative()) if self.world else request.url
        following = url.update_query(page=number + 1)
        headers = {} if last or not self.links else {"Link": f'<{following}>; rel="next", <{url}>; rel="first"'}
        if self.kind == "gitlab":
            headers["X-Next-Page"] = "" if last else str(number + 1)
        return web.json_response(items[size * (number - 1) : size * number], headers=headers)

    def _pull(self, one: Pull) -> dict[str, Any]:
        if self.kind == "gitlab":
            return {
                "iid": one.number,
                "sha": one.head,
                "target_branch": one.base,
                "state": {"open": "opened"}.get(one.state, one.state),
                "web_url": f"https://forge.test/acme/platform/-/merge_requests/{one.number}",
                "source_project_id": 2 if one.fork else 1,
                "target_project_id": 1,
            }
        merged: dict[str, object] = {"merged": one.state == "merged"} if self.kind == "gitea" else {}
        if self.kind == "github":
            merged = {"merged_at": "2026-11-20T12:00:00Z" if one.state == "merged" else None}
        return {
            "number": one.number,
            "state": "open" if one.state == "open" else "closed",
            "head": {
                "sha": one.head,
                "ref": one.branch,
                "repo": {"full_name": "mallory/platform" if one.fork else "Acme/Platform"},
            },
            "base": {"ref": one.base, "sha": "0" * 40},
            "html_url": f"https://forge.test/acme/platform/pull/{one.number}",
            **merged,
        }

    def _said(self, one: Mapping[str, Any]) -> dict[str, Any]:
        if self.kind == "gitlab":
            return {"id": one["id"], "body": one["body"], "author": {"username": one["author"]}}
        url = f"https://forge.test/acme/platform/pull/{one['number']}#issuecomment-{one['id']}"
        return {"id": one["id"], "body": one["body"], "user": {"login": one["author"]}, "html_url": url}


def _missing() -> web.Response:
    return web.Response(text=json.dumps({"message": "Not Found"}), status=404, content_type="application/json")
