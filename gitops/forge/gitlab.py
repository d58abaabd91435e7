"""Adapter for GitLab, which calls a pull request a merge request, and a comment a note.

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
from gitops.forge.rest import Rest, ignore_response
from renderer.frozen import dataclass

_STATES = {"opened": PullState.OPEN, "merged": PullState.MERGED}


@dataclass(frozen=True, slots=True)
class GitLab:
    """Project at GitLab."""

    rest: Rest
    project: str
    """Full path of the project, with its groups."""
    configured_login: str
    """User name of the account that owns the token. If the field is empty, the adapter requests the name."""
    max_comment_bytes: ClassVar[int] = 1_000_000

    def head_ref(self, number: int) -> str:
        return f"refs/merge-requests/{number}/head"

    async def get_login(self) -> str:
        return self.configured_login or await self.rest.get("/user", lambda user: str(user["username"]))

    def seal(self, text: str) -> str:
        return self.rest.seal(text)

    async def list_open_pulls(self) -> Sequence[PullRequest]:
        return await self.rest.get_pages(self._merge_requests_path, _parse_pull, state="opened", per_page=100)

    async def get_pull(self, number: int) -> PullRequest:
        return await self.rest.get(f"{self._merge_requests_path}/{number}", _parse_pull)

    async def list_comments(self, number: int) -> Sequence[Comment]:
        comments = await self.rest.get_pages(
            f"{self._merge_requests_path}/{number}/notes", _parse_comment, sort="asc", per_page=100
        )
        url = (await self.get_pull(number)).url
        return [_with_url(comment, url) for comment in comments]

    async def create_comment(self, number: int, body: str) -> Comment:
        return _with_url(
            await self.rest.send("POST", f"{self._merge_requests_path}/{number}/notes", {"body": body}, _parse_comment),
            (await self.get_pull(number)).url,
        )

    async def edit_comment(self, number: int, comment: Comment, body: str) -> None:
        await self.rest.send(
            "PUT", f"{self._merge_requests_path}/{number}/notes/{comment.id}", {"body": body}, ignore_response
        )

    async def delete_comment(self, number: int, comment: Comment) -> None:
        await self.rest.send(
            "DELETE", f"{self._merge_requests_path}/{number}/notes/{comment.id}", None, ignore_response
        )

    async def set_status(self, status: CommitStatus) -> None:
        # GitLab refuses a status for a commit that is on no branch of the project, such as the head of a fork.
        with suppress(ForgeNotFound):
            await self.rest.send("POST", *status.gitlab_request(self.project), ignore_response)

    async def get_default_branch(self) -> str:
        return await self.rest.get(self._project_path, lambda project: str(project["default_branch"]))

    async def list_pulls_from(self, branch: str) -> Sequence[PullRequest]:
        pulls = await self.rest.get_pages(
            self._merge_requests_path, _parse_own_pull, source_branch=branch, state="all", per_page=100
        )
        return [pull for pull in pulls if pull]

    async def create_pull(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        payload = {"source_branch": branch, "target_branch": base, "title": title, "description": body}
        return await self.rest.send("POST", self._merge_requests_path, payload, _parse_pull)

    @property
    def _project_path(self) -> str:
        return f"/projects/{quote(self.project, safe='')}"

    @property
    def _merge_requests_path(self) -> str:
        return f"{self._project_path}/merge_requests"


def _parse_pull(data: Mapping[str, Any]) -> PullRequest:
    """Return the pull request for a merge request. While the branch has no commit, the field `sha` is null."""
    state = _STATES.get(data["state"], PullState.CLOSED)
    head, base = str(data["sha"] or ""), str(data["target_branch"])
    return PullRequest(int(data["iid"]), head, base, state, str(data.get("web_url") or ""))


def _parse_own_pull(data: Mapping[str, Any]) -> PullRequest | None:
    """Return the pull request, or None for a merge request from a fork, which may have a branch of the same name."""
    return _parse_pull(data) if data["source_project_id"] == data["target_project_id"] else None


def _parse_comment(data: Mapping[str, Any]) -> Comment:
    author = (data.get("author") or {}).get("username", "")
    return Comment(int(data["id"]), str(author), str(data.get("body") or ""), "")


def _with_url(comment: Comment, url: str) -> Comment:
    return replace(comment, url=f"{url}#note_{comment.id}" if url else "")
