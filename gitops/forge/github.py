"""GitHub and Gitea, whose interface is GitHub's but for a few names.

Sources: the REST references of GitHub ("Pulls", "Issue comments", "Commit statuses", "Best practices") and of Gitea (its OpenAPI description).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from gitops.forge.commit_status import CommitStatus
from gitops.forge.port import Comment, PullRequest, PullState, TooManyItems
from gitops.forge.rest import Rest, unread
from renderer.frozen import dataclass


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
        return self.known_as or await self.rest.get("/user", lambda found: str(found["login"]))

    def seal(self, text: str) -> str:
        return self.rest.seal(text)

    async def open_pulls(self) -> Sequence[PullRequest]:
        return await self.rest.pages(f"{self._at}/pulls", _pull, state="open", **self.page)

    async def pull(self, number: int) -> PullRequest:
        return await self.rest.get(f"{self._at}/pulls/{number}", _pull)

    async def comments(self, number: int) -> Sequence[Comment]:
        return await self.rest.pages(f"{self._at}/issues/{number}/comments", _comment, **self.page)

    async def comment(self, number: int, body: str) -> Comment:
        return await self.rest.send("POST", f"{self._at}/issues/{number}/comments", {"body": body}, _comment)

    async def edit(self, number: int, comment: Comment, body: str) -> None:
        await self.rest.send("PATCH", f"{self._at}/issues/comments/{comment.id}", {"body": body}, unread)

    async def delete(self, number: int, comment: Comment) -> None:
        await self.rest.send("DELETE", f"{self._at}/issues/comments/{comment.id}", None, unread)

    async def tell(self, status: CommitStatus) -> None:
        await self.rest.send("POST", *status.at_github(self.project), unread)

    async def default_branch(self) -> str:
        return await self.rest.get(self._at, lambda found: str(found["default_branch"]))

    async def pulls_from(self, branch: str) -> Sequence[PullRequest]:
        owner = self.project.partition("/")[0]
        asked: dict[str, str | int] = {"state": "all", "head": f"{owner}:{branch}", **self.page}
        try:
            found = await self.rest.pages(
                f"{self._at}/pulls", lambda one: _pull(one) if _is_from(one, self.project, branch) else None, **asked
            )
        except TooManyItems as cut:  # the newest come first
            found = list(cut.found)
        return [one for one in found if one]

    async def propose(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        asked = {"head": branch, "base": base, "title": title, "body": body}
        return await self.rest.send("POST", f"{self._at}/pulls", asked, _pull)

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
    head, base = str(found["head"]["sha"] or ""), str(found["base"]["ref"])
    return PullRequest(int(found["number"]), head, base, state, str(found.get("html_url") or ""))


def _comment(found: Mapping[str, Any]) -> Comment:
    author = (found.get("user") or {}).get("login", "")
    return Comment(int(found["id"]), str(author), str(found.get("body") or ""), str(found.get("html_url") or ""))


def _is_from(found: Mapping[str, Any], project: str, branch: str) -> bool:
    """Whoever forks may have a branch of the same name."""
    head = found["head"]
    return head.get("ref") == branch and ((head.get("repo") or {}).get("full_name") or "").lower() == project.lower()
