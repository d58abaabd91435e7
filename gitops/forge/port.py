"""The place where pull requests are, as reviews and proposals need it: the port, its values, and what can go wrong there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from gitops.errors import GitopsError
from gitops.forge.commit_status import CommitStatus
from renderer.frozen import dataclass


class ForgeError(GitopsError):
    """The forge did not do what was asked; the text says what and why. Trying again later can help."""


class ForgeRefused(ForgeError):
    """It never will: somebody has to change a token, a permission, or what is asked for."""


class ForgeNotFound(ForgeRefused):
    """What was asked for does not exist, or may not be seen."""


class CommentTooLong(ForgeRefused):
    """The forge does not take a text of this form or length."""


class TooManyItems(ForgeRefused):
    """A list that is longer than anybody reads; `found` are the items that were read."""

    def __init__(self, text: str, items: Sequence[Any]) -> None:
        super().__init__(text)
        self.items = items


class RateLimited(ForgeError):
    """Nothing is to be asked before `until`."""

    def __init__(self, text: str, until: datetime) -> None:
        super().__init__(text)
        self.until = until


class PullState(StrEnum):
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """`head` is the commit that it stands at, `base` the name of the branch that it is to be merged into. What people wrote is not here."""

    number: int
    head: str
    base: str
    state: PullState
    url: str


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    author: str
    body: str
    url: str


class Forge(Protocol):
    """One repository at one forge. All methods raise ForgeError."""

    @property
    def max_comment_bytes(self) -> int:
        """The longest comment, in bytes of UTF-8."""

    def head_ref(self, number: int) -> str:
        """Where Git finds the head of a pull request."""

    async def get_login(self) -> str:
        """The name under which we write."""

    def seal(self, text: str) -> str:
        """What nobody can tell of a text who does not have our token."""

    async def list_open_pulls(self) -> Sequence[PullRequest]:
        """Raises TooManyItems."""

    async def get_pull(self, number: int) -> PullRequest: ...

    async def list_comments(self, number: int) -> Sequence[Comment]: ...

    async def create_comment(self, number: int, body: str) -> Comment: ...

    async def edit_comment(self, number: int, comment: Comment, body: str) -> None: ...

    async def delete_comment(self, number: int, comment: Comment) -> None: ...

    async def set_status(self, status: CommitStatus) -> None:
        """Say of a commit how it was judged, where the forge has a place for that."""

    async def get_default_branch(self) -> str: ...

    async def list_pulls_from(self, branch: str) -> Sequence[PullRequest]:
        """Those that ask to merge this branch of the repository itself, in any state."""

    async def create_pull(self, branch: str, base: str, *, title: str, body: str) -> PullRequest:
        """Ask to merge a branch that is there already."""
