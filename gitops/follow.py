"""Follow sources: fetch what moved, run passes while they change something, wait for what is in flight, wake by timer and by hint.

A source that cannot be fetched keeps its last good catalog; one that was never fetched is left out, which touches nothing of it. Servers are
asked for the sources that are due, each server once for all of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from applier.errors import ClusterError
from applier.reasons import Reason
from gitops.attention import Attention
from gitops.causes import blocked_rows
from gitops.clock import Clock
from gitops.compose import SourceConfig
from gitops.errors import SourceError
from gitops.fetching import Fetcher
from gitops.known import Pass
from gitops.reconcile import Reconciler
from gitops.source import Mirror
from gitops.sources import SourceState
from gitops.stages import Stage, untold
from gitops.tally import is_on_its_way

FIRST_LOOK = 0.05
"""Seconds before the first look at what is in flight; each look without a change waits twice as long, up to `LAST_LOOK`."""

LAST_LOOK = 5.0
LAST_LOOK_WATCHED = 60.0
"""The same where a watch tells when something has come further."""

LONGEST_REST = 5.0
"""Seconds between two passes that change nothing, however long they take."""

MAX_PASSES = 500
"""`once` gives up after so many passes: somebody else changes back what it writes."""


@dataclass
class Follower:
    """The sources of one cluster; `configs` is what the configuration says of them, where it says more than where they are.

    `notice` hears of commits and of what cannot be read, `passed` of every pass, and `wake_at` of when the next one is due although nothing else
    happens (None: never). `attention` watches what passes rest on, `stage` hears of what is asked of Git. Once `stop` is set the round under way
    is finished and no other begins.
    """

    mirrors: Mapping[str, Mirror]
    reconciler: Reconciler
    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    notice: Callable[[str, str], None] = lambda _source, _text: None
    passed: Callable[[Pass], None] = lambda _: None
    wake_at: Callable[[datetime | None], None] = lambda _: None
    configs: Mapping[str, SourceConfig] = field(default_factory=dict)
    attention: Attention | None = None
    stage: Stage = untold
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _hinted: bool = False
    _stopped: str = ""
    _stays: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def notice(source: str, text: str) -> None:
            self.notice(source, text)

        self._fetcher = Fetcher(self.mirrors, self.configs, self.reconciler.cluster, self.clock, notice, self.stage)

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> None:
        """Follow these from the next pass on. A source that is not among them is left out, which touches nothing of it; one with another mirror
        than before is read anew, and keeps what was read of it until that succeeds.
        """
        self.poll(*self._fetcher.configure(mirrors, configs))
        self.mirrors, self.configs = mirrors, configs

    def poll(self, *names: str) -> None:
        """Ask the servers soon where these sources stand. What cannot be watched is looked at, too."""
        self._fetcher.ask(names)
        self._hinted = self._hinted or (self.attention is not None and self.attention.is_blind)
        self._wake.set()

    async def fetch(self) -> list[SourceState]:
        """The newest readable state of every source, in the order of their names; who is not due is not asked for."""
        return await self._fetcher.fetch()

    @property
    def errors(self) -> Mapping[str, SourceError]:
        """Why sources could not be read at the last fetch, by their names."""
        return dict(self._fetcher.errors)

    @property
    def unread(self) -> list[str]:
        """Sources of which nothing has been read since the start."""
        return self._fetcher.unread

    async def once(
        self, *, wait: timedelta, insist: Callable[[SourceState], Coroutine[None, None, None]] | None = None
    ) -> Pass:
        """Passes until nothing changes any more and nothing is in flight, or until that has lasted for `wait`. All sources are asked, once.

        `insist` raises where a source may not be worked on as it is now.
        """
        self.poll(*self.mirrors)
        states = await self.fetch()
        if insist:
            for state in states:
                await insist(state)
        waited, delay = 0.0, FIRST_LOOK
        for _ in range(MAX_PASSES):
            found = self._told(await self.reconciler.reconcile(states))
            if found.changed:
                waited, delay = 0.0, FIRST_LOOK
            elif not in_flight(found) or waited >= wait.total_seconds():
                return found
            if self.stop.is_set():
                return found
            await self._any(self.clock.sleep(delay))
            waited += delay
            delay = min(delay * 2, LAST_LOOK, max(FIRST_LOOK, wait.total_seconds() - waited))
        return found

    def hint(self) -> None:
        """Run a pass soon: something has changed, or may have."""
        self._hinted = True
        self._wake.set()

    async def forever(self) -> None:
        """A pass at the start, at every hint, when a source has moved, and while something is in flight, until `stop` is set. All sources are asked
        at the start, after that those that `poll` names.
        """
        self.poll(*self.mirrors)
        self._hinted, delay = True, FIRST_LOOK
        while not self.stop.is_set():
            self._wake.clear()
            states = await self.fetch()
            if not (self._hinted or self._fetcher.has_moved):
                await self._any(self._wake.wait())
                continue
            self._hinted = self._fetcher.has_moved = False
            begun = self.clock.now()
            try:
                found = await self._pass(states)
            except ClusterError as error:
                self.notice("cluster", f"{error}; trying again")
                delay = min(max(delay * 2, 1.0), 60.0)
            else:
                self.wake_at(min(filter(None, (found.propagation.wake_at, self._fetcher.wake_at)), default=None))
                if not found.changed:
                    # At most half of the time goes into passes; what others do meanwhile is one hint.
                    await self._rest((self.clock.now() - begun).total_seconds())
                if not found.changed and not (in_flight(found) or is_refused(found)):
                    delay = FIRST_LOOK
                    continue
                delay = FIRST_LOOK if found.changed else min(delay * 2, self._last_look)
            await self._any(self._wake.wait(), self.clock.sleep(delay))
            self._hinted = True

    async def _pass(self, states: list[SourceState]) -> Pass:
        if self.attention is None:
            return self._told(await self.reconciler.reconcile(states))
        self.attention.before()
        found = None
        try:
            found = await self.reconciler.reconcile(states)
        finally:
            await self.attention.after(found)
        return self._told(found)

    async def _rest(self, seconds: float) -> None:
        if seconds > 0:
            await self._any(self.clock.sleep(min(seconds, LONGEST_REST)))

    @property
    def _last_look(self) -> float:
        """What is watched tells itself when it has come further."""
        return LAST_LOOK if self.attention is None or self.attention.is_blind else LAST_LOOK_WATCHED

    def _told(self, found: Pass) -> Pass:
        """Tell how a pass ended, when a person has stopped everything or lets it go on, and why nothing of a source is written."""
        stopped = found.propagation.stopped.message if found.propagation.stopped else ""
        if stopped != self._stopped:
            self.notice("cluster", stopped or "no longer suspended")
        self._stopped = stopped
        stays = {
            one.rendered.source: one.error.message
            for one in found.plan.sets
            if one.rendered.is_source and one.error and not stopped
        }
        for source, why in stays.items():
            if self._stays.get(source) != why:
                self.notice(source, why)
        self._stays = stays
        if due := self._fetcher.heard(found):
            self.poll(*due)
        self.passed(found)
        return found

    async def _any(self, *awaited: Coroutine[None, None, object]) -> None:
        """Until one of these is over, or `stop` is set."""
        tasks = [asyncio.ensure_future(one) for one in (*awaited, self.stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()


def is_refused(found: Pass) -> bool:
    """Has the cluster refused something that it may accept later, such as a write beyond a quota?"""
    causes = (cause for one in found.plan.sets for _, cause, _ in blocked_rows(one))
    return any(cause.reason is Reason.APPLY_FAILED for cause in causes)


def in_flight(found: Pass) -> bool:
    """Is something on its way that time alone will bring, or that only a fresh look can tell?"""
    return any(map(is_on_its_way, found.plan.sets)) or any(
        orphan.allowed or orphan.member.terminating for one in found.plan.sets for orphan in one.orphans
    )
