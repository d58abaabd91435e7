"""The one comment on a pull request: what stands beside the plan, and how it is known again (docs/review.md). On forges: test_reviewer.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from applier.state.structural_diff import FieldDiff
from gitops.forge.commit_status import ReviewVerdict
from gitops.forge.port import Comment, PullState
from gitops.plan.report import PlannedAction, PlannedChange, Report
from gitops.plan.report_markdown import GITHUB_COMMENT_LIMIT
from gitops.pull_requests import comment
from gitops.pull_requests.comment import ReviewedCommits
from renderer.errors import Problem
from renderer.identity import ObjectKey

COMMITS = ReviewedCommits("a" * 40, "b" * 40, "b" * 40)


def seal(text: str) -> str:
    return sha256(f"token {text}".encode()).hexdigest()[:32]


def change(number: int, action: PlannedAction = PlannedAction.UPDATE) -> PlannedChange:
    key = ObjectKey("", "ConfigMap", "prod", f"app-{number}")
    return PlannedChange(
        action, key, "ConfigMap", key._replace(kind="Link"), diff=(FieldDiff("data.a", number, "\u00fc" * 90),)
    )


def report(*changes: PlannedChange) -> Report:
    return Report("platform", "a" * 40, datetime(2026, 11, 20, 12, 5, tzinfo=UTC), "b" * 40, changes=changes)


def written(of: Report, commits: ReviewedCommits = COMMITS, target: str = "main") -> str:
    return comment.seal_comment(
        comment.format_plan_comment(of, commits, target, limit=GITHUB_COMMENT_LIMIT, version="1.2.3"), seal
    )


def test_all_of_it_is_within_the_limit_whatever_stands_beside_the_plan() -> None:
    """A target with a long name that has gone on."""
    body = written(report(*map(change, range(1000))), replace(COMMITS, tip="c" * 40), "\u00fc" * 120)
    assert "The comment leaves out" in body
    assert "> **Stale**: " in body
    assert GITHUB_COMMENT_LIMIT - 2_000 < len(body.encode()) <= GITHUB_COMMENT_LIMIT


def test_it_is_known_again_by_each_of_its_commits_and_as_it_was_written() -> None:
    body = written(report(change(1)))
    assert comment.verdict_of(body, COMMITS, seal) is ReviewVerdict.SUCCESS
    assert comment.verdict_of(body.replace("\n", "  \r\n") + "\r\n", COMMITS, seal) is ReviewVerdict.SUCCESS
    for other in ({"head": "d" * 40}, {"base": "d" * 40}, {"tip": "d" * 40}):
        assert comment.verdict_of(body, replace(COMMITS, **other), seal) is None
    assert comment.verdict_of(body.replace("1 update", "no changes"), COMMITS, seal) is None
    assert comment.verdict_of(body.replace("verdict=success", "verdict=failure"), COMMITS, seal) is None
    unsealed = comment.format_plan_comment(
        report(change(1)), COMMITS, "main", limit=GITHUB_COMMENT_LIMIT, version="1.2.3"
    )
    assert comment.verdict_of(unsealed, COMMITS, seal) is None
    assert comment.verdict_of(body, COMMITS, lambda text: seal(f"another {text}")) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"problems": (Problem("a.yaml", 1, "", "is wrong"),)}, "1 problem"),
        ({"changes": (change(1), change(2, PlannedAction.FAILED))}, "1 problem"),
        ({"changes": (change(1, PlannedAction.FAILED),), "problems": (Problem("a.yaml", 1, "", "x"),)}, "2 problems"),
    ],
)
def test_what_is_wrong_is_a_failure(wrong: dict[str, object], said: str) -> None:
    found = replace(report(), **wrong)  # type: ignore[arg-type]
    assert (comment.verdict(found), comment.summary(found, COMMITS)) == (ReviewVerdict.FAILURE, said)
    assert comment.verdict_of(written(found), COMMITS, seal) is ReviewVerdict.FAILURE


def test_the_state_says_what_happens_in_a_few_words() -> None:
    found = report(
        *(change(number, action) for number, action in enumerate(PlannedAction) if action is not PlannedAction.FAILED)
    )
    assert comment.summary(found, COMMITS) == "1 create, 1 update, 1 replace, 1 adopt, 1 release, 1 delete, 1 unknown"
    assert comment.summary(report(), replace(COMMITS, tip="c" * 40)) == "stale: no changes"
    assert comment.verdict(found) is ReviewVerdict.SUCCESS


def test_ours_are_those_that_begin_with_our_mark_and_that_we_wrote() -> None:
    body = written(report(change(1)))
    said = [
        Comment(3, "Bot", body, ""),
        Comment(1, "bot", body, ""),
        Comment(2, "mallory", body, ""),
        Comment(4, "bot", f"> {body}", ""),
        Comment(5, "bot", body.replace("platform", "other"), ""),
    ]
    assert [one.id for one in comment.own_comments(said, "platform", "bot")] == [1, 3]


def test_why_there_is_no_plan_means_nothing_but_itself() -> None:
    body = comment.seal_comment(comment.format_refusal("platform", COMMITS, "<b>@all</b> `x`"), seal)
    assert body.splitlines()[-1] == "`` <b>@all</b> `x` ``"
    assert comment.verdict_of(body, COMMITS, seal) is ReviewVerdict.ERROR


def test_the_last_word_is_said_once() -> None:
    body = written(report(change(1)))
    last = comment.close_comment(body, PullState.MERGED)
    assert last.splitlines()[1] == "<!-- levelgate:state over=merged -->"
    assert last.splitlines()[4] == "> Merged: this was the last plan."
    assert comment.close_comment(last, PullState.MERGED) == last
    assert comment.verdict_of(last, COMMITS, seal) is None
