"""GitLab, which calls a pull request a merge request, a comment a note, and a state a commit status.

Source: GitLab's REST reference ("Merge requests", "Notes", "Commits", "Rate limits").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from gitops.forge.port import Comment, PullRequest, PullState
from gitops.forge.rest import Rest
from gitops.forge.statuses import Status

_STATES = {"opened": PullState.OPEN, "merged": PullState.MERGED}


@dataclass(frozen=True, slots=True)
class GitLab:
    """`project` is the full path of the project, groups included; `known_as` is our user name, for tokens that may not ask who they are."""

    rest: Rest
    project: str
    known_as: str = ""
    limit: ClassVar[int] = 1_000_000

    def ref(self, number: int) -> str:
        return f"refs/merge-requests/{number}/head"

    async def login(self) -> str:
        return self.known_as or str((await self.rest.get("/user"))["username"])

    async def open_pulls(self) -> Sequence[PullRequest]:
        return [_pull(one) for one in await self.rest.pages(self._requests, state="opened", per_page=100)]

    async def pull(self, number: int) -> PullRequest:
        return _pull(await self.rest.get(f"{self._requests}/{number}"))

    async def comments(self, number: int) -> Sequence[Comment]:
        found = await self.rest.pages(f"{self._requests}/{number}/notes", sort="asc", per_page=100)
        url = (await self.pull(number)).url
        return [_comment(one, url) for one in found if not one.get("system")]

    async def comment(self, number: int, body: str) -> Comment:
        found = await self.rest.send("POST", f"{self._requests}/{number}/notes", {"body": body})
        return _comment(found, (await self.pull(number)).url)

    async def edit(self, number: int, comment: Comment, body: str) -> None:
        await self.rest.send("PUT", f"{self._requests}/{number}/notes/{comment.id}", {"body": body})

    async def delete(self, number: int, comment: Comment) -> None:
        await self.rest.send("DELETE", f"{self._requests}/{number}/notes/{comment.id}")

    async def tell(self, status: Status) -> None:
        await self.rest.send("POST", *status.at_gitlab(self.project))

    async def default_branch(self) -> str:
        return str((await self.rest.get(self._at))["default_branch"])

    async def pulls_from(self, branch: str) -> Sequence[PullRequest]:
        found = await self.rest.pages(self._requests, source_branch=branch, state="all", per_page=100)
        return [_pull(one) for one in found if one.get("source_project_id") == one.get("target_project_id")]

    async def propose(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        asked = {"source_branch": branch, "target_branch": base, "title": title, "description": body}
        return _pull(await self.rest.send("POST", self._requests, asked))

    @property
    def _at(self) -> str:
        return f"/projects/{quote(self.project, safe='')}"

    @property
    def _requests(self) -> str:
        return f"{self._at}/merge_requests"


def _pull(found: Mapping[str, Any]) -> PullRequest:
    state = _STATES.get(found["state"], PullState.CLOSED)
    return PullRequest(found["iid"], found["sha"], found["target_branch"], state, found.get("web_url", ""))


def _comment(found: Mapping[str, Any], url: str) -> Comment:
    author = (found.get("author") or {}).get("username", "")
    return Comment(found["id"], author, found.get("body") or "", f"{url}#note_{found['id']}" if url else "")
