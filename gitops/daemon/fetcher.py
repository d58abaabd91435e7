"""Fetcher of the sources: one request per Git server for all due sources, then a fetch of each new commit.

If the fetch of a source fails, the source keeps its last good catalog. After a start, the accepted commit is the last
good catalog, if the local copy still has the commit. The fetcher omits a source without any catalog, so that the
objects of the source stay unchanged.
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
from gitops.daemon.git_servers import GitServerBackoff, GitThreadLimits
from gitops.daemon.source_records import SourceRecords, is_same_message
from gitops.errors import RevisionNotFound, SourceError, Stopped
from gitops.instrumentation import Stage, no_stage
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.source_acceptance import AcceptedCommit, accepted
from gitops.reconcile.sources import SourceState, state_of
from gitops.records.source_record import SourceRecord
from gitops.records.source_requests import Pin, SyncRequests, find_sync_requests
from gitops.source import Mirror, Tip, VersionRef
from gitops.source_config import SourceConfig
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass


@dataclass
class Fetcher:
    """Fetcher of all sources. The keys of every mapping are names of sources."""

    mirrors: Mapping[str, Mirror]
    configs: Mapping[str, SourceConfig]
    cluster: Cluster
    cluster_name: str
    clock: Clock
    notice: Callable[[str, str], None]
    """Receiver of notices about commits and errors, as (source, text)."""

    stage: Stage = no_stage
    """Function that measures requests to Git."""

    has_new_state: bool = False
    """True if the fetcher has read a new state. The caller resets the field."""

    errors: dict[str, SourceError] = field(default_factory=dict)
    """Error of the last fetch, for each source whose last fetch failed."""

    _due_sources: set[str] = field(default_factory=set)
    _fetching_sources: set[str] = field(default_factory=set)
    _states: dict[str, SourceState] = field(default_factory=dict)
    _mirrors_read: dict[str, Mirror] = field(default_factory=dict)
    _earlier: dict[str, dict[str, Catalog]] = field(default_factory=dict)
    _pending_requests: SyncRequests = field(default_factory=dict)
    _answered_requests: SyncRequests = field(default_factory=dict)
    _backoff: GitServerBackoff = field(default_factory=GitServerBackoff)
    _thread_limits: GitThreadLimits = field(default_factory=GitThreadLimits)

    def __post_init__(self) -> None:
        self._records = SourceRecords(self.cluster, self.clock)

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> set[str]:
        """Fetch the sources of `mirrors` from now on. Return the sources with a new mirror, for the caller to poll."""
        new = {name for name, mirror in mirrors.items() if self.mirrors.get(name) is not mirror}
        self.mirrors, self.configs = mirrors, configs
        self.errors = {name: error for name, error in self.errors.items() if name in mirrors}
        return new

    def mark_due(self, names: Iterable[str]) -> None:
        """Mark the sources `names` as due, so that the next `start_fetches` polls them."""
        self._due_sources |= set(names)

    async def fetch(self) -> list[SourceState]:
        """Poll the due sources, and return the newest readable state of every source, sorted by name."""
        await asyncio.gather(*self.start_fetches())
        return self.states

    def start_fetches(self) -> list[Coroutine[None, None, None]]:
        """Return one coroutine per repository with due sources, so that a slow repository delays only its own sources.

        The caller has to await each coroutine. While an earlier coroutine polls the repository of a source, the source
        remains due.
        """
        self._due_sources &= self.mirrors.keys()
        repositories: dict[Hashable, dict[str, Mirror]] = {}
        for name in sorted(self._due_sources - self._fetching_sources):
            repositories.setdefault(self.mirrors[name].repository, {})[name] = self.mirrors[name]
        fetches = [self._poll_repository(due_mirrors) for due_mirrors in repositories.values()]
        for due_mirrors in repositories.values():
            self._due_sources -= due_mirrors.keys()
            self._fetching_sources |= due_mirrors.keys()
        return fetches

    async def _poll_repository(self, due_mirrors: Mapping[str, Mirror]) -> None:
        """Poll one repository for its due sources. Skip sources in backoff, and read pinned sources at their commit."""
        try:
            requested = {
                name: self._pending_requests[name] for name in due_mirrors.keys() & self._pending_requests.keys()
            }
            await self._records.load_missing(due_mirrors)
            pinned = {name: pin for name in due_mirrors if (pin := self._records.pin(name))}
            now = self.clock.now()
            mirrors_to_poll = {
                name: mirror
                for name, mirror in due_mirrors.items()
                if name not in pinned and self._backoff.take_poll_permission(name, mirror, now)
            }
            await asyncio.gather(
                *([self._fetch_changed(mirrors_to_poll)] if mirrors_to_poll else []),
                *(self._read_pinned(name, due_mirrors[name], pin) for name, pin in pinned.items()),
            )
            self._mark_requests_answered(requested)
            await asyncio.gather(*(self._records.report_error(name, self.errors.get(name)) for name in due_mirrors))
        finally:
            self._fetching_sources -= due_mirrors.keys()

    @property
    def states(self) -> list[SourceState]:
        """Return the newest state of every source under the current configuration, sorted by name."""
        states = {
            name: replace(state, synced=self._answered_requests.get(name, {}))
            for name, state in sorted(self._states.items())
            if name in self.mirrors
        }
        return [
            state.configured(self.configs[name], self._governors) if name in self.configs else state
            for name, state in states.items()
        ]

    @property
    def _governors(self) -> frozenset[str]:
        """Return the sources whose windows and policies govern all sources."""
        return frozenset(name for name, config in self.configs.items() if config.governs_all)

    def take_requests(self, result: ReconcileResult) -> set[str]:
        """Accept the sync requests and pins from the source records in `result`. Return the sources to poll now."""
        due_sources = set[str]()
        if result.touched is None:  # a person may have approved a held commit, or its obstacle may be gone
            due_sources |= {name for name, state in self._states.items() if state.offer}
        for name, source_requests in find_sync_requests(result.sets).items():
            seen_requests = {**self._answered_requests.get(name, {}), **self._pending_requests.get(name, {})}
            if not source_requests.items() <= seen_requests.items():
                self._pending_requests[name] = source_requests
                self._backoff.note_request(name)
                due_sources.add(name)
        return due_sources | self._records.find_changed_pins(self.mirrors, result)

    @property
    def unread(self) -> list[str]:
        """Return the sources that Levelgate has not read successfully since its start."""
        return sorted(self.mirrors.keys() - self._states.keys())

    @property
    def next_pin_expiry(self) -> datetime | None:
        """Return the time at which the next pin expires, or None if no pin has an end."""
        return self._records.next_pin_expiry

    def _mark_requests_answered(self, requested: SyncRequests) -> None:
        """Mark sync requests as answered, except the requests of sources whose server failed."""
        for name in requested.keys() - self.errors.keys():
            self._answered_requests.setdefault(name, {}).update(requested[name])
            self.has_new_state = True
            if self._pending_requests.get(name) is requested[name]:
                del self._pending_requests[name]

    async def _fetch_changed(self, mirrors: Mapping[str, Mirror]) -> None:
        """Ask for the refs of one repository, and read the sources in `mirrors` whose commit has changed."""
        mirror = next(iter(mirrors.values()))
        credential_states = mirror.credential_states
        names = sorted({name for source_mirror in mirrors.values() for name in source_mirror.ref_names})
        try:
            with self.stage("ask"):
                refs = await self._thread_limits.run(mirror, mirror.list_refs, *names)
        except SourceError as error:
            self._backoff.record_failure(mirror, credential_states, error, self.clock.now())
            for name, source_mirror in mirrors.items():
                await self._record_failure(name, source_mirror, error)
            return
        self._backoff.reset(mirror)
        await asyncio.gather(
            *(self._update_source(name, source_mirror, refs) for name, source_mirror in mirrors.items())
        )

    async def _update_source(self, name: str, mirror: Mirror, refs: Mapping[str, str]) -> None:
        last_state = self._states.get(name)
        try:
            tip = mirror.find_tip(refs)
            if (
                last_state is None
                or last_state.catalog.commit != tip.commit
                or last_state.pin
                or self._mirrors_read[name] is not mirror
            ):
                with self.stage("fetch", source=name):
                    await self._accept_tip(name, mirror, tip, last_state)
            self.errors.pop(name, None)
        except SourceError as error:
            await self._record_failure(name, mirror, error)
        except ClusterError:
            self._due_sources.add(name)  # the next reconciliation reports the error of the cluster

    async def _accept_tip(self, name: str, mirror: Mirror, tip: Tip, last_state: SourceState | None) -> None:
        """Fetch and read the commit of `tip`. If a person has to approve the commit, keep the source unchanged."""
        record = await self._records.get_record(name)
        if last_state is None and not await self._thread_limits.run(mirror, mirror.has_commit, tip.commit):
            # The fetch may take long. During the fetch, the accepted commit heals the source.
            await self._use_accepted_commit(name, mirror)
        is_new = last_state is None or self._mirrors_read[name] is not mirror
        current_commit = AcceptedCommit("")
        if last_state is None:
            current_commit = accepted(record, mirror.target)
        elif not is_new:
            current_commit = AcceptedCommit(last_state.catalog.commit, last_state.version)
        commit = await self._thread_limits.run(mirror, mirror.fetch, tip)
        new_commit = AcceptedCommit(commit, tip.version if isinstance(mirror.target.ref, VersionRef) else "")
        acceptance = CommitAcceptance(
            name,
            mirror,
            last_state,
            record,
            self.configs.get(name),
            self._governors,
            self.cluster,
            self.cluster_name,
            self.clock,
            self._thread_limits,
            self.notice,
        )
        held_commit = await acceptance.find_held_commit(current_commit, new_commit)
        if held_commit and last_state and last_state.offer == held_commit and not last_state.pin:
            return
        if held_commit is None:
            await self._records.expire_approval(
                name, record, current_commit.commit or (last_state.catalog.commit if last_state else ""), commit
            )
        self._store_state(name, mirror, await acceptance.read_state(current_commit, new_commit, held_commit))

    async def _read_pinned(self, name: str, mirror: Mirror, pin: Pin) -> None:
        """Read the commit to which a person has pinned the source. The pin counts as an approval of the commit.

        If the local copy has the commit, send no request to the server.
        """
        last_state = self._states.get(name)
        try:
            commit = await self._thread_limits.run(mirror, mirror.find_commit, pin.commit)
            if last_state and last_state.pin == pin and self._mirrors_read[name] is mirror:
                self.errors.pop(name, None)
                return
            previous_commit = await self._commit_before_pin(name, mirror, last_state)
            snapshot = await self._thread_limits.run(mirror, mirror.read_snapshot, commit)
            self.errors.pop(name, None)
        except RevisionNotFound as error:
            advice = f"pin the source to an existing commit, or run levelgate unpin source/{name}"
            await self._record_failure(
                name, mirror, RevisionNotFound(error.where, f"{pin}; {error.message}", advice=advice)
            )
        except SourceError as error:
            await self._record_failure(name, mirror, error)
        except ClusterError:
            self._due_sources.add(name)
        else:
            state = state_of(name, mirror.target, snapshot, last_state.catalog if last_state else None)
            self.notice(name, f"{snapshot.revision[:7]}  {snapshot.subject}; {pin}")
            self._store_state(
                name, mirror, replace(state, pin=pin, unpinned=previous_commit.commit, version=previous_commit.version)
            )

    async def _commit_before_pin(self, name: str, mirror: Mirror, last_state: SourceState | None) -> AcceptedCommit:
        """Return the commit of the source before the pin, from memory or from the record in the cluster."""
        if last_state:
            return AcceptedCommit(last_state.unpinned or last_state.catalog.commit, last_state.version)
        record = await self._records.get_record(name)
        accepted_commit = accepted(record, mirror.target)
        return accepted_commit._replace(
            commit=SourceRecord.from_object(record or {}).commit_before_pin or accepted_commit.commit
        )

    def _store_state(self, name: str, mirror: Mirror, state: SourceState) -> None:
        self._mirrors_read[name], self._states[name], self.has_new_state = mirror, state, True

    async def _record_failure(self, name: str, mirror: Mirror, error: SourceError) -> None:
        if isinstance(error, Stopped):
            return
        if name not in self._states:
            await self._use_accepted_commit(name, mirror)
        if not is_same_message(str(error), str(self.errors.get(name, ""))):
            suffix = "; the last commit stays in force" if name in self._states else ""
            self.notice(name, f"cannot be read: {error}{suffix}")
        self.errors[name] = error

    async def read_earlier(self, name: str, commit: str) -> Catalog | None:
        """Return the source at an earlier commit, or None if the local copy does not have the commit. Send no request.

        Healing needs the last completely applied commit, and the commit in progress. So the fetcher keeps two catalogs
        per source.

        Args:
            commit: id, or the beginning of an id.
        """
        kept = self._earlier.setdefault(name, {})
        if commit not in kept and (mirror := self.mirrors.get(name)):
            with suppress(SourceError):
                if full_id := await self._thread_limits.run(mirror, mirror.find_copied_commit, commit):
                    snapshot = await self._thread_limits.run(mirror, mirror.read_snapshot, full_id)
                    kept[commit] = state_of(name, mirror.target, snapshot).catalog
        for oldest in tuple(kept)[:-2]:
            del kept[oldest]
        return kept.get(commit)

    async def use_accepted_commits(self) -> None:
        """Continue with the accepted commits of sources whose servers have not answered since the start."""
        late = [name for name in self.unread if name not in self.errors]
        await asyncio.gather(*(self._use_accepted_commit(name, self.mirrors[name]) for name in late))
        for name in late:
            basis = "the last commit" if name in self._states else "the other sources"
            self.notice(name, f"not read yet, because its server has not answered; continuing with {basis}")

    async def _use_accepted_commit(self, name: str, mirror: Mirror) -> None:
        """After a start, read the accepted commit of a source, to heal objects until a newer commit is read."""
        with suppress(SourceError, ClusterError):
            record = await self._records.get_record(name)
            accepted_commit = accepted(record, mirror.target)
            if not accepted_commit.commit or not await self._thread_limits.run(
                mirror, mirror.has_commit, accepted_commit.commit
            ):
                return
            snapshot = await self._thread_limits.run(mirror, mirror.read_snapshot, accepted_commit.commit)
            state = state_of(name, mirror.target, snapshot)
            unpinned = SourceRecord.from_object(record or {}).commit_before_pin
            if name not in self._states:
                self._store_state(name, mirror, replace(state, version=accepted_commit.version, unpinned=unpinned))
