"""Keeps one comment and one state up to date on each open pull request. What a pull request holds is read from a bare repository, and never run.

One pull request that cannot be planned is told so, and keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from gitops.clock import Clock, any_of
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
from gitops.plan.isolated_process import PlanError, PlanRequest, planned_apart
from gitops.plan.report import Report
from gitops.pull_requests import comment as plan_comment
from gitops.pull_requests.comment import ReviewedCommits
from gitops.source import Mirror, Tip
from renderer.frozen import dataclass

STATE_NAME: Final = "levelgate/plan"
_SHORTER: Final = 4
"""A comment that the forge does not take is tried again so much shorter, twice."""

_Written = TypeVar("_Written")


@dataclass
class Reviewer:
    """Reviews the pull requests of one repository, which is one source. `notice` hears of every one: its number, and what was done."""

    forge: Forge
    mirror: Mirror
    source: str
    clock: Clock
    version: str
    notice: Callable[[int, str], None] = lambda _number, _text: None
    plan: Callable[[PlanRequest], Awaitable[Report]] = planned_apart
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    _login: str = ""
    _done: dict[int, tuple[ReviewedCommits, ReviewVerdict]] = field(default_factory=dict)

    async def one(self, number: int) -> bool:
        """Review one pull request now; whether it could be planned, without problems. Raises ForgeError."""
        pull = await self.forge.pull(number)
        if pull.state is not PullState.OPEN:
            await self._close(pull)
            return True
        return await self._review(pull, (await self._tips([pull]))[pull.base])

    async def all(self) -> bool:
        """Review all that are open, and say the last word on those that no longer are; whether all went well. Raises RateLimited, and ForgeError
        where the forge does not say which there are.
        """
        went_well = True
        try:
            pulls = await self.forge.open_pulls()
        except TooManyItems as cut:
            went_well, pulls = False, cut.found
            self.notice(0, f"{cut}; all others wait until some of these are closed")
        tips = await self._tips(pulls)
        await asyncio.to_thread(self.mirror.give_back, [self.forge.ref(pull.number) for pull in pulls])
        for pull in sorted(pulls, key=lambda one: one.number):
            went_well &= await self._guarded(pull.number, self._unless_done(pull, tips.get(pull.base, "")))
        for number in sorted(self._done.keys() - {pull.number for pull in pulls}):
            went_well &= await self._guarded(number, self._over(number))
        return went_well

    async def forever(self, interval: timedelta) -> None:
        """All of them, again and again, and at once when `woken` is set, until `stop` is. Limits of the forge are kept, whoever wakes it."""
        while not self.stop.is_set():
            rest, waking = interval, self.woken
            self.woken.clear()
            try:
                await self.all()
            except RateLimited as limited:
                self.notice(0, str(limited))
                rest, waking = max(interval, limited.until - self.clock.now()), self.stop
            except (ForgeError, SourceError) as error:
                self.notice(0, f"{error}; trying again")
            await any_of(self.clock.sleep(rest.total_seconds()), self.stop.wait(), waking.wait())

    async def _guarded(self, number: int, review: Awaitable[bool]) -> bool:
        """What is wrong with one is told, and the others are reviewed."""
        try:
            return await review
        except RateLimited:
            raise
        except (ForgeError, SourceError) as error:
            self.notice(number, str(error))
            return False

    async def _tips(self, pulls: Sequence[PullRequest]) -> dict[str, str]:
        """Where the branches stand that these are to be merged into."""
        names = sorted({pull.base for pull in pulls})
        refs = await asyncio.to_thread(self.mirror.refs, *(f"refs/heads/{name}" for name in names)) if names else {}
        return {name: refs.get(f"refs/heads/{name}", "") for name in names}

    async def _unless_done(self, pull: PullRequest, tip: str) -> bool:
        if done := self._done.get(pull.number):
            commits, judged = done
            if (commits.head, commits.tip) == (pull.head, tip):
                return judged is ReviewVerdict.SUCCESS
        return await self._review(pull, tip)

    async def _review(self, pull: PullRequest, tip: str) -> bool:
        if not tip:
            raise ForgeError(f"pull request {pull.number}: its target {pull.base!r} does not exist")
        refusal: RefusedContent | None = None
        try:
            commits = await asyncio.to_thread(self._commits, pull)
        except RefusedContent as error:
            commits, refusal = ReviewedCommits(pull.head, tip, tip), error
        found = await self._ours(pull.number)
        if found and (known := plan_comment.verdict_of(found[0].body, commits, self.forge.seal)):
            self._done[pull.number] = commits, known
            if known is not ReviewVerdict.SUCCESS:  # whoever ends with 1 says why
                self.notice(pull.number, f"{commits.head[:7]}  {known}, as its comment says")
            return known is ReviewVerdict.SUCCESS
        try:
            if refusal:
                raise refusal
            report = await self._plan(commits)
        except (PlanError, SourceError) as error:
            bodies = [plan_comment.refused(self.source, commits, str(error))]
            judged, text = ReviewVerdict.ERROR, "cannot be planned"
        else:
            judged, text = plan_comment.verdict(report), plan_comment.summary(report, commits)
            bodies = [
                plan_comment.written(report, commits, pull.base, limit=limit, version=self.version)
                for limit in self._limits
            ]
        await self._tell(pull, found, bodies, CommitStatus(commits.head, judged, f"{STATE_NAME} ({self.source})", text))
        self._done[pull.number] = commits, judged
        self.notice(pull.number, f"{commits.head[:7]}  {text}")
        return judged is ReviewVerdict.SUCCESS

    def _commits(self, pull: PullRequest) -> ReviewedCommits:
        """As Git says now, which may be newer than what the forge said. Blocks."""
        target, source = f"refs/heads/{pull.base}", self.forge.ref(pull.number)
        refs = self.mirror.refs(target, source)
        if missing := {target, source} - refs.keys():
            raise ForgeError(
                f"pull request {pull.number}: {' and '.join(sorted(missing))} does not exist in {self.mirror.target}"
            )
        tip = self.mirror.fetch(Tip(target, refs[target]))
        head = self.mirror.fetch(Tip(source, refs[source]), lent=True)
        return ReviewedCommits(head, self.mirror.merge_base(tip, head) or tip, tip)

    async def _plan(self, commits: ReviewedCommits) -> Report:
        base, head = await asyncio.to_thread(lambda: tuple(map(self.mirror.snapshot, (commits.base, commits.head))))
        return await self.plan(PlanRequest(self.source, self.mirror.target, base, head, self.clock, self.version))

    @property
    def _limits(self) -> Sequence[int]:
        """A comment that the forge does not take as it is is tried again shorter."""
        limit = self.forge.limit
        return limit, limit // _SHORTER, limit // _SHORTER**2

    async def _tell(self, pull: PullRequest, found: list[Comment], bodies: Sequence[str], status: CommitStatus) -> None:
        """The state, which links to the comment, comes before that is sealed: whoever is broken off between them begins again."""
        number = pull.number
        if not found:
            found = [await _first_taken(bodies, partial(self.forge.comment, number))]
        await self.forge.tell(replace(status, url=found[0].url or pull.url))
        sealed = [plan_comment.sealed(body, self.forge.seal) for body in bodies]
        if not await _first_taken(sealed, partial(self._edited, number, found[0])):
            await _first_taken(sealed, partial(self.forge.comment, number))
        for one in found[1:]:
            await self.forge.delete(number, one)

    async def _edited(self, number: int, comment: Comment, body: str) -> bool:
        """False where somebody has deleted it meanwhile."""
        try:
            await self.forge.edit(number, comment, body)
        except ForgeNotFound:
            return False
        return True

    async def _ours(self, number: int) -> list[Comment]:
        self._login = self._login or await self.forge.login()
        return plan_comment.ours(await self.forge.comments(number), self.source, self._login)

    async def _over(self, number: int) -> bool:
        pull = await self.forge.pull(number)
        if pull.state is not PullState.OPEN:
            await self._close(pull)
            self._done.pop(number, None)
        return True

    async def _close(self, pull: PullRequest) -> None:
        for one in (await self._ours(pull.number))[:1]:
            if (body := plan_comment.closed(one.body, pull.state)) != one.body:
                await self._edited(pull.number, one, body)
                self.notice(pull.number, str(pull.state))


async def _first_taken(bodies: Iterable[str], write: Callable[[str], Awaitable[_Written]]) -> _Written:
    """What writing the longest of these gives that the forge takes. Raises TooLong where it takes none."""
    *longer, last = bodies
    for body in longer:
        with suppress(CommentTooLong):
            return await write(body)
    return await write(last)
