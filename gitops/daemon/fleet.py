"""Work on all clusters of a fleet: one member for each cluster that Git declares, with its projection of the sources.

The hub's own cluster, `local`, has no member. The hub reconciles `local` like a single cluster, from its projection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from datetime import datetime
from functools import partial

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.daemon.fleet_environment import ClusterObserver, FleetEnvironment
from gitops.daemon.fleet_member import FleetMember
from gitops.daemon.single_run import FleetRun, SingleRun
from gitops.daemon.source_summaries import summarize_sources
from gitops.fleet.cluster_spec import PAUSED_MESSAGE, ClusterSpec
from gitops.fleet.fleet_recorder import RecordChange
from gitops.fleet.fleet_records import read_stored_numbers
from gitops.fleet.projections import FleetProjections, removed_clusters
from gitops.fleet.reach import ReachState
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.earlier_objects import EarlierCatalogs
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import GroupKind


async def _read_none(_source: str, _commit: str) -> None:
    """Return None as the catalog of any commit. The follower replaces this function with the reader of sources."""


@dataclass
class Fleet:
    """Fleet of clusters: their members, the projections of the sources, and the records of the hub."""

    environment: FleetEnvironment
    projections: FleetProjections
    observe: Callable[[ClusterName], ClusterObserver]
    """Function that returns the observer of a cluster."""

    served_kinds: Callable[[], Mapping[GroupKind, bool]]
    """Function that returns the served kinds: True for each namespaced kind, and False for any other kind."""

    set_timer: Callable[[ClusterName, datetime | None], None] = field(default=lambda _name, _moment: None, init=False)
    """Receiver of the time at which the caller has to call `on_timer` for a cluster, or of None if no call is due."""

    read_earlier: EarlierCatalogs = field(default=_read_none, init=False)
    """Reader of a source at an earlier commit."""

    members: dict[ClusterName, FleetMember] = field(default_factory=dict, init=False)
    _recorded: Mapping[ClusterName, ClusterSpec] = field(default_factory=dict, init=False)
    _tasks: dict[ClusterName, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _ending: dict[ClusterName, asyncio.Task[None]] = field(default_factory=dict, init=False)

    async def restore(self) -> None:
        """Load the records of the hub: clusters, placements and revision numbers. Raises: ClusterError."""
        records = await self.environment.recorder.load()
        self._recorded = {
            name: record.spec for name, record in records.items() if name != LOCAL_CLUSTER and record.spec is not None
        }
        sources = self.environment.recorder.sources
        self.projections.accepted = sources.accepted
        sources.hear(LOCAL_CLUSTER, await read_stored_numbers(self.environment.hub))

    def update(self, states: Sequence[SourceState], *, unread: Collection[str] = ()) -> None:
        """Apply new states of the sources: engage new clusters, remove undeclared clusters, and wake the rest.

        Args:
            unread: names of further configured sources that the process has not read yet.
        """
        self._project(states, self.served_kinds(), unread)
        known = {**self._recorded, **{name: member.spec for name, member in self.members.items()}}
        for name in removed_clusters(known, self.projections):
            if (member := self.members.get(name)) is None or not member.is_removed:
                self._begin(known[name], after=self._end(name), is_removed=True)
        # As soon as the declared clusters are known, members replace recorded clusters. A recorded cluster without a
        # member stays, since a broken file may still declare it.
        if self.projections.knows_clusters:
            self._recorded = {name: self._recorded[name] for name in self._recorded if name not in self.members}
        for name, spec in self.projections.clusters.items():
            if name == LOCAL_CLUSTER:
                continue
            member = self.members.get(name)
            if member is not None and not member.is_removed and _connects_alike(member.spec, spec):
                member.declare(spec)
                member.sources_changed()
            else:
                self._begin(spec, after=self._end(name))

    @property
    def local_states(self) -> list[SourceState]:
        """Return the projections of the sources for the hub's own cluster."""
        return self.projections.states_of(LOCAL_CLUSTER)

    async def read_projected(self, cluster: ClusterName, source: str, commit: str) -> Catalog | None:
        """Return the projection of a source at an earlier commit, or None if no local copy has the commit."""
        catalog = await self.read_earlier(source, commit)
        return self.projections.project_earlier(catalog, cluster) if catalog else None

    def on_local_pass(self, result: ReconcileResult) -> None:
        """Record the result of a reconciliation of the hub's own cluster.

        If Git neither places objects in this cluster nor declares this cluster, record nothing.
        """
        is_used = any(result.ledger.of_source(state.catalog.source) for state in result.sources)
        if is_used or LOCAL_CLUSTER in self.projections.clusters:
            recorder, now = self.environment.recorder, self.environment.clock.now()
            standing = RecordChange(state=str(ReachState.ENGAGED), message="", since=now)
            recorder.update(LOCAL_CLUSTER, {**standing, "uid": self.environment.hub_id})
            recorder.update_sources(LOCAL_CLUSTER, partial(summarize_sources, result))

    def take_local_turn(self) -> AbstractAsyncContextManager[None]:
        """Hold a turn for a full reconciliation of the hub's own cluster during the block."""
        # The count of responses never changes, so the turn ends early. A short turn suffices for the hub's few objects.
        return self.environment.turns.take(lambda: 0)

    def resync(self) -> None:
        """Enqueue a full reconciliation in every cluster except the hub's own cluster."""
        for member in self.members.values():
            member.resync()

    def on_timer(self, name: ClusterName) -> None:
        """Enqueue the roots of a cluster that are due because time has passed.

        The timer of `set_timer` calls this method.
        """
        if member := self.members.get(name):
            member.on_timer()

    async def run(self, stop: asyncio.Event) -> None:
        """Write records and watch credentials until `stop`. Then finish the current rounds in all clusters."""
        try:
            async with self.environment.credentials.follow():
                await self.environment.recorder.run(stop)
        finally:
            for name in list(self.members):
                self._end(name)
            await asyncio.gather(*self._ending.values(), return_exceptions=True)
            await self.environment.recorder.flush()

    async def begin_once(
        self, states: Sequence[SourceState], run: SingleRun, *, unread: Collection[str] = ()
    ) -> dict[ClusterName, asyncio.Task[ReconcileResult]]:
        """Start a single run in each cluster that is neither paused nor the hub's own cluster. Return the tasks.

        Args:
            unread: names of further configured sources that the process has not read.

        Raises: ClusterError if the hub does not list its kinds.
        """
        discovery = await self.environment.hub.discover()
        self._project(states, {kind: found.namespaced for kind, found in discovery.resources.items()}, unread)
        self.members = {
            name: self._create_member(spec)
            for name, spec in self.projections.clusters.items()
            if name != LOCAL_CLUSTER and not spec.is_paused
        }
        return {
            name: asyncio.create_task(member.run_once(run), name=f"cluster {name}")
            for name, member in self.members.items()
        }

    async def end_once(self, tasks: Mapping[ClusterName, asyncio.Task[ReconcileResult]]) -> FleetRun:
        """Wait for the runs, write the records, and return the outcome of each cluster."""
        ended = await asyncio.gather(*tasks.values(), return_exceptions=True)
        await self.environment.recorder.flush()
        outcomes = dict(zip(tasks, ended, strict=True))
        removed = removed_clusters(self._recorded, self.projections)
        return FleetRun(
            results={name: found for name, found in outcomes.items() if not isinstance(found, BaseException)},
            failures={name: str(error) for name, error in outcomes.items() if isinstance(error, BaseException)}
            | dict.fromkeys(
                sorted(removed), "no longer declared in Git; only a run without --once removes the cluster"
            ),
            left_alone={name: PAUSED_MESSAGE for name, spec in self.projections.clusters.items() if spec.is_paused},
        )

    def _project(
        self, states: Sequence[SourceState], served_kinds: Mapping[GroupKind, bool], unread: Collection[str]
    ) -> None:
        self.projections.update(states, served_kinds, unread=unread)
        self.environment.recorder.sources.keep(self.projections.accepted, self.projections.definition_digests)

    def _begin(self, spec: ClusterSpec, *, after: asyncio.Task[None] | None, is_removed: bool = False) -> None:
        member = self.members[spec.name] = self._create_member(spec, is_removed=is_removed)
        task = self._tasks[spec.name] = asyncio.create_task(member.run(after=after), name=f"cluster {spec.name}")
        if is_removed:
            task.add_done_callback(lambda _: self._forget(member))

    def _create_member(self, spec: ClusterSpec, *, is_removed: bool = False) -> FleetMember:
        if not (is_removed or spec.is_paused):
            self.environment.recorder.sources.expect(spec.name)
        member = FleetMember(
            spec,
            self.environment,
            states=self.projections.empty_states if is_removed else partial(self._states_of, spec.name),
            observer=self.observe(spec.name),
            wake_at=lambda moment: self.set_timer(spec.name, moment),
            earlier=partial(self.read_projected, spec.name),
            is_removed=is_removed,
        )
        if not is_removed:
            member.declare(spec)
        return member

    def _states_of(self, name: ClusterName, recorded_sources: Collection[str]) -> list[SourceState]:
        """Return the projections of the configured sources. Objects of any other source stay unchanged."""
        return self.projections.states_of(name)

    def _forget(self, member: FleetMember) -> None:
        """Drop a member after the removal of its cluster."""
        if self.members.get(member.name) is member:
            del self.members[member.name], self._tasks[member.name]

    def _end(self, name: ClusterName) -> asyncio.Task[None] | None:
        """Stop the member of a cluster. Return the task of the member, or None if the cluster has no member."""
        if (member := self.members.pop(name, None)) is None:
            return self._ending.get(name)
        member.stop()
        ending = self._ending[name] = self._tasks.pop(name)
        ending.add_done_callback(partial(self._ended, name))
        return ending

    def _ended(self, name: ClusterName, ending: asyncio.Task[None]) -> None:
        if self._ending.get(name) is ending:
            del self._ending[name]


def _connects_alike(before: ClusterSpec, after: ClusterSpec) -> bool:
    """Return whether the connection stays valid after the change of a declaration."""
    return (before.access, before.rate, before.timeouts, before.is_paused) == (
        after.access,
        after.rate,
        after.timeouts,
        after.is_paused,
    )
