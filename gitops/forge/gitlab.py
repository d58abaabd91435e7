"""GitLab, which calls a pull request a merge request, a comment a note, and a state a commit status.

Source: GitLab's REST reference ("Merge requests", "Notes", "Commits", "Rate limits").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import quote

from gitops.forge.commit_status import CommitStatus
from gitops.forge.port import Comment, ForgeNotFound, PullRequest, PullState
from gitops.forge.rest import Rest, unread
from renderer.frozen import dataclass

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
        return self.known_as or await self.rest.get("/user", lambda found: str(found["username"]))

    def seal(self, text: str) -> str:
        return self.rest.seal(text)

    async def open_pulls(self) -> Sequence[PullRequest]:
        return await self.rest.pages(self._requests, _pull, state="opened", per_page=100)

    async def pull(self, number: int) -> PullRequest:
        return await self.rest.get(f"{self._requests}/{number}", _pull)

    async def comments(self, number: int) -> Sequence[Comment]:
        found = await self.rest.pages(f"{self._requests}/{number}/notes", _comment, sort="asc", per_page=100)
        url = (await self.pull(number)).url
        return [_linked(one, url) for one in found]

    async def comment(self, number: int, body: str) -> Comment:
        found = await self.rest.send("POST", f"{self._requests}/{number}/notes", {"body": body}, _comment)
        return _linked(found, (await self.pull(number)).url)

    async def edit(self, number: int, comment: Comment, body: str) -> None:
        await self.rest.send("PUT", f"{self._requests}/{number}/notes/{comment.id}", {"body": body}, unread)

    async def delete(self, number: int, comment: Comment) -> None:
        await self.rest.send("DELETE", f"{self._requests}/{number}/notes/{comment.id}", None, unread)

    async def tell(self, status: CommitStatus) -> None:
        # "References for commit": the head of a fork is on no branch of the project, and has no state there.
        with suppress(ForgeNotFound):
            await self.rest.send("POST", *status.at_gitlab(self.project), unread)

    async def default_branch(self) -> str:
        return await self.rest.get(self._at, lambda found: str(found["default_branch"]))

    async def pulls_from(self, branch: str) -> Sequence[PullRequest]:
        found = await self.rest.pages(self._requests, _own, source_branch=branch, state="all", per_page=100)
        return [one for one in found if one]

    async def propose(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        asked = {"source_branch": branch, "target_branch": base, "title": title, "description": body}
        return await self.rest.send("POST", self._requests, asked, _pull)

    @property
    def _at(self) -> str:
        return f"/projects/{quote(self.project, safe='')}"

    @property
    def _requests(self) -> str:
        return f"{self._at}/merge_requests"


def _pull(found: Mapping[str, Any]) -> PullRequest:
    """One without a commit has no `sha`."""
    state = _STATES.get(found["state"], PullState.CLOSED)
    head, base = str(found["sha"] or ""), str(found["target_branch"])
    return PullRequest(int(found["iid"]), head, base, state, str(found.get("web_url") or ""))


def _own(found: Mapping[str, Any]) -> PullRequest | None:
    """None for one of a fork: whoever forks may have a branch of the same name."""
    return _pull(found) if found["source_project_id"] == found["target_project_id"] else None


def _comment(found: Mapping[str, Any]) -> Comment:
    author = (found.get("author") or {}).get("username", "")
    return Comment(int(found["id"]), str(author), str(found.get("body") or ""), "")


def _linked(comment: Comment, url: str) -> Comment:
    return replace(comment, url=f"{url}#note_{comment.id}" if url else "")
