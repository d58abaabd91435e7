"""The state of a commit, as each forge takes it: the path below its API, and the body.

Sources: GitHub, REST API, "Create a commit status", whose words and path Gitea takes as well; GitLab, Commits API, "Set commit pipeline status".
"""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import quote

from gitops.text import truncate
from renderer.frozen import dataclass


class ReviewVerdict(StrEnum):
    """In GitHub's words."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    PENDING = "pending"


_GITLAB_STATES = {ReviewVerdict.FAILURE: "failed", ReviewVerdict.ERROR: "failed"}
_MAX_GITHUB_CHARACTERS, _MAX_GITLAB_CHARACTERS = 140, 255
"""Characters of a description."""


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """How `commit` was judged, under a `name` that is ours; `url` leads to more, where there is more."""

    commit: str
    verdict: ReviewVerdict
    name: str
    text: str
    url: str = ""

    def github_request(self, project: str) -> tuple[str, dict[str, str]]:
        """`project` is `owner/name`."""
        return f"/repos/{project}/statuses/{self.commit}", self._with_link(
            {
                "state": str(self.verdict),
                "context": self.name,
                "description": truncate(self.text, _MAX_GITHUB_CHARACTERS),
            }
        )

    def gitlab_request(self, project: str) -> tuple[str, dict[str, str]]:
        """`project` is the full path of the project, groups included."""
        state = _GITLAB_STATES.get(self.verdict, str(self.verdict))
        body = {"state": state, "name": self.name, "description": truncate(self.text, _MAX_GITLAB_CHARACTERS)}
        return f"/projects/{quote(project, safe='')}/statuses/{self.commit}", self._with_link(body)

    def _with_link(self, body: dict[str, str]) -> dict[str, str]:
        return {**body, **({"target_url": self.url} if self.url else {})}
