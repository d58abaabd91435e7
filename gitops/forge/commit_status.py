"""Commit statuses: the verdict on a commit, and the requests that write this verdict to each forge.

Sources: GitHub, REST API, "Create a commit status". Gitea accepts the same request. GitLab, Commits API, "Set commit
pipeline status".
"""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import quote

from gitops.text import truncate
from renderer.frozen import dataclass


class ReviewVerdict(StrEnum):
    """Verdict on a commit. The values are GitHub's states of a commit status."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    PENDING = "pending"


_GITLAB_STATES = {ReviewVerdict.FAILURE: "failed", ReviewVerdict.ERROR: "failed"}
_MAX_GITHUB_CHARACTERS, _MAX_GITLAB_CHARACTERS = 140, 255
"""Maximum numbers of characters that GitHub and GitLab accept in the description of a status."""


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """Verdict on a commit, under a name that only Levelgate uses."""

    commit: str
    verdict: ReviewVerdict
    name: str
    text: str
    url: str = ""
    """URL of a page with details, or an empty string."""

    def github_request(self, project: str) -> tuple[str, dict[str, str]]:
        """Return the path and body of the request to GitHub or Gitea.

        Args:
            project: project in the form `owner/name`.
        """
        return f"/repos/{project}/statuses/{self.commit}", self._with_link(
            {
                "state": str(self.verdict),
                "context": self.name,
                "description": truncate(self.text, _MAX_GITHUB_CHARACTERS),
            }
        )

    def gitlab_request(self, project: str) -> tuple[str, dict[str, str]]:
        """Return the path and body of the request to GitLab.

        Args:
            project: full path of the project, with groups.
        """
        state = _GITLAB_STATES.get(self.verdict, str(self.verdict))
        body = {"state": state, "name": self.name, "description": truncate(self.text, _MAX_GITLAB_CHARACTERS)}
        return f"/projects/{quote(project, safe='')}/statuses/{self.commit}", self._with_link(body)

    def _with_link(self, body: dict[str, str]) -> dict[str, str]:
        return {**body, **({"target_url": self.url} if self.url else {})}
