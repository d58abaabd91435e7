"""Removal of a cluster that Git no longer declares: its deployed objects, the hub's mark there, and the hub's record.

The record is deleted last, so that after a restart the hub continues the removal.
"""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Final, NoReturn

from applier.cluster import Cluster, ClusterName
from applier.errors import ClusterError
from applier.plan.prune import PruneOutcome
from gitops.daemon.cluster_standing import StandingReporter
from gitops.daemon.fleet_environment import FleetEnvironment
from gitops.errors import GitopsError
from gitops.fleet.cluster_record import ClusterRecord, declared_document
from gitops.fleet.cluster_spec import ClusterSpec, OnRemove
from gitops.fleet.identity import release_cluster
from gitops.fleet.reach import ReachState
from gitops.fleet.reachable_cluster import ReachMonitor
from gitops.reconcile.context import ReconcileResult
from gitops.records.installation import INSTALLATION, claiming_hub
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

CHECK_SECONDS: Final = 5.0
"""Seconds between two checks whether a person has stopped the removal."""


class RemovalGivenUp(GitopsError):
    """Decision of a person to stop the removal of a cluster. The text contains the person and the reason."""


@dataclass
class ClusterRemoval:
    """Removal of one cluster. `drained` is set once no object that is to be removed is left in the cluster."""

    spec: ClusterSpec
    environment: FleetEnvironment
    reporter: StandingReporter
    drained: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def name(self) -> ClusterName:
        return self.spec.name

    @property
    def keeps_objects(self) -> bool:
        """Return whether the deployed objects stay in the cluster, so that only the mark is removed."""
        return self.spec.on_remove is OnRemove.ORPHAN

    async def begin(self) -> ClusterRecord | None:
        """Record that the cluster is being removed. Return its record, or None if the cluster is removed already.

        Raises: RemovalGivenUp, ClusterError.
        """
        recorder = self.environment.recorder
        if (record := await recorder.refresh(self.name)) is None:
            return None
        _raise_if_given_up(record)
        if self.reporter.standing.state is not ReachState.REMOVED:
            self.reporter.report(ReachState.REMOVED, f"no longer declared in Git; {self.spec.on_remove.outcome}")
        declared = declared_document(self.spec)
        await recorder.write(self.name, {**self.reporter.standing.recorded, "declared": declared})
        return record

    async def wait_until_given_up(self, monitor: ReachMonitor) -> NoReturn:
        """Wait until the removal cannot continue. A cluster may answer and still keep objects that are to be removed.

        Raises: Unavailable if the cluster does not answer now, RemovalGivenUp.
        """
        while True:
            await self.environment.clock.sleep(CHECK_SECONDS)
            monitor.check()
            if record := await self.environment.recorder.refresh(self.name):
                _raise_if_given_up(record)

    async def release(self, cluster: Cluster) -> None:
        """Remove this hub's mark from the cluster. The mark of another hub stays."""
        if claiming_hub(await cluster.get(INSTALLATION)) == self.environment.hub_id:
            await release_cluster(cluster)

    async def finish(self) -> None:
        """Delete the record of the removed cluster. Raises: ClusterError."""
        await self.environment.recorder.delete(self.name)
        self.reporter.observer.print_notice("cluster", "removed")

    async def give_up(self, reason: str) -> None:
        """Delete the record, and leave the cluster as it is. `reason` is the text of `RemovalGivenUp`."""
        notice = self.reporter.observer.print_notice
        notice("cluster", f"its removal was given up: {reason}; what lives there stays")
        try:
            await self.environment.recorder.delete(self.name)
        except ClusterError as error:
            notice("cluster", f"its record stays until the next start: {error}")

    def stand_back(self, message: str) -> None:
        """Report that the removal waits until the cluster answers. `message` contains the reason."""
        give_up = f"`levelgate cluster forget {self.name} --reason ...` gives it up"
        self.reporter.report(
            ReachState.REMOVED, f"no longer declared in Git; waits until it answers; {give_up} ({message})"
        )


def _raise_if_given_up(record: ClusterRecord) -> None:
    if record.forgotten:
        raise RemovalGivenUp(record.forgotten)


def is_drained(result: ReconcileResult) -> bool:
    """Return whether a full pass, for which Git declared nothing, has found no object to prune.

    If a person protects an object from pruning, the object and everything that it owns stay. The removal does not wait
    for such objects. If a kind cannot be listed, the kind may have further objects, so the cluster is not drained.
    """
    if result.touched is not None or result.holds_pruning or result.observed.unreadable or result.propagation.stopped:
        return False
    sets = {plan.rendered.parent: plan for plan in result.plan.sets}
    kept = {
        candidate.member.key
        for plan in sets.values()
        for candidate in plan.prune_candidates
        if candidate.outcome is PruneOutcome.KEEP and not candidate.is_protected
    }
    owners, pending = set[ObjectKey](), list(kept)
    while pending:
        if (owner := pending.pop()) in sets and owner not in owners:
            owners.add(owner)
            owned = result.observed.members.get(sets[owner].rendered.id, ())
            kept.update(owned)
            pending += owned
    return all(key in kept for plan in sets.values() for key in result.observed.members.get(plan.rendered.id, ()))
