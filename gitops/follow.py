"""Follow sources: fetch what moved, run passes while they change something, wait for what is in flight, wake by timer and by hint.

A source that cannot be fetched keeps its last good catalog; one that was never fetched is left out, which touches nothing of it. Servers are
asked for the sources that are due, each server once for all of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from applier.errors import ClusterError
from applier.reasons import Reason
from gitops.attention import Attention
from gitops.causes import blocked_rows
from gitops.clock import Clock
from gitops.compose import SourceConfig
from gitops.errors import SourceError
from gitops.history import accepted, objection
from gitops.known import Pass
from gitops.reconcile import Reconciler
from gitops.source import Mirror, Tip
from gitops.sources import SourceState, state_of
from gitops.sync import Requests, requests
from gitops.tally import is_on_its_way
from renderer.render import source_parent

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
    happens (None: never). `attention` watches what passes rest on. Once `stop` is set the round under way is finished and no
    other begins.
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
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _hinted: bool = False
    _moved: bool = False
    _due: set[str] = field(default_factory=set)
    _states: dict[str, SourceState] = field(default_factory=dict)
    _read_by: dict[str, Mirror] = field(default_factory=dict)
    _errors: dict[str, SourceError] = field(default_factory=dict)
    _stopped: str = ""
    _stays: Mapping[str, str] = field(default_factory=dict)
    _requested: Requests = field(default_factory=dict)
    _synced: Requests = field(default_factory=dict)

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> None:
        """Follow these from the next pass on. A source that is not among them is left out, which touches nothing of it; one with another mirror
        than before is read anew, and keeps what was read of it until that succeeds.
        """
        self.poll(*(name for name, mirror in mirrors.items() if self.mirrors.get(name) is not mirror))
        self.mirrors, self.configs = mirrors, configs
        self._errors = {name: error for name, error in self._errors.items() if name in mirrors}

    def poll(self, *names: str) -> None:
        """Ask the servers soon where these sources stand. What cannot be watched is looked at, too."""
        self._due |= set(names)
        self._hinted = self._hinted or (self.attention is not None and self.attention.is_blind)
        self._wake.set()

    async def fetch(self) -> list[SourceState]:
        """The newest readable state of every source, in the order of their names; who is not due is not asked for."""
        servers: dict[Hashable, dict[str, Mirror]] = {}
        self._due |= {name for name, state in self._states.items() if state.offer}
        for name in sorted(self._due & self.mirrors.keys()):
            mirror = self.mirrors[name]
            servers.setdefault(mirror.server, {})[name] = mirror
        self._due.clear()
        await asyncio.gather(*map(self._ask, servers.values()))
        self._answer(name for mirrors in servers.values() for name in mirrors)
        governors = frozenset(name for name, config in self.configs.items() if config.governs_all)
        states = {
            name: replace(state, synced=self._synced.get(name, {}))
            for name, state in sorted(self._states.items())
            if name in self.mirrors
        }
        return [
            state.configured(self.configs[name], governors) if name in self.configs else state
            for name, state in states.items()
        ]

    def _answer(self, asked: Iterable[str]) -> None:
        """People who want these sources to be looked at have been heard, where the server has answered."""
        for name in [one for one in asked if one in self._requested and one not in self._errors]:
            self._synced.setdefault(name, {}).update(self._requested.pop(name))
            self._moved = True

    def _heard(self, found: Pass) -> None:
        """Ask the servers of those sources that people want to be looked at."""
        for name, wanted in requests(found.plan.sets).items():
            known = {**self._synced.get(name, {}), **self._requested.get(name, {})}
            if not wanted.items() <= known.items():
                self._requested[name] = wanted
                self.poll(name)

    @property
    def errors(self) -> list[SourceError]:
        """Why sources could not be read at the last fetch."""
        return list(self._errors.values())

    async def once(self, *, wait: timedelta) -> Pass:
        """Passes until nothing changes any more and nothing is in flight, or until that has lasted for `wait`. All sources are asked, once."""
        self.poll(*self.mirrors)
        states = await self.fetch()
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
            if not (self._hinted or self._moved):
                await self._any(self._wake.wait())
                continue
            self._hinted = self._moved = False
            begun = self.clock.now()
            try:
                found = await self._pass(states)
            except ClusterError as error:
                self.notice("cluster", f"{error}; trying again")
                delay = min(max(delay * 2, 1.0), 60.0)
            else:
                self.wake_at(found.propagation.wake_at)
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
        self._heard(found)
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

    async def _ask(self, mirrors: Mapping[str, Mirror]) -> None:
        """Ask one server for all of these, and read what has moved."""
        names = sorted({name for mirror in mirrors.values() for name in mirror.wanted})
        try:
            refs = await asyncio.to_thread(next(iter(mirrors.values())).refs, *names)
        except SourceError as error:
            for name in mirrors:
                self._failed(name, error)
            return
        await asyncio.gather(*(self._fetch(name, mirror, refs) for name, mirror in mirrors.items()))

    async def _fetch(self, name: str, mirror: Mirror, refs: Mapping[str, str]) -> None:
        known = self._states.get(name)
        try:
            tip = mirror.tip(refs)
            if known is None or known.catalog.revision != tip.commit or self._read_by[name] is not mirror:
                await self._go_to(name, mirror, tip, known)
            self._errors.pop(name, None)
        except SourceError as error:
            self._failed(name, error)
        except ClusterError:
            self._due.add(name)  # the pass will say what is wrong with the cluster

    async def _go_to(self, name: str, mirror: Mirror, tip: Tip, known: SourceState | None) -> None:
        """Read the commit, unless it takes a person's word to go there: then what was read last stays."""
        record = await self.reconciler.cluster.get(source_parent(name))
        is_new = known is None or self._read_by[name] is not mirror
        before = accepted(record, mirror.target) if known is None else "" if is_new else known.catalog.revision
        commit = await asyncio.to_thread(mirror.fetch, tip)
        offer = await asyncio.to_thread(objection, mirror, before, commit, record)
        if offer and known and known.offer == offer:
            return
        advice = f"to go there: levelgate approve source/{name} --commit {commit[:12]}"
        if offer is None or known is None:
            try:
                snapshot = await asyncio.to_thread(mirror.snapshot, before if offer else commit)
            except SourceError:
                if offer is None:
                    raise
                raise SourceError(str(mirror.target), offer.why, advice=advice) from None
            known = state_of(name, mirror.target, snapshot, known.catalog if known else None)
            self.notice(name, f"{snapshot.revision[:7]}  {snapshot.subject}")
        if offer:
            self.notice(name, f"HELD: {offer.why}; {advice}")
        self._read_by[name], self._moved = mirror, True
        self._states[name] = replace(known, offer=offer)

    def _failed(self, name: str, error: SourceError) -> None:
        if str(error) != str(self._errors.get(name, "")):
            kept = "; going on with what was read last" if name in self._states else ""
            self.notice(name, f"cannot be read: {error}{kept}")
        self._errors[name] = error


def is_refused(found: Pass) -> bool:
    """Has the cluster refused something that it may accept later, such as a write beyond a quota?"""
    causes = (cause for one in found.plan.sets for _, cause, _ in blocked_rows(one))
    return any(cause.reason is Reason.APPLY_FAILED for cause in causes)


def in_flight(found: Pass) -> bool:
    """Is something on its way that time alone will bring, or that only a fresh look can tell?"""
    return any(map(is_on_its_way, found.plan.sets)) or any(
        orphan.allowed or orphan.member.terminating for one in found.plan.sets for orphan in one.orphans
    )
