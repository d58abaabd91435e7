"""Overview of a fleet from the records of the hub: clusters, declarations in Git, and the progress of each placement.

The overview reads only the hub, never a member cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from applier.cluster import LOCAL_CLUSTER, ClusterName, Reader, parse_cluster_name
from gitops.errors import GitopsError
from gitops.fleet.cluster_record import ClusterRecord, SourceSummary, read_cluster_records
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.fleet_objects import clusters_in, placements_in
from gitops.fleet.fleet_record import read_accepted
from gitops.fleet.placement import Placement
from gitops.fleet.placing import choose_clusters
from gitops.records.display_state import DisplayState
from gitops.rollouts.source_rules import StoredRules, stored_documents
from renderer.frozen import dataclass
from renderer.phrasing import suggestion_or_names


class UnknownCluster(GitopsError):
    """Error of an unknown cluster name. The text lists clusters with similar names, or all clusters of the fleet."""


@dataclass(frozen=True, slots=True)
class PlacementProgress:
    """Progress of one placement of a source."""

    source: str
    placement: Placement
    selected: tuple[ClusterName, ...]
    """Clusters that the labels of the placement select."""
    chosen: tuple[ClusterName, ...]
    """Clusters of `selected` that get the objects."""
    unsettled: Mapping[ClusterName, str]
    """Reason for each chosen cluster that is not settled."""

    @property
    def settled_count(self) -> int:
        return len(self.chosen) - len(self.unsettled)


@dataclass(frozen=True, slots=True)
class FleetOverview:
    """Clusters and placements of a fleet. If `records` is empty, the cluster is not a hub."""

    records: Mapping[ClusterName, ClusterRecord]
    """Recorded state of each cluster."""
    declared: Mapping[ClusterName, ClusterSpec]
    """Declaration in force of each cluster in Git."""
    placements: tuple[PlacementProgress, ...]

    @classmethod
    async def from_hub(cls, hub: Reader) -> FleetOverview:
        """Read the fleet from its hub. Raises: ClusterError."""
        records = {name: stored.record for name, stored in (await read_cluster_records(hub)).items()}
        return cls.from_records(records, await read_accepted(hub) if records else {})

    @classmethod
    def from_records(
        cls, records: Mapping[ClusterName, ClusterRecord], accepted: Mapping[str, StoredRules]
    ) -> FleetOverview:
        """Return the fleet with the clusters of `records`.

        Args:
            accepted: declarations in force, by source.
        """
        documents = {source: tuple(stored_documents(rules)) for source, rules in sorted(accepted.items())}
        clusters = (cluster for found in documents.values() for cluster in clusters_in(found))
        declared = {cluster.name: cluster for cluster in sorted(clusters, key=lambda cluster: cluster.name)}
        placements = (
            _progress(source, placement, declared, records)
            for source, found in documents.items()
            for placement in sorted(placements_in(found), key=lambda placement: placement.name)
        )
        return cls(records, declared, tuple(placements))

    @property
    def names(self) -> tuple[ClusterName, ...]:
        """Return the names of all recorded or declared clusters, sorted."""
        return tuple(sorted({*self.records, *self.declared}))

    @property
    def unsettled(self) -> tuple[ClusterName, ...]:
        """Return the names of the member clusters with an unsettled placement, sorted."""
        names = {name for progress in self.placements for name in progress.unsettled}
        return tuple(sorted(names - {LOCAL_CLUSTER}))

    def find(self, text: str) -> ClusterName:
        """Return `text` as the name of a cluster in the fleet. Raises: UnknownCluster for any other text."""
        try:
            name = parse_cluster_name(text)
        except ValueError as error:
            raise UnknownCluster(str(error)) from None
        if name not in self.names and name != LOCAL_CLUSTER:
            hint = suggestion_or_names(text, self.names)
            advice = "; the chosen cluster has no record of a fleet, so choose the hub with --context or --kubeconfig"
            raise UnknownCluster(f"the fleet of this hub has no cluster {text!r}{hint or advice}")
        return name

    def spec_of(self, name: ClusterName) -> ClusterSpec | None:
        """Return the declaration of a cluster in Git, or else its last recorded declaration, or None."""
        record = self.records.get(name)
        return self.declared.get(name) or (record.spec if record else None)

    def placements_called(self, name: str) -> tuple[PlacementProgress, ...]:
        """Return the placements called `name`. Each source can have one placement of this name."""
        return tuple(progress for progress in self.placements if progress.placement.name == name)


def _progress(
    source: str,
    placement: Placement,
    declared: Mapping[ClusterName, ClusterSpec],
    records: Mapping[ClusterName, ClusterRecord],
) -> PlacementProgress:
    chosen = tuple(sorted(choose_clusters(placement, declared.values())))
    reasons = ((name, _unsettled_reason(records.get(name), source)) for name in chosen)
    return PlacementProgress(
        source=source,
        placement=placement,
        selected=tuple(name for name, spec in declared.items() if placement.clusters.matches(spec.labels)),
        chosen=chosen,
        unsettled={name: reason for name, reason in reasons if reason},
    )


def _unsettled_reason(record: ClusterRecord | None, source: str) -> str:
    """Return why `source` is not settled in the cluster of `record`, or an empty string for a settled source."""
    if record is None:
        return "not connected yet"
    if not record.is_current:
        return f"{record.state or 'not connected yet'}{f': {record.message}' if record.message else ''}"
    summary = record.sources.get(source)
    return "not applied there yet" if summary is None else describe_wait(summary)


def describe_wait(summary: SourceSummary) -> str:
    """Return the cause that makes a source wait in a cluster, as `Reason: message`.

    If the source is settled, return an empty string. If an unsettled source has no cause, return its state.
    """
    return summary.waits_for or ("" if summary.state == DisplayState.SETTLED else summary.state)
