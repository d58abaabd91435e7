"""View of a fleet: a monitor and a row for each cluster, from the memory of the daemon.

The view decides nothing. If a cluster does not answer, its row comes from its record on the hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from applier.cluster import LOCAL_CLUSTER, ClusterName
from applier.execute.results import Result
from gitops.fleet.cluster_record import NEW_RECORD, ClusterRecord, SourceSummary
from gitops.fleet.reach import ReachState
from gitops.queries import QueryGraph
from gitops.reconcile.context import ReconcileResult
from gitops.server.metric_readings import ClusterReadings, count_cache_entries
from gitops.server.monitor import ChangeCounter, Monitor
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from gitops.daemon.fleet import Fleet
    from gitops.daemon.fleet_environment import ClusterObserver
    from gitops.daemon.fleet_member import FleetMember


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """State of a cluster, and the last recorded state of each source in the cluster."""

    name: ClusterName
    state: ReachState
    since: datetime | None
    message: str
    sources: Mapping[str, SourceSummary]

    @property
    def path(self) -> str:
        """Return the path of the cluster's page."""
        return f"{cluster_root(self.name)}/"

    @property
    def instances(self) -> int:
        return sum(summary.instances for summary in self.sources.values())

    @property
    def failed(self) -> int:
        return sum(summary.failed for summary in self.sources.values())

    @property
    def waits_for(self) -> str:
        """Return the first cause of a wait, by the order of the names of sources, or "" if no source waits."""
        return next((summary.waits_for for _, summary in sorted(self.sources.items()) if summary.waits_for), "")


@dataclass
class FleetView:
    """Monitors and rows of the hub's own cluster and of the member clusters."""

    hub: Monitor
    """Monitor of the hub's own cluster."""
    fleet: Fleet | None = None
    """Fleet of the daemon, or None before the daemon creates the fleet."""
    changes: ChangeCounter = field(default_factory=ChangeCounter)
    """Counter of the changes in all clusters."""
    _monitors: dict[ClusterName, Monitor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hub.root = cluster_root(LOCAL_CLUSTER)

    def monitor_of(self, name: ClusterName) -> Monitor:
        """Return the monitor of the cluster `name`. The monitor outlives the connections to the cluster."""
        hub = self.hub
        if name == LOCAL_CLUSTER:
            return hub
        return self._monitors.setdefault(
            name,
            Monitor(
                name,
                hub.version,
                hub.clock,
                hub.elapsed,
                hub.leads,
                errors=self._errors,
                stands_by=hub.stands_by,
                refused=self._refused,
                longest_hold_seconds=hub.longest_hold_seconds,
                root=cluster_root(name),
            ),
        )

    def observe(
        self, name: ClusterName, observer: ClusterObserver, record_action: Callable[[Result], None]
    ) -> ClusterObserver:
        """Return the observer of the work on the cluster `name`.

        The returned observer informs the cluster's monitor, `record_action` and `observer`.
        """
        members = self.fleet.members if self.fleet else {}
        for removed in self._monitors.keys() - members.keys() - {name}:
            del self._monitors[removed]
        return _ViewObserver(observer, self.monitor_of(name), self.changes, record_action)

    def record_hub_pass(self, result: ReconcileResult) -> None:
        """Record the end of a reconciliation of the hub's own cluster."""
        self.hub.record_pass(result)
        self.changes.advance()

    @property
    def last_pass_at(self) -> datetime | None:
        """Return the end of the last reconciliation of any cluster, or None before the first reconciliation."""
        monitors = (self.hub, *self._monitors.values())
        return max((monitor.passes[-1].at for monitor in monitors if monitor.passes), default=None)

    def rows(self) -> Iterator[ClusterRow]:
        """Yield the hub's own cluster, the declared clusters, and removed clusters that still have a record."""
        records = self.fleet.environment.recorder.records if self.fleet else {}
        members = self.fleet.members if self.fleet else {}
        local = records.get(LOCAL_CLUSTER, NEW_RECORD)
        yield ClusterRow(LOCAL_CLUSTER, ReachState.ENGAGED, local.since, "", local.sources)
        for name, member in members.items():
            yield _row_of_member(member, records.get(name, NEW_RECORD))
        for name, record in records.items():
            if name not in members and record.state == ReachState.REMOVED:
                yield ClusterRow(name, ReachState.REMOVED, record.since, record.message, record.sources)

    def row(self, name: str) -> ClusterRow | None:
        """Return the row of the cluster `name`, or None if the cluster is not in the fleet."""
        return next((row for row in self.rows() if row.name == name), None)

    def clusters(self) -> Mapping[ClusterName, ClusterReadings]:
        """Return the readings of each declared cluster. Implement `gitops.server.metric_readings.FleetReadings`."""
        members = self.fleet.members if self.fleet else {}
        return {name: self._readings_of(member) for name, member in members.items()}

    def states(self) -> Mapping[ClusterName, ReachState]:
        """Return the state of each cluster. Implement `gitops.server.metric_readings.FleetReadings`."""
        return {row.name: row.state for row in self.rows()}

    def graphs(self) -> Mapping[str, QueryGraph]:
        """Return the graph of each member that is reconciled, by name of the cluster."""
        members = self.fleet.members.values() if self.fleet else ()
        return {str(member.name): member.loop.reconciler.inputs.graph for member in members if member.loop}

    def _errors(self) -> Mapping[str, Exception]:
        return self.hub.errors()

    def _refused(self) -> str:
        return self.hub.refused()

    def _readings_of(self, member: FleetMember) -> ClusterReadings:
        loop = member.loop
        return ClusterReadings(
            self.monitor_of(member.name),
            lambda: member.answers,
            lambda: count_cache_entries(loop.reconciler) if loop else {},
            lambda: (len(loop.queue), loop.queue.oldest_age_seconds) if loop else (0, 0.0),
        )


@dataclass(eq=False, slots=True)
class _ViewObserver:
    """Observer that informs viewers and the `observer` (`gitops.daemon.fleet_environment.ClusterObserver`)."""

    observer: ClusterObserver
    monitor: Monitor
    changes: ChangeCounter
    record_action: Callable[[Result], None]

    def report_pass(self, reconcile_result: ReconcileResult) -> None:
        self.observer.report_pass(reconcile_result)
        self.monitor.record_pass(reconcile_result)
        self.changes.advance()

    def print_result(self, result: Result) -> None:
        self.observer.print_result(result)
        self.record_action(result)

    def print_notice(self, source: str, text: str) -> None:
        """Forward a notice to `observer`, and wake viewers, because a new state of a cluster causes a notice."""
        self.observer.print_notice(source, text)
        self.monitor.changes.advance()
        self.changes.advance()


def cluster_root(name: ClusterName) -> str:
    """Return the root path of the pages of a cluster."""
    return f"/clusters/{quote(name, safe='')}"


def _row_of_member(member: FleetMember, record: ClusterRecord) -> ClusterRow:
    """Return the row of a member cluster.

    The row contains the state in the memory of this process. If the record has the same state, use the older time of
    the record, because the record survives restarts.
    """
    standing = member.standing
    since = record.since if record.state == standing.state and record.since else standing.since
    return ClusterRow(member.name, standing.state, since, standing.message, record.sources)
