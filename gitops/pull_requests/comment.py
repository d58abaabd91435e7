"""The one comment that is kept on a pull request: what stands in it beside the plan, and how it is known again.

Its second line says, for the program alone, which commits it was made of and how they were judged; so nothing is kept anywhere else, and nothing is
planned twice. It is sealed with the token: a text that somebody else has changed, who may edit what we wrote, does not count as made of anything.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable
from typing import Final

from gitops.forge.commit_status import ReviewVerdict
from gitops.forge.port import Comment, PullState
from gitops.plan import report_markdown
from gitops.plan.report import Report
from renderer.frozen import dataclass
from renderer.phrasing import counted

_STATE: Final = re.compile(r"^<!-- levelgate:state ([a-z0-9= ]*) -->[ \r]*$", re.MULTILINE)
_SEAL: Final = " seal="
_ROOM: Final = 800
"""Bytes for what stands beside the plan."""

Seal = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ReviewedCommits:
    """What a pull request is judged by: its `head`, the commit `base` where it parted from its target, and the target's `tip`."""

    head: str
    base: str
    tip: str

    @property
    def is_stale(self) -> bool:
        """Has the target gone on since?"""
        return self.base != self.tip

    def __str__(self) -> str:
        return f"head={self.head} base={self.base} tip={self.tip}"


def written(report: Report, commits: ReviewedCommits, target: str, *, limit: int, version: str) -> str:
    """The comment of a plan, of at most `limit` bytes."""
    kept = f"Replaced on every push; marked **stale** when {report_markdown.code(target)} goes on."
    text = report_markdown.comment(report, limit=limit - _ROOM, version=version, kept=kept)
    told = _stale(commits, target) if commits.is_stale else ""
    return _with(text, _judged(commits, verdict(report)), told)


def refused(source: str, commits: ReviewedCommits, why: str) -> str:
    """The comment where there is no plan."""
    title = f"### Levelgate plan: cannot be made · {report_markdown.code(source)}"
    text = "\n".join((report_markdown.marker(source), title, "", report_markdown.code(why)))
    return _with(text, _judged(commits, ReviewVerdict.ERROR), "")


def sealed(body: str, seal: Seal) -> str:
    """The same, so that it is known again."""
    return _STATE.sub(lambda found: f"<!-- levelgate:state {found[1]}{_SEAL}{seal(_content(body))} -->", body, count=1)


def closed(body: str, state: PullState) -> str:
    """The comment of a pull request that is over: what it says is not kept up to date any more."""
    if _said(body) == _over(state):
        return body
    plan = "\n".join(line for line in body.splitlines() if not _STATE.fullmatch(line))
    return _with(plan, _over(state), f"> {str(state).capitalize()}: this was the last plan.")


def ours(comments: Iterable[Comment], source: str, author: str) -> list[Comment]:
    """Those that we wrote for this source, the oldest first. Anybody can write our mark; nobody can write in our name."""
    first = report_markdown.marker(source)
    found = (one for one in comments if one.author.lower() == author.lower() and one.body.startswith(first))
    return sorted(found, key=lambda one: one.id)


def verdict_of(body: str, commits: ReviewedCommits, seal: Seal) -> ReviewVerdict | None:
    """How these commits were judged, if this comment was made of them and is as we wrote it."""
    state, _, told = _said(body).partition(_SEAL)
    plain = _STATE.sub(f"<!-- levelgate:state {state} -->", body, count=1)
    if not hmac.compare_digest(told, seal(_content(plain))):
        return None
    return next((one for one in ReviewVerdict if state == _judged(commits, one)), None)


def verdict(report: Report) -> ReviewVerdict:
    """How a head is judged that could be planned."""
    return ReviewVerdict.FAILURE if report.wrong else ReviewVerdict.SUCCESS


def summary(report: Report, commits: ReviewedCommits) -> str:
    """A few words for the state of the head."""
    if report.wrong:
        return counted(report.wrong, "problem")
    words = ("create", "update", "replace", "adopt", "release", "delete", "unknown")
    counts = [f"{report.summary[word]} {word}" for word in words if report.summary[word]]
    stale = "stale: " if commits.is_stale else ""
    return f"{stale}{', '.join(counts) or 'no changes'}"


def _said(body: str) -> str:
    match = _STATE.search(body)
    return match[1] if match else ""


def _content(body: str) -> str:
    """Without what forges do to the ends of lines."""
    return "\n".join(line.rstrip() for line in body.splitlines()).strip()


def _judged(commits: ReviewedCommits, verdict: ReviewVerdict) -> str:
    return f"{commits} verdict={verdict}"


def _over(state: PullState) -> str:
    return f"over={state}"


def _stale(commits: ReviewedCommits, target: str) -> str:
    base, tip = report_markdown.code(commits.base[:7]), report_markdown.code(commits.tip[:7])
    return (
        f"> **Stale**: {report_markdown.code(target)} has gone on to {tip} since {base}. "
        "Merge it in, or rebase, to see what would happen now."
    )


def _with(text: str, state: str, told: str) -> str:
    """The mark, the state, the title, and what is to be told below it, before the rest."""
    mark, title, *rest = (line for line in text.split("\n"))
    return "\n".join((mark, f"<!-- levelgate:state {state} -->", title, *(("", told) if told else ()), *rest))
