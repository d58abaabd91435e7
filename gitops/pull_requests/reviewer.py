"""Reviews of pull requests. Each pull request has one comment and one commit status, which reviews update.

The reviewer reads the content of a pull request from a bare repository, and never executes the content. If the reviewer
cannot plan a pull request, its comment contains the reason, and the reviews of all other pull requests continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from gitops.clock import Clock, wait_for_any
from gitops.errors import RefusedContent, SourceError
from gitops.forge.commit_status import CommitStatus, ReviewVerdict
from gitops.forge.port import (
    Comment,
    CommentTooLong,
    Forge,
    ForgeError,
    ForgeNotFound,
    PullRequest,
    PullState,
    RateLimited,
    TooManyItems,
)
from gitops.plan.isolated_process import PlanError, PlanRequest, compute_plan_isolated
from gitops.plan.report import Report
from gitops.pull_requests.comment import (
    ReviewedCommits,
    close_comment,
    format_plan_comment,
    format_refusal,
    own_comments,
    seal_comment,
    summary,
    verdict,
    verdict_of,
)
from gitops.source import Mirror, Tip
from renderer.frozen import dataclass

STATUS_NAME: Final = "levelgate/plan"
_SHORTENING_FACTOR: Final = 4
"""Divisor for the length of a comment that the forge refuses, used for each of at most two further attempts."""

_Written = TypeVar("_Written")


@dataclass
class Reviewer:
    """Reviewer of the pull requests of one repository. Each plan treats the repository as one source."""

    forge: Forge
    mirror: Mirror
    source: str
    clock: Clock
    version: str
    cluster_name: str
    notice: Callable[[int, str], None] = lambda _number, _text: None
    """Function that receives the result of each review, as (number, text). Number 0 stands for all pull requests."""
    plan: Callable[[PlanRequest], Awaitable[Report]] = compute_plan_isolated
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that ends the loop of `run`."""
    triggered: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that starts the next review at once."""
    _login: str = ""
    _done: dict[int, tuple[ReviewedCommits, ReviewVerdict]] = field(default_factory=dict)

    async def review_one(self, number: int) -> bool:
        """Review a pull request, and return whether it is closed or its verdict is success. Raises: ForgeError."""
        pull = await self.forge.get_pull(number)
        if pull.state is not PullState.OPEN:
            await self._close(pull)
            return True
        return await self._review(pull, (await self._target_tips([pull]))[pull.base])

    async def review_all(self) -> bool:
        """Review all open pull requests, and return whether all reviews succeeded.

        The method adds a note to the comments of closed and merged pull requests.

        Raises: RateLimited if the forge permits no request, ForgeError if the forge does not list the pull requests.
        """
        succeeded = True
        try:
            pulls = await self.forge.list_open_pulls()
        except TooManyItems as cut:
            succeeded, pulls = False, cut.items
            self.notice(0, f"{cut}; close some pull requests, so that Levelgate can review the others")
        tips = await self._target_tips(pulls)
        await asyncio.to_thread(self.mirror.release_temporary, [self.forge.head_ref(pull.number) for pull in pulls])
        for pull in sorted(pulls, key=lambda pull_request: pull_request.number):
            succeeded &= await self._report_errors(pull.number, self._review_if_changed(pull, tips.get(pull.base, "")))
        for number in sorted(self._done.keys() - {pull.number for pull in pulls}):
            succeeded &= await self._report_errors(number, self._close_if_ended(number))
        return succeeded

    async def run(self, interval: timedelta) -> None:
        """Review all pull requests in a loop until `stop` is set. `triggered` ends a pause, but not a rate limit."""
        while not self.stop.is_set():
            pause, wake_event = interval, self.triggered
            self.triggered.clear()
            try:
                await self.review_all()
            except RateLimited as limited:
                self.notice(0, str(limited))
                pause, wake_event = max(interval, limited.until - self.clock.now()), self.stop
            except (ForgeError, SourceError) as error:
                self.notice(0, f"{error}; trying again")
            await wait_for_any(self.clock.sleep(pause.total_seconds()), self.stop.wait(), wake_event.wait())

    async def _report_errors(self, number: int, review: Awaitable[bool]) -> bool:
        """Return the result of the review of one pull request, or report its failure and return false.

        A failure does not stop the reviews of the other pull requests. Raises: RateLimited.
        """
        try:
            return await review
        except RateLimited:
            raise
        except (ForgeError, SourceError) as error:
            self.notice(number, str(error))
            return False

    async def _target_tips(self, pulls: Sequence[PullRequest]) -> dict[str, str]:
        """Return the tip of each target branch, by the branch's name. If a branch does not exist, its tip is empty."""
        names = sorted({pull.base for pull in pulls})
        refs = (
            await asyncio.to_thread(self.mirror.list_refs, *(f"refs/heads/{name}" for name in names)) if names else {}
        )
        return {name: refs.get(f"refs/heads/{name}", "") for name in names}

    async def _review_if_changed(self, pull: PullRequest, tip: str) -> bool:
        if reviewed := self._done.get(pull.number):
            commits, known_verdict = reviewed
            if (commits.head, commits.tip) == (pull.head, tip):
                return known_verdict is ReviewVerdict.SUCCESS
        return await self._review(pull, tip)

    async def _review(self, pull: PullRequest, tip: str) -> bool:
        """Review a pull request, unless its comment already contains the verdict on the same commits.

        Raises: ForgeError if the target branch does not exist, SourceError if a fetch of the commits fails.
        """
        if not tip:
            raise ForgeError(
                f"pull request {pull.number}: its target branch {pull.base!r} does not exist; change the target"
            )
        refusal: RefusedContent | None = None
        try:
            commits = await asyncio.to_thread(self._resolve_commits, pull)
        except RefusedContent as error:
            # Without the head's commits there is no merge base. The refusal still becomes the verdict for this head, so
            # that the next review does not fetch the head again.
            commits, refusal = ReviewedCommits(pull.head, tip, tip), error
        comments = await self._own_comments(pull.number)
        if comments and (known_verdict := verdict_of(comments[0].body, commits, self.forge.seal)):
            self._done[pull.number] = commits, known_verdict
            if known_verdict is not ReviewVerdict.SUCCESS:  # the command exits 1 and prints why
                self.notice(pull.number, f"{commits.head[:7]}  {known_verdict}, as in its comment")
            return known_verdict is ReviewVerdict.SUCCESS
        try:
            if refusal:
                raise refusal
            report = await self._plan(commits)
        except (PlanError, SourceError) as error:
            bodies = [format_refusal(self.source, commits, str(error))]
            new_verdict, text = ReviewVerdict.ERROR, "cannot be planned"
        else:
            new_verdict, text = verdict(report), summary(report, commits)
            bodies = [
                format_plan_comment(report, commits, pull.base, limit=limit, version=self.version)
                for limit in self._limits
            ]
        await self._publish(
            pull, comments, bodies, CommitStatus(commits.head, new_verdict, f"{STATUS_NAME} ({self.source})", text)
        )
        self._done[pull.number] = commits, new_verdict
        self.notice(pull.number, f"{commits.head[:7]}  {text}")
        return new_verdict is ReviewVerdict.SUCCESS

    def _resolve_commits(self, pull: PullRequest) -> ReviewedCommits:
        """Fetch the commits of a review, which may be newer than the commits in the forge's answer. This method blocks.

        Raises: ForgeError if the head or the target does not exist, SourceError if a fetch fails.
        """
        target, source = f"refs/heads/{pull.base}", self.forge.head_ref(pull.number)
        refs = self.mirror.list_refs(target, source)
        if missing := {target, source} - refs.keys():
            raise ForgeError(
                f"pull request {pull.number}: {self.mirror.target} has no {' and no '.join(sorted(missing))}; "
                "check these branches"
            )
        tip = self.mirror.fetch(Tip(target, refs[target]))
        head = self.mirror.fetch(Tip(source, refs[source]), temporary=True)
        return ReviewedCommits(head, self.mirror.find_merge_base(tip, head) or tip, tip)

    async def _plan(self, commits: ReviewedCommits) -> Report:
        base, head = await asyncio.to_thread(
            lambda: tuple(map(self.mirror.read_snapshot, (commits.base, commits.head)))
        )
        return await self.plan(
            PlanRequest(self.source, self.mirror.target, base, head, self.clock, self.version, self.cluster_name)
        )

    @property
    def _limits(self) -> Sequence[int]:
        """Return the size limits of the attempts to write a comment, in bytes of UTF-8. The largest limit is first."""
        limit = self.forge.max_comment_bytes
        return limit, limit // _SHORTENING_FACTOR, limit // _SHORTENING_FACTOR**2

    async def _publish(
        self, pull: PullRequest, comments: list[Comment], bodies: Sequence[str], status: CommitStatus
    ) -> None:
        """Write the comment and the commit status.

        The method writes the comment first, because the status links to the comment. The method writes the seal last.
        If the process ends before the seal, the comment stays unsealed, so the next review starts again.
        """
        number = pull.number
        if not comments:
            comments = [await _write_longest_accepted(bodies, partial(self.forge.create_comment, number))]
        await self.forge.set_status(replace(status, url=comments[0].url or pull.url))
        sealed_bodies = [seal_comment(body, self.forge.seal) for body in bodies]
        if not await _write_longest_accepted(sealed_bodies, partial(self._edit, number, comments[0])):
            await _write_longest_accepted(sealed_bodies, partial(self.forge.create_comment, number))
        for duplicate in comments[1:]:
            await self.forge.delete_comment(number, duplicate)

    async def _edit(self, number: int, comment: Comment, body: str) -> bool:
        """Edit a comment. If the comment no longer exists, return False."""
        try:
            await self.forge.edit_comment(number, comment, body)
        except ForgeNotFound:
            return False
        return True

    async def _own_comments(self, number: int) -> list[Comment]:
        self._login = self._login or await self.forge.get_login()
        return own_comments(await self.forge.list_comments(number), self.source, self._login)

    async def _close_if_ended(self, number: int) -> bool:
        pull = await self.forge.get_pull(number)
        if pull.state is not PullState.OPEN:
            await self._close(pull)
            self._done.pop(number, None)
        return True

    async def _close(self, pull: PullRequest) -> None:
        for comment in (await self._own_comments(pull.number))[:1]:
            if (body := close_comment(comment.body, pull.state)) != comment.body:
                await self._edit(pull.number, comment, body)
                self.notice(pull.number, str(pull.state))


async def _write_longest_accepted(bodies: Iterable[str], write: Callable[[str], Awaitable[_Written]]) -> _Written:
    """Write the longest text in `bodies` that the forge accepts, and return the result.

    Raises: CommentTooLong if the forge accepts no text.
    """
    *longer, last = bodies
    for body in longer:
        with suppress(CommentTooLong):
            return await write(body)
    return await write(last)
