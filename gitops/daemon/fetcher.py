"""What is read of the sources: servers are asked for those that are due, each server once for all of these, and a commit is taken that may be taken.

A source that cannot be fetched keeps its last good catalog, after a start the one that was accepted, where the copy still has it; otherwise it is
left out, which touches nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime

from applier.cluster import Cluster
from applier.errors import ClusterError
from gitops.clock import Clock
from gitops.daemon.commit_acceptance import CommitAcceptance
from gitops.daemon.doors import GitServerLimits
from gitops.daemon.git_servers import GitServerBackoff
from gitops.daemon.source_records import SourceRecords, alike
from gitops.errors import RevisionNotFound, SourceError, Stopped
from gitops.instrumentation import Stage, no_stage
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.source_acceptance import AcceptedCommit, accepted
from gitops.reconcile.sources import SourceState, state_of
from gitops.records.source_record import SourceRecord
from gitops.records.source_requests import Pin
from gitops.records.sync import Requests, requests
from gitops.source import Mirror, Tip, VersionRef
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass


@dataclass
class Fetcher:
    """The sources of one cluster. `notice` hears of commits and of what cannot be read. `has_moved`: something was read since a pass was run.
    `stage` hears of what is asked of Git.
    """

    mirrors: Mapping[str, Mirror]
    configs: Mapping[str, SourceConfig]
    cluster: Cluster
    cluster_name: str
    clock: Clock
    notice: Callable[[str, str], None]
    stage: Stage = no_stage
    has_moved: bool = False
    errors: dict[str, SourceError] = field(default_factory=dict)
    _due: set[str] = field(default_factory=set)
    _asking: set[str] = field(default_factory=set)
    _states: dict[str, SourceState] = field(default_factory=dict)
    _read_by: dict[str, Mirror] = field(default_factory=dict)
    _requested: Requests = field(default_factory=dict)
    _synced: Requests = field(default_factory=dict)
    _patience: GitServerBackoff = field(default_factory=GitServerBackoff)
    _doors: GitServerLimits = field(default_factory=GitServerLimits)

    def __post_init__(self) -> None:
        self._records = SourceRecords(self.cluster, self.clock)

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> set[str]:
        """Read these from now on; answers which of them are to be read anew."""
        new = {name for name, mirror in mirrors.items() if self.mirrors.get(name) is not mirror}
        self.mirrors, self.configs = mirrors, configs
        self.errors = {name: error for name, error in self.errors.items() if name in mirrors}
        return new

    def ask(self, names: Iterable[str]) -> None:
        """They are due."""
        self._due |= set(names)

    async def fetch(self) -> list[SourceState]:
        """The newest readable state of every source, in the order of their names; who is not due is not asked for."""
        await asyncio.gather(*self.begin())
        return self.states

    def begin(self) -> list[Coroutine[None, None, None]]:
        """What is to be asked now, each server apart: one that hangs keeps its own sources waiting and no others. Who is still being asked stays due.
        Each of them has to be awaited.
        """
        self._due &= self.mirrors.keys()
        servers: dict[Hashable, dict[str, Mirror]] = {}
        for name in sorted(self._due - self._asking):
            servers.setdefault(self.mirrors[name].server, {})[name] = self.mirrors[name]
        found = [self._look(together) for together in servers.values()]
        for together in servers.values():
            self._due -= together.keys()
            self._asking |= together.keys()
        return found

    async def _look(self, due: Mapping[str, Mirror]) -> None:
        """Ask one server for all of these, but for those that are pinned."""
        try:
            requested = {name: self._requested[name] for name in due.keys() & self._requested.keys()}
            await self._records.learn(due)
            pinned = {name: pin for name in due if (pin := self._records.pin(name))}
            now, free = self.clock.now(), {name: mirror for name, mirror in due.items() if name not in pinned}
            asked = {name: mirror for name, mirror in free.items() if not self._patience.rests(name, mirror, now)}
            await asyncio.gather(
                *([self._ask(asked)] if asked else []),
                *(self._stay(name, due[name], pin) for name, pin in pinned.items()),
            )
            self._answer(requested)
            await asyncio.gather(*(self._records.tell(name, self.errors.get(name)) for name in due))
        finally:
            self._asking -= due.keys()

    @property
    def states(self) -> list[SourceState]:
        """The newest that was read of every source, under what the configuration says now, in the order of their names."""
        states = {
            name: replace(state, synced=self._synced.get(name, {}))
            for name, state in sorted(self._states.items())
            if name in self.mirrors
        }
        return [
            state.configured(self.configs[name], self._governors) if name in self.configs else state
            for name, state in states.items()
        ]

    @property
    def _governors(self) -> frozenset[str]:
        """Sources whose windows and policies govern all."""
        return frozenset(name for name, config in self.configs.items() if config.governs_all)

    def heard(self, found: ReconcileResult) -> set[str]:
        """What people say of sources, as this pass has seen it; answers which are due because of that."""
        due = set[str]()
        if found.touched is None:  # an offer may have been approved, or what was against it may be over
            due |= {name for name, state in self._states.items() if state.offer}
        for name, wanted in requests(found.sets).items():
            known = {**self._synced.get(name, {}), **self._requested.get(name, {})}
            if not wanted.items() <= known.items():
                self._requested[name] = wanted
                self._patience.urge(name)
                due.add(name)
        return due | self._records.pinned_otherwise(self.mirrors, found)

    @property
    def unread(self) -> list[str]:
        """Sources of which nothing has been read since the start."""
        return sorted(self.mirrors.keys() - self._states.keys())

    @property
    def wake_at(self) -> datetime | None:
        """When the next pin ends by itself."""
        return self._records.wake_at

    def _answer(self, requested: Requests) -> None:
        """People who wanted sources to be looked at have been heard, where the server has answered."""
        for name in requested.keys() - self.errors.keys():
            self._synced.setdefault(name, {}).update(requested[name])
            self.has_moved = True
            if self._requested.get(name) is requested[name]:
                del self._requested[name]

    async def _ask(self, mirrors: Mapping[str, Mirror]) -> None:
        """Ask one server for all of these, and read what has moved."""
        mirror = next(iter(mirrors.values()))
        access = mirror.access
        names = sorted({name for one in mirrors.values() for name in one.wanted})
        try:
            with self.stage("ask"):
                refs = await self._doors.run(mirror, mirror.refs, *names)
        except SourceError as error:
            self._patience.failed(mirror, access, error, self.clock.now())
            for name, one in mirrors.items():
                await self._failed(name, one, error)
            return
        self._patience.answered(mirror)
        await asyncio.gather(*(self._follow(name, one, refs) for name, one in mirrors.items()))

    async def _follow(self, name: str, mirror: Mirror, refs: Mapping[str, str]) -> None:
        known = self._states.get(name)
        try:
            tip = mirror.tip(refs)
            if known is None or known.catalog.revision != tip.commit or known.pin or self._read_by[name] is not mirror:
                with self.stage("fetch", source=name):
                    await self._go_to(name, mirror, tip, known)
            self.errors.pop(name, None)
        except SourceError as error:
            await self._failed(name, mirror, error)
        except ClusterError:
            self._due.add(name)  # the pass will say what is wrong with the cluster

    async def _go_to(self, name: str, mirror: Mirror, tip: Tip, known: SourceState | None) -> None:
        """Read the commit, unless it takes a person's word to go there: then what was read last stays."""
        record = await self._records.record(name)
        if known is None and not await self._doors.run(mirror, mirror.holds, tip.commit):
            await self._go_on(name, mirror)  # who knows how long it takes to come
        is_new = known is None or self._read_by[name] is not mirror
        before = AcceptedCommit("")
        if known is None:
            before = accepted(record, mirror.target)
        elif not is_new:
            before = AcceptedCommit(known.catalog.revision, known.version)
        commit = await self._doors.run(mirror, mirror.fetch, tip)
        after = AcceptedCommit(commit, tip.version if isinstance(mirror.target.ref, VersionRef) else "")
        taking = CommitAcceptance(
            name,
            mirror,
            known,
            record,
            self.configs.get(name),
            self._governors,
            self.cluster,
            self.cluster_name,
            self.clock,
            self._doors,
            self.notice,
        )
        offer = await taking.offer(before, after)
        if offer and known and known.offer == offer and not known.pin:
            return
        if offer is None:
            await self._records.lapse(name, record, before.commit or (known.catalog.revision if known else ""), commit)
        self._read(name, mirror, await taking.state(before, after, offer))

    async def _stay(self, name: str, mirror: Mirror, pin: Pin) -> None:
        """Read the commit that somebody has pinned the source to, which is its own approval; the server is asked only if it is not here."""
        known = self._states.get(name)
        try:
            commit = await self._doors.run(mirror, mirror.commit, pin.revision)
            if known and known.pin == pin and self._read_by[name] is mirror:
                self.errors.pop(name, None)
                return
            before = await self._before_pin(name, mirror, known)
            snapshot = await self._doors.run(mirror, mirror.snapshot, commit)
            self.errors.pop(name, None)
        except RevisionNotFound as error:
            advice = f"pin it to a commit that is there, or levelgate unpin source/{name}"
            await self._failed(name, mirror, RevisionNotFound(error.where, f"{pin}; {error.why}", advice=advice))
            return
        except SourceError as error:
            await self._failed(name, mirror, error)
            return
        except ClusterError:
            self._due.add(name)
            return
        state = state_of(name, mirror.target, snapshot, known.catalog if known else None)
        self.notice(name, f"{snapshot.revision[:7]}  {snapshot.subject}; {pin}")
        self._read(name, mirror, replace(state, pin=pin, unpinned=before.commit, version=before.version))

    async def _before_pin(self, name: str, mirror: Mirror, known: SourceState | None) -> AcceptedCommit:
        """Where the source was when it was pinned; what this process does not know, the record tells."""
        if known:
            return AcceptedCommit(known.unpinned or known.catalog.revision, known.version)
        record = await self._records.record(name)
        before = accepted(record, mirror.target)
        return before._replace(commit=SourceRecord.read(record or {}).unpinned or before.commit)

    def _read(self, name: str, mirror: Mirror, state: SourceState) -> None:
        self._read_by[name], self._states[name], self.has_moved = mirror, state, True

    async def _failed(self, name: str, mirror: Mirror, error: SourceError) -> None:
        if isinstance(error, Stopped):
            return
        if name not in self._states:
            await self._go_on(name, mirror)
        if not alike(str(error), str(self.errors.get(name, ""))):
            kept = "; going on with what was read last" if name in self._states else ""
            self.notice(name, f"cannot be read: {error}{kept}")
        self.errors[name] = error

    async def go_on(self) -> None:
        """After a start: without those that have not answered yet, with what was accepted of them."""
        late = [name for name in self.unread if name not in self.errors]
        await asyncio.gather(*(self._go_on(name, self.mirrors[name]) for name in late))
        for name in late:
            kept = "what was read last" if name in self._states else "the others"
            self.notice(name, f"not read yet, its server has not answered; going on with {kept}")

    async def _go_on(self, name: str, mirror: Mirror) -> None:
        """After a start: with what was accepted, as long as nothing newer is to be had, so that it is healed."""
        with suppress(SourceError, ClusterError):
            record = await self._records.record(name)
            before = accepted(record, mirror.target)
            if not before.commit or not await self._doors.run(mirror, mirror.holds, before.commit):
                return
            snapshot = await self._doors.run(mirror, mirror.snapshot, before.commit)
            state = state_of(name, mirror.target, snapshot)
            unpinned = SourceRecord.read(record or {}).unpinned
            if name not in self._states:
                self._read(name, mirror, replace(state, version=before.version, unpinned=unpinned))
