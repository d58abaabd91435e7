"""Plans of a commit against the clusters of a fleet.

The clusters and placements of the commit decide which objects each cluster gets. If a cluster or placement of the
commit cannot be read, the planner uses the version that the hub has accepted, as the daemon does. Each plan compares
with the live state of its own cluster. The planner writes neither to the hub nor to a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Final

from applier.cluster import LOCAL_CLUSTER, Cluster, ClusterName
from applier.errors import ClusterError, ConfigurationError
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.fleet.access import AccessSettings
from gitops.fleet.cluster_record import StoredClusterRecord, read_cluster_records
from gitops.fleet.cluster_spec import PAUSED_MESSAGE, ClusterSpec
from gitops.fleet.connection import access_source, connect_cluster
from gitops.fleet.fleet_objects import clusters_in
from gitops.fleet.fleet_record import read_accepted, read_numbers
from gitops.fleet.identity import AcceptedIdentity, judge_recorded, read_cluster_uid
from gitops.fleet.projections import FleetProjections, removed_clusters
from gitops.fleet.reach import ReachState
from gitops.fleet.revision_numbers import NumbersBySource, issue_number
from gitops.plan import planner
from gitops.plan.fleet_report import ClusterPlan, FleetReport, PlanOutcome
from gitops.plan.report import Report, RevisionMove
from gitops.reconcile.sources import SourceState, unavailable_state
from gitops.records.source_record import read_own_configmaps
from gitops.rollouts.source_rules import StoredRules, stored_documents
from gitops.source import SourceTarget
from renderer.catalog.catalog import Catalog
from renderer.catalog.projection import scopes_in
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.phrasing import join_names, suggestion_or_names
from renderer.render.model import NewRevision

MAX_CLUSTERS_AT_ONCE: Final = 8
CONCURRENCY: Final = 16
"""Largest number of requests to one cluster at the same time."""

UNREACHABLE_SECONDS: Final = 5.0
"""Seconds for which the planner retries a failing call to an unreachable cluster."""

ANSWER_SECONDS: Final = 10.0
"""Seconds within which a cluster has to answer with its identity."""

ALL_CLUSTERS: Final = "all"


class UnknownPlanTarget(GitopsError):
    """Request for the plan of a cluster that the commit does not declare."""


class NotPlanned(GitopsError):
    """Failure to plan a cluster that does not answer, or whose identity differs from the record on the hub."""


@dataclass(frozen=True, slots=True)
class PlacedSource:
    """Objects of one source for each cluster of a fleet."""

    catalog: Catalog
    projections: FleetProjections
    in_force: Mapping[ClusterName, ClusterSpec]
    """Clusters that the hub has accepted."""

    @property
    def source(self) -> str:
        return self.catalog.source

    @property
    def removed(self) -> frozenset[ClusterName]:
        """Return the clusters that the commit no longer declares."""
        return removed_clusters(self.in_force.keys(), self.projections)

    def describe_removal(self, cluster: ClusterName) -> str:
        """Return a sentence that tells what happens to the objects in a cluster that the commit removes."""
        return f"removed by this commit; {self.in_force[cluster].on_remove.outcome}"

    def state_of(self, cluster: ClusterName) -> SourceState:
        """Return the source with only the objects that `cluster` gets, patched for `cluster`."""
        states = self.projections.states_of(cluster)
        return next(state for state in states if state.catalog.source == self.source)


def place_source(
    state: SourceState,
    *,
    fleet_source: str,
    accepted: Mapping[str, StoredRules],
    served_kinds: Mapping[GroupKind, bool],
) -> PlacedSource:
    """Assign the objects of a source to the clusters of the fleet.

    If another source declares the clusters, the function uses the accepted clusters of that source, because a plan does
    not read that source.

    Args:
        fleet_source: name of the source that may declare clusters.
        accepted: clusters and placements that the hub has accepted, by source.
        served_kinds: True for each namespaced kind, and False for any other kind.
    """
    projections = FleetProjections(fleet_source, dict(accepted))
    states = [state]
    if state.catalog.source != fleet_source:
        states.append(
            unavailable_state(
                fleet_source, SourceTarget("unread"), "", "the plan of another source does not read this source"
            )
        )
    projections.update(states, served_kinds)
    documents = stored_documents(accepted.get(fleet_source, {}))
    return PlacedSource(state.catalog, projections, {spec.name: spec for spec in clusters_in(documents)})


async def place_as_hub(hub: Cluster, state: SourceState, fleet_source: str) -> PlacedSource:
    """Assign the objects of a source to clusters by the placements that the hub has accepted. Raises: ClusterError."""
    accepted, discovery = await asyncio.gather(read_accepted(hub), hub.discover())
    served_kinds = {kind: resource.namespaced for kind, resource in discovery.resources.items()}
    return place_source(state, fleet_source=fleet_source, accepted=accepted, served_kinds=served_kinds)


@dataclass(frozen=True, slots=True)
class _StillClock:
    """Clock that always shows `moment`, so that equal plans of different clusters have equal times."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class FleetPlanner:
    """Planner of one commit against the live state of each cluster of a fleet."""

    hub: Cluster
    hub_name: str
    """Name by which windows select the hub's own cluster. Windows select other clusters by the name of their `Cluster`.
    """

    access: AccessSettings
    clock: Clock
    facts: planner.Facts | None
    knows_deletions: bool
    """False if the plans do not know which source of the cluster the commit belongs to, as in `Report`."""

    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CLUSTERS_AT_ONCE), init=False)
    _records: Mapping[ClusterName, StoredClusterRecord] = field(default_factory=dict, init=False)
    _numbers: NumbersBySource = field(default_factory=dict, init=False)
    _hub_id: str = field(default="", init=False)

    async def plan(self, placed: PlacedSource, wanted: str, other_sources: Collection[str]) -> FleetReport:
        """Plan the cluster `wanted`, or every cluster if `wanted` is `all`.

        Args:
            other_sources: names of the sources that the plan does not read.

        Raises: UnknownPlanTarget if `wanted` is not declared, ClusterError if the hub cannot be read.
        """
        names = _choose(placed, wanted)
        self._records, self._numbers, self._hub_id = await asyncio.gather(
            read_cluster_records(self.hub), read_numbers(self.hub), read_cluster_uid(self.hub)
        )
        clock = _StillClock(self.clock.now())
        plans = list(await asyncio.gather(*(self._plan_cluster(placed, name, clock) for name in names)))
        if wanted == ALL_CLUSTERS:
            plans += [
                ClusterPlan(name, PlanOutcome.REMOVED, is_added=False, message=placed.describe_removal(name))
                for name in sorted(placed.removed)
            ]
        return FleetReport(
            source=placed.source,
            head=placed.catalog.commit,
            at=clock.moment,
            clusters=tuple(plans),
            problems=() if LOCAL_CLUSTER in names else placed.state_of(LOCAL_CLUSTER).catalog.problems,
            notes=tuple(_notes(placed, other_sources)),
        )

    async def _plan_cluster(self, placed: PlacedSource, name: ClusterName, clock: Clock) -> ClusterPlan:
        """Return the plan of one cluster, or the reason why the cluster cannot be planned.

        Raises: ConfigurationError, ClusterError or GitopsError if the hub itself cannot be planned.
        """
        is_added = name not in placed.in_force and name in placed.projections.clusters
        spec = placed.projections.clusters.get(name)
        if spec is not None and spec.is_paused:
            return ClusterPlan(name, PlanOutcome.PAUSED, is_added, message=PAUSED_MESSAGE)
        try:
            async with self._turns:
                if name == LOCAL_CLUSTER:
                    report = await self._plan_against(self.hub, placed.state_of(name), clock, self.hub_name)
                else:
                    assert spec is not None
                    source = access_source(spec, self.access, self.hub)
                    async with connect_cluster(
                        spec, source, concurrency=CONCURRENCY, unreachable_seconds=UNREACHABLE_SECONDS
                    ) as cluster:
                        await self._identify(cluster, name)
                        report = await self._plan_against(cluster, placed.state_of(name), clock, name)
        except (ConfigurationError, ClusterError, GitopsError) as error:
            if name == LOCAL_CLUSTER:
                raise
            return ClusterPlan(
                name, PlanOutcome.UNKNOWN, is_added, message=str(error), since=self._unreachable_since(name)
            )
        return ClusterPlan(name, PlanOutcome.PLANNED, is_added, replace(report, knows_deletions=self.knows_deletions))

    async def _plan_against(self, cluster: Cluster, state: SourceState, clock: Clock, window_name: str) -> Report:
        own_configmaps = await read_own_configmaps(cluster)
        report = await planner.plan_against_cluster(
            cluster, state, clock=clock, cluster_name=window_name, facts=self.facts, own_configmaps=own_configmaps
        )
        return replace(report, moves=tuple(_numbered_moves(report.moves, state.catalog, self._numbers)))

    async def _identify(self, cluster: Cluster, name: ClusterName) -> None:
        """Check the identity of a cluster.

        Raises: NotPlanned if the cluster does not answer, or has an unexpected identity.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                seen_uid = await read_cluster_uid(cluster)
        except TimeoutError:
            raise NotPlanned(f"cluster {name} did not answer within {ANSWER_SECONDS:.0f} s") from None
        judgement = judge_recorded(name, seen_uid, self._records, self._hub_id)
        if not isinstance(judgement, AcceptedIdentity):
            raise NotPlanned(judgement.message)

    def _unreachable_since(self, name: ClusterName) -> datetime | None:
        stored = self._records.get(name)
        return stored.record.since if stored and stored.record.state == ReachState.UNREACHABLE else None


def _numbered_moves(
    moves: Iterable[RevisionMove], catalog: Catalog, numbers: NumbersBySource
) -> Iterator[RevisionMove]:
    """Yield the moves with the revision numbers that the hub would issue. A cluster knows only its own numbers."""
    definitions = {definition.name: definition for definition in catalog.definitions.values()}
    for move in moves:
        if (definition := definitions.get(move.name)) is None:
            yield move
            continue
        kind, digest = definition.group_kind, definition.digest
        revision = NewRevision(kind, move.new, digest, definition.manifest, catalog.source, catalog.commit, "", "")
        yield replace(move, new=issue_number(numbers, revision)[catalog.source].number_of(kind, digest))


def _choose(placed: PlacedSource, wanted: str) -> Sequence[ClusterName]:
    """Return the clusters to plan, `local` first. Raises: UnknownPlanTarget."""
    others = sorted(name for name in placed.projections.clusters if name != LOCAL_CLUSTER)
    names = [LOCAL_CLUSTER, *others]
    if wanted == ALL_CLUSTERS:
        return names
    if chosen := [name for name in names if name == wanted]:
        return chosen
    for name in placed.removed:
        if name == wanted:
            raise UnknownPlanTarget(f"cluster {wanted} is {placed.describe_removal(name)}")
    raise UnknownPlanTarget(
        f"cluster {wanted!r} is not declared{suggestion_or_names(wanted, names)}; "
        f"declare it in source {placed.projections.fleet_source}, or write --cluster all"
    )


def _notes(placed: PlacedSource, other_sources: Collection[str]) -> Iterator[str]:
    """Yield a note if placements may select by definitions of other sources, which the plan does not read."""
    catalog = placed.catalog
    known = catalog.definitions.keys() | catalog.broken.keys() | scopes_in(catalog).keys()
    foreign = [kind for kind in catalog.kinds - known if "." in kind.group and not kind.group.endswith("k8s.io")]
    if other_sources and foreign:
        yield (
            f"definitions of other sources ({join_names(sorted(other_sources), limit=8)}) are not read: "
            "if a placement selects by `rgds`, the plan lacks instances of the kinds "
            f"{join_names(map(str, sorted(foreign)), limit=8)}"
        )
