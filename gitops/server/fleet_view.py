"""A fleet as viewers see it: a monitor for each cluster, and one line for each, from the memory of the daemon.

It decides nothing. A cluster that cannot be reached has the line of its record on the hub.
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
from gitops.reconcile.context import ReconcileResult
from gitops.server.metrics import ClusterReadings, count_cache_entries
from gitops.server.monitor import ChangeCounter, Monitor
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from gitops.daemon.fleet import Fleet
    from gitops.daemon.fleet_environment import ClusterObserver
    from gitops.daemon.fleet_member import FleetMember


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """How a cluster stands, and what it has of each source as far as that was seen."""

    name: ClusterName
    state: ReachState
    since: datetime | None
    message: str
    sources: Mapping[str, SourceSummary]

    @property
    def path(self) -> str:
        """Where its own page is."""
        return f"{cluster_root(self.name)}/"

    @property
    def instances(self) -> int:
        return sum(summary.instances for summary in self.sources.values())

    @property
    def failed(self) -> int:
        return sum(summary.failed for summary in self.sources.values())

    @property
    def waits_for(self) -> str:
        """The first cause that is known."""
        return next((summary.waits_for for _, summary in sorted(self.sources.items()) if summary.waits_for), "")


@dataclass
class FleetView:
    """`hub` watches the hub's own cluster; `fleet` is set once it is made. `changes` counts whatever changes in any cluster."""

    hub: Monitor
    fleet: Fleet | None = None
    changes: ChangeCounter = field(default_factory=ChangeCounter)
    _monitors: dict[ClusterName, Monitor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hub.root = cluster_root(LOCAL_CLUSTER)

    def monitor_of(self, name: ClusterName) -> Monitor:
        """Return the monitor of a cluster; it outlives the connections to it."""
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
        """Return who hears of the work on a cluster: its monitor, `record_action` and `observer`."""
        members = self.fleet.members if self.fleet else {}
        for gone in self._monitors.keys() - members.keys() - {name}:
            del self._monitors[gone]
        return _ViewObserver(observer, self.monitor_of(name), self.changes, record_action)

    def record_hub_pass(self, result: ReconcileResult) -> None:
        """A pass over the hub's own cluster is over."""
        self.hub.record_pass(result)
        self.changes.advance()

    @property
    def last_pass_at(self) -> datetime | None:
        """When the last pass over any cluster has ended."""
        monitors = (self.hub, *self._monitors.values())
        return max((monitor.passes[-1].at for monitor in monitors if monitor.passes), default=None)

    def rows(self) -> Iterator[ClusterRow]:
        """The hub's own cluster, those that are declared, and those that were removed and have a record still."""
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
        """Return the row of a cluster; None where there is none of that name."""
        return next((row for row in self.rows() if row.name == name), None)

    def clusters(self) -> Mapping[ClusterName, ClusterReadings]:
        """See `gitops.server.metrics.FleetReadings`."""
        members = self.fleet.members if self.fleet else {}
        return {name: self._readings_of(member) for name, member in members.items()}

    def states(self) -> Mapping[ClusterName, ReachState]:
        """See `gitops.server.metrics.FleetReadings`."""
        return {row.name: row.state for row in self.rows()}

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


@dataclass(frozen=True, slots=True)
class _ViewObserver:
    """Tells viewers and `observer`; see `gitops.daemon.fleet_member.ClusterObserver`."""

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
        """A cluster that stands otherwise says so here."""
        self.observer.print_notice(source, text)
        self.monitor.changes.advance()
        self.changes.advance()


def cluster_root(name: ClusterName) -> str:
    """Return the path below which the pages of a cluster are."""
    return f"/clusters/{quote(name, safe='')}"


def _row_of_member(member: FleetMember, record: ClusterRecord) -> ClusterRow:
    """What this process knows of the state goes before the record; the record knows longer since when."""
    standing = member.standing
    since = record.since if record.state == standing.state and record.since else standing.since
    return ClusterRow(member.name, standing.state, since, standing.message, record.sources)
