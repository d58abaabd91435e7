"""The state of a commit as each forge takes it."""

from __future__ import annotations

import pytest

from gitops.forge.commit_status import CommitStatus, ReviewVerdict


@pytest.mark.parametrize(
    ("verdict", "at_gitlab"),
    [("success", "success"), ("failure", "failed"), ("error", "failed"), ("pending", "pending")],
)
def test_a_verdict_is_told_in_the_words_of_the_forge(verdict: str, at_gitlab: str) -> None:
    status = CommitStatus("a" * 40, ReviewVerdict(verdict), "levelgate/plan", "text")
    assert status.github_request("acme/shop") == (
        f"/repos/acme/shop/statuses/{'a' * 40}",
        {"state": verdict, "context": "levelgate/plan", "description": "text"},
    )
    assert status.gitlab_request("acme/teams/shop") == (
        f"/projects/acme%2Fteams%2Fshop/statuses/{'a' * 40}",
        {"state": at_gitlab, "name": "levelgate/plan", "description": "text"},
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_text_is_as_long_as_the_forge_takes_it(more: int) -> None:
    """Of a longer one the end is left out, and that is seen."""
    for most, form in ((140, CommitStatus.github_request), (255, CommitStatus.gitlab_request)):
        _, body = form(CommitStatus("a", ReviewVerdict.SUCCESS, "n", "x" * (most + more)), "acme/shop")
        assert body["description"] == ("x" * (most - 1) + "\u2026" if more else "x" * most)
