"""Adapters for GitHub and Gitea. Gitea's interface is the same as GitHub's, except for a few names.

Sources: REST reference of GitHub ("Pulls", "Issue comments", "Commit statuses", "Best practices"); OpenAPI description
of Gitea.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from gitops.forge.commit_status import CommitStatus
from gitops.forge.port import Comment, PullRequest, PullState, TooManyItems
from gitops.forge.rest import Rest, ignore_response
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class GitHub:
    """Repository at GitHub."""

    rest: Rest
    project: str
    """Repository as `owner/name`."""
    configured_login: str
    """User name of the account that owns the token. If the field is empty, the adapter requests the name."""
    max_comment_bytes: ClassVar[int] = 65_536
    page_parameters: ClassVar[Mapping[str, int]] = {"per_page": 100}

    def head_ref(self, number: int) -> str:
        return f"refs/pull/{number}/head"

    async def get_login(self) -> str:
        return self.configured_login or await self.rest.get("/user", lambda user: str(user["login"]))

    def seal(self, text: str) -> str:
        return self.rest.seal(text)

    async def list_open_pulls(self) -> Sequence[PullRequest]:
        return await self.rest.get_pages(
            f"{self._project_path}/pulls", _parse_pull, state="open", **self.page_parameters
        )

    async def get_pull(self, number: int) -> PullRequest:
        return await self.rest.get(f"{self._project_path}/pulls/{number}", _parse_pull)

    async def list_comments(self, number: int) -> Sequence[Comment]:
        return await self.rest.get_pages(
            f"{self._project_path}/issues/{number}/comments", _parse_comment, **self.page_parameters
        )

    async def create_comment(self, number: int, body: str) -> Comment:
        return await self.rest.send(
            "POST", f"{self._project_path}/issues/{number}/comments", {"body": body}, _parse_comment
        )

    async def edit_comment(self, number: int, comment: Comment, body: str) -> None:
        await self.rest.send(
            "PATCH", f"{self._project_path}/issues/comments/{comment.id}", {"body": body}, ignore_response
        )

    async def delete_comment(self, number: int, comment: Comment) -> None:
        await self.rest.send("DELETE", f"{self._project_path}/issues/comments/{comment.id}", None, ignore_response)

    async def set_status(self, status: CommitStatus) -> None:
        await self.rest.send("POST", *status.github_request(self.project), ignore_response)

    async def get_default_branch(self) -> str:
        return await self.rest.get(self._project_path, lambda repository: str(repository["default_branch"]))

    async def list_pulls_from(self, branch: str) -> Sequence[PullRequest]:
        try:
            pulls = await self.rest.get_pages(
                f"{self._project_path}/pulls",
                lambda item: _parse_pull(item) if _is_from(item, self.project, branch) else None,
                state="all",
                head=f"{self.project.partition('/')[0]}:{branch}",
                **self.page_parameters,
            )
        except TooManyItems as cut:  # the list begins with the newest pull requests: only these matter
            pulls = list(cut.items)
        return [pull for pull in pulls if pull]

    async def create_pull(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        payload = {"head": branch, "base": base, "title": title, "body": body}
        return await self.rest.send("POST", f"{self._project_path}/pulls", payload, _parse_pull)

    @property
    def _project_path(self) -> str:
        return f"/repos/{self.project}"


@dataclass(frozen=True, slots=True)
class Gitea(GitHub):
    """Repository at Gitea or Forgejo. Both forges ignore the list filter `head`, so the adapter checks every item."""

    max_comment_bytes: ClassVar[int] = 262_144
    page_parameters: ClassVar[Mapping[str, int]] = {"limit": 50}


def _parse_pull(data: Mapping[str, Any]) -> PullRequest:
    merged_at = data.get("merged_at") or data.get("merged")
    state = PullState.OPEN if data["state"] == "open" else PullState.MERGED if merged_at else PullState.CLOSED
    head, base = str(data["head"]["sha"] or ""), str(data["base"]["ref"])
    return PullRequest(int(data["number"]), head, base, state, str(data.get("html_url") or ""))


def _parse_comment(data: Mapping[str, Any]) -> Comment:
    author = str((data.get("user") or {}).get("login", ""))
    return Comment(int(data["id"]), author, str(data.get("body") or ""), str(data.get("html_url") or ""))


def _is_from(data: Mapping[str, Any], project: str, branch: str) -> bool:
    """Return whether a pull request is from `branch` of the project, and not from a fork's branch of the same name."""
    head = data["head"]
    return head.get("ref") == branch and ((head.get("repo") or {}).get("full_name") or "").lower() == project.lower()
