"""The comment of a review: the text around the plan, and a hidden state line that a later run reads.

The second line of a comment is the state line, which contains the reviewed commits and their verdict. So a review needs
no other store, and does not plan the same commits twice. The state line has a seal: a keyed hash of the comment that
only a holder of the forge's token can compute. If another person edits the comment, the seal no longer matches, so the
next review plans the commits again.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final

from gitops.forge.commit_status import ReviewVerdict
from gitops.forge.port import Comment, PullState
from gitops.plan import report_markdown
from gitops.plan.report import Report
from renderer.frozen import dataclass
from renderer.phrasing import format_count

_STATE: Final = re.compile(r"^<!-- levelgate:state ([a-z0-9= ]*) -->[ \r]*$", re.MULTILINE)
_SEAL_KEY: Final = " seal="
_RESERVED_BYTES: Final = 800
"""Bytes of UTF-8 that a comment reserves for the text around the plan."""

Seal = Callable[[str], str]
"""Function that returns the seal of a text, which only a holder of the token can compute."""


@dataclass(frozen=True, slots=True)
class ReviewedCommits:
    """Commits of a review: the head of the pull request, the merge base, and the tip of the target branch."""

    head: str
    base: str
    tip: str

    @property
    def is_stale(self) -> bool:
        """Return whether the target branch has commits that the pull request lacks."""
        return self.base != self.tip

    def __str__(self) -> str:
        return f"head={self.head} base={self.base} tip={self.tip}"


def format_plan_comment(report: Report, commits: ReviewedCommits, target: str, *, limit: int, version: str) -> str:
    """Return the comment with a plan, of at most `limit` bytes of UTF-8.

    Args:
        target: target branch.
    """
    update_note = (
        f"Each push replaces this plan. When {report_markdown.format_code(target)} moves, "
        "Levelgate marks the plan as **stale**."
    )
    text = report_markdown.format_comment(
        report, limit=limit - _RESERVED_BYTES, version=version, update_note=update_note
    )
    stale_note = _stale_note(commits, target) if commits.is_stale else ""
    return _assemble(text, _judged_state(commits, verdict(report)), stale_note)


def format_refusal(source: str, commits: ReviewedCommits, message: str) -> str:
    """Return the comment for commits that Levelgate cannot plan.

    Args:
        message: reason why Levelgate cannot plan the commits.
    """
    title = f"### Levelgate plan: cannot be made · {report_markdown.format_code(source)}"
    text = "\n".join((report_markdown.marker(source), title, "", report_markdown.format_code(message)))
    return _assemble(text, _judged_state(commits, ReviewVerdict.ERROR), "")


def seal_comment(body: str, seal: Seal) -> str:
    """Return the comment with a seal in the state line."""
    return _STATE.sub(
        lambda match: f"<!-- levelgate:state {match[1]}{_SEAL_KEY}{seal(_content(body))} -->", body, count=1
    )


def close_comment(body: str, state: PullState) -> str:
    """Return the comment for a merged or closed pull request, with a note that its plan is the last."""
    if _state_text(body) == _closed_state(state):
        return body
    plan = "\n".join(line for line in body.splitlines() if not _STATE.fullmatch(line))
    return _assemble(plan, _closed_state(state), f"> {str(state).capitalize()}: this was the last plan.")


def own_comments(comments: Iterable[Comment], source: str, author: str) -> list[Comment]:
    """Return the comments that Levelgate wrote for a source, oldest first.

    The marker alone proves nothing, because any person can copy the marker. The name of the author is the proof.
    """
    mark = report_markdown.marker(source)
    return sorted(
        (comment for comment in comments if comment.author.lower() == author.lower() and comment.body.startswith(mark)),
        key=attrgetter("id"),
    )


def verdict_of(body: str, commits: ReviewedCommits, seal: Seal) -> ReviewVerdict | None:
    """Return the verdict in a comment, or None if the comment reviews different commits or has a wrong seal."""
    state, _, given_seal = _state_text(body).partition(_SEAL_KEY)
    unsealed = _STATE.sub(f"<!-- levelgate:state {state} -->", body, count=1)
    if not hmac.compare_digest(given_seal, seal(_content(unsealed))):
        return None
    return next((possible for possible in ReviewVerdict if state == _judged_state(commits, possible)), None)


def verdict(report: Report) -> ReviewVerdict:
    """Return the verdict of a plan."""
    return ReviewVerdict.FAILURE if report.problem_count else ReviewVerdict.SUCCESS


def summary(report: Report, commits: ReviewedCommits) -> str:
    """Return a short text for the commit status of the head."""
    if report.problem_count:
        return format_count(report.problem_count, "problem")
    words = ("create", "update", "replace", "adopt", "release", "delete", "unknown")
    counts = [f"{report.summary[word]} {word}" for word in words if report.summary[word]]
    stale = "stale: " if commits.is_stale else ""
    return f"{stale}{', '.join(counts) or 'no changes'}"


def _state_text(body: str) -> str:
    match = _STATE.search(body)
    return match[1] if match else ""


def _content(body: str) -> str:
    """Return the content of a comment that a seal covers, without trailing white space, which forges change."""
    return "\n".join(line.rstrip() for line in body.splitlines()).strip()


def _judged_state(commits: ReviewedCommits, verdict: ReviewVerdict) -> str:
    return f"{commits} verdict={verdict}"


def _closed_state(state: PullState) -> str:
    return f"over={state}"


def _stale_note(commits: ReviewedCommits, target: str) -> str:
    base, tip = report_markdown.format_code(commits.base[:7]), report_markdown.format_code(commits.tip[:7])
    return (
        f"> **Stale**: {report_markdown.format_code(target)} has moved to {tip} since {base}. "
        f"To see the current effect, merge {report_markdown.format_code(target)} or rebase."
    )


def _assemble(text: str, state: str, note: str) -> str:
    """Return the comment, with the state line below the marker and the note below the title."""
    mark, title, *remaining_lines = text.split("\n")
    return "\n".join(
        (mark, f"<!-- levelgate:state {state} -->", title, *(("", note) if note else ()), *remaining_lines)
    )
