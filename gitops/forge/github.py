"""GitHub and Gitea, whose interface is GitHub's but for a few names.

Sources: the REST references of GitHub ("Pulls", "Issue comments", "Commit statuses", "Best practices") and of Gitea (its OpenAPI description).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gitops.forge.port import Comment, PullRequest, PullState
from gitops.forge.rest import Rest
from gitops.forge.statuses import Status


@dataclass(frozen=True, slots=True)
class GitHub:
    """`project` is `owner/name`; `known_as` is our login, for tokens that may not ask who they are."""

    rest: Rest
    project: str
    known_as: str = ""
    limit: ClassVar[int] = 65_536
    page: ClassVar[Mapping[str, int]] = {"per_page": 100}

    def ref(self, number: int) -> str:
        return f"refs/pull/{number}/head"

    async def login(self) -> str:
        return self.known_as or str((await self.rest.get("/user"))["login"])

    async def open_pulls(self) -> Sequence[PullRequest]:
        return [_pull(one) for one in await self.rest.pages(f"{self._at}/pulls", state="open", **self.page)]

    async def pull(self, number: int) -> PullRequest:
        return _pull(await self.rest.get(f"{self._at}/pulls/{number}"))

    async def comments(self, number: int) -> Sequence[Comment]:
        return [_comment(one) for one in await self.rest.pages(f"{self._at}/issues/{number}/comments", **self.page)]

    async def comment(self, number: int, body: str) -> Comment:
        return _comment(await self.rest.send("POST", f"{self._at}/issues/{number}/comments", {"body": body}))

    async def edit(self, number: int, comment: Comment, body: str) -> None:
        await self.rest.send("PATCH", f"{self._at}/issues/comments/{comment.id}", {"body": body})

    async def delete(self, number: int, comment: Comment) -> None:
        await self.rest.send("DELETE", f"{self._at}/issues/comments/{comment.id}")

    async def tell(self, status: Status) -> None:
        await self.rest.send("POST", *status.at_github(self.project))

    async def default_branch(self) -> str:
        return str((await self.rest.get(self._at))["default_branch"])

    async def pulls_from(self, branch: str) -> Sequence[PullRequest]:
        owner = self.project.partition("/")[0]
        found = await self.rest.pages(f"{self._at}/pulls", state="all", head=f"{owner}:{branch}", **self.page)
        return [_pull(one) for one in found if _is_from(one, self.project, branch)]

    async def propose(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        asked = {"head": branch, "base": base, "title": title, "body": body}
        return _pull(await self.rest.send("POST", f"{self._at}/pulls", asked))

    @property
    def _at(self) -> str:
        return f"/repos/{self.project}"


@dataclass(frozen=True, slots=True)
class Gitea(GitHub):
    """Also Forgejo. Its lists of pull requests know no `head`; then all are looked through."""

    limit: ClassVar[int] = 262_144
    page: ClassVar[Mapping[str, int]] = {"limit": 50}


def _pull(found: Mapping[str, Any]) -> PullRequest:
    merged = found.get("merged_at") or found.get("merged")
    state = PullState.OPEN if found["state"] == "open" else PullState.MERGED if merged else PullState.CLOSED
    return PullRequest(found["number"], found["head"]["sha"], found["base"]["ref"], state, found.get("html_url", ""))


def _comment(found: Mapping[str, Any]) -> Comment:
    author = (found.get("user") or {}).get("login", "")
    return Comment(found["id"], author, found.get("body") or "", found.get("html_url", ""))


def _is_from(found: Mapping[str, Any], project: str, branch: str) -> bool:
    """Whoever forks may have a branch of the same name."""
    head = found["head"]
    return head.get("ref") == branch and ((head.get("repo") or {}).get("full_name") or "").lower() == project.lower()
