"""Port to a forge: the operations for reviews and proposed reverts, with their values and errors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from gitops.errors import GitopsError
from gitops.forge.commit_status import CommitStatus
from renderer.frozen import dataclass


class ForgeError(GitopsError):
    """Failure of a request to a forge. The text names the request and the reason. A later attempt may succeed."""


class ForgeRefused(ForgeError):
    """Failure of a request that will fail again until a person changes the token, a permission or the configuration."""


class ForgeNotFound(ForgeRefused):
    """Failure of a request for an object of the forge that does not exist or that the token may not read."""


class CommentTooLong(ForgeRefused):
    """Error of a comment that the forge refuses because of its form or its length."""


class TooManyItems(ForgeRefused):
    """Failure to read a list with too many pages. The field `items` contains the items of the first pages."""

    def __init__(self, text: str, items: Sequence[Any]) -> None:
        super().__init__(text)
        self.items = items


class RateLimited(ForgeError):
    """Refusal of a request because of a rate limit. The forge permits the next request at `until`."""

    def __init__(self, text: str, until: datetime) -> None:
        super().__init__(text)
        self.until = until


class PullState(StrEnum):
    """State of a pull request. Every forge distinguishes at least these states."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """Pull request, without its text."""

    number: int
    head: str
    """Id of the newest commit, or an empty string if the branch has no commit."""
    base: str
    """Name of the target branch."""
    state: PullState
    url: str


@dataclass(frozen=True, slots=True)
class Comment:
    """Comment on a pull request."""

    id: int
    author: str
    """User name of the author."""
    body: str
    """Text in Markdown."""
    url: str


class Forge(Protocol):
    """Repository at a forge. All methods raise ForgeError."""

    @property
    def max_comment_bytes(self) -> int:
        """Return the length of the longest comment that the forge accepts, in bytes of UTF-8."""

    def head_ref(self, number: int) -> str:
        """Return the Git ref of the head of a pull request."""

    async def get_login(self) -> str:
        """Return the user name of the account that owns the token."""

    def seal(self, text: str) -> str:
        """Return a seal of `text` that only a holder of the token can compute."""

    async def list_open_pulls(self) -> Sequence[PullRequest]:
        """Return all open pull requests. Raises: TooManyItems if the list has too many pages."""

    async def get_pull(self, number: int) -> PullRequest: ...

    async def list_comments(self, number: int) -> Sequence[Comment]: ...

    async def create_comment(self, number: int, body: str) -> Comment: ...

    async def edit_comment(self, number: int, comment: Comment, body: str) -> None: ...

    async def delete_comment(self, number: int, comment: Comment) -> None: ...

    async def set_status(self, status: CommitStatus) -> None:
        """Write a commit status. If the forge stores no status for the commit, do nothing."""

    async def get_default_branch(self) -> str: ...

    async def list_pulls_from(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests from `branch` of this repository, in any state. Ignore branches of forks."""

    async def create_pull(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        """Open a pull request from an existing branch into the branch `base`."""
