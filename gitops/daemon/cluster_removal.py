"""Removal of a cluster that Git no longer declares: its deployed objects, the hub's mark there, and the hub's record.

`FleetMember` drives a removal: `begin`, reconciliations without declared objects until `drained`, `release`, `finish`.
If the removal keeps the objects, there is no reconciliation. If the record has no UID of the cluster, the cluster
contains nothing to remove, and `finish` follows `begin`. The hub deletes the record last. So after a restart, the hub
continues the removal.
"""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Final, NoReturn

from applier.cluster import Cluster, ClusterName
from applier.errors import ClusterError
from applier.plan.prune_candidate import PruneOutcome
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
"""Seconds between two checks of the breaker, and of the record for a request to stop the removal."""


class RemovalGivenUp(GitopsError):
    """Request of a person to stop the removal of a cluster, made with `levelgate cluster forget`.

    The text has the form `PERSON: REASON`.
    """


@dataclass
class ClusterRemoval:
    """Removal of one cluster."""

    spec: ClusterSpec
    environment: FleetEnvironment
    reporter: StandingReporter
    drained: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Event that the fleet member sets as soon as the cluster contains no further object to remove."""

    @property
    def name(self) -> ClusterName:
        return self.spec.name

    @property
    def keeps_objects(self) -> bool:
        """Return whether the removal keeps the deployed objects, and deletes only the mark of the hub."""
        return self.spec.on_remove is OnRemove.ORPHAN

    async def begin(self) -> ClusterRecord | None:
        """Record the start of the removal. Return the record as it was before, or None after an earlier removal.

        The state Removed means that the hub has not yet finished the removal.

        Raises: RemovalGivenUp, ClusterError.
        """
        recorder = self.environment.recorder
        if (record := await recorder.refresh(self.name)) is None:
            return None
        _raise_if_given_up(record)
        # A removal that has waited for the cluster goes on here, so its message must no longer tell of the wait.
        # `report` only queues a write. `write` stores the state and the declaration before the removal goes on, because
        # a removal after a restart needs the `onRemove` of the declaration.
        self.reporter.report(ReachState.REMOVED, f"no longer declared in Git; {self.spec.on_remove.outcome}")
        declared = declared_document(self.spec)
        await recorder.write(self.name, {**self.reporter.standing.recorded, "declared": declared})
        return record

    async def wait_until_given_up(self, monitor: ReachMonitor) -> NoReturn:
        """Check every few seconds that the cluster answers, and that the removal may continue. Never return.

        Raises: Unavailable if the breaker of the cluster is open; RemovalGivenUp if a person stops the removal;
        ClusterError if the hub does not return the record.
        """
        while True:
            await self.environment.clock.sleep(CHECK_SECONDS)
            monitor.check()
            if record := await self.environment.recorder.refresh(self.name):
                _raise_if_given_up(record)

    async def release(self, cluster: Cluster) -> None:
        """Remove this hub's mark from the cluster. The mark of another hub stays. Raises: ClusterError."""
        if claiming_hub(await cluster.get(INSTALLATION)) == self.environment.hub_id:
            await release_cluster(cluster)

    async def finish(self) -> None:
        """Delete the record of the removed cluster. Raises: ClusterError."""
        await self.environment.recorder.delete(self.name)
        self.reporter.observer.print_notice("cluster", "removed")

    async def give_up(self, reason: str) -> None:
        """Delete the record, and keep the remaining objects and the hub's mark in the cluster.

        The cluster may not answer, so the method sends no request to the cluster.

        Args:
            reason: text of `RemovalGivenUp`.
        """
        notice = self.reporter.observer.print_notice
        notice("cluster", f"a person stopped the removal: {reason}; the objects in the cluster stay")
        try:
            await self.environment.recorder.delete(self.name)
        except ClusterError as error:
            notice("cluster", f"the record of the cluster stays until the next start: {error}")

    def stand_back(self, message: str) -> None:
        """Report that the removal waits until the cluster answers.

        Args:
            message: reason for the wait.
        """
        give_up = f"to stop the removal, run `levelgate cluster forget {self.name} --reason ...`"
        self.reporter.report(
            ReachState.REMOVED, f"no longer declared in Git; waits until the cluster answers; {give_up} ({message})"
        )


def _raise_if_given_up(record: ClusterRecord) -> None:
    if record.forgotten:
        raise RemovalGivenUp(record.forgotten)


def is_drained(result: ReconcileResult) -> bool:
    """Return whether a full reconciliation, which declares no object, has left no object to prune.

    An object with the outcome `keep`, such as an object that a person excludes from pruning, stays with all objects
    that it owns. The removal does not wait for such objects. But Levelgate later deletes an object that stays only
    until a node is written (`PruneCandidate.awaits_unwritten_node`), so the removal waits for that object.

    In these cases further objects may exist, so the cluster is not drained:

    - The reconciliation covered only some sets (`touched`).
    - Levelgate deletes nothing of a source for now (`holds_pruning`).
    - Levelgate cannot list a kind (`unreadable`).
    - A person has suspended all writes (`stopped`).
    """
    if result.touched is not None or result.holds_pruning or result.observed.unreadable or result.propagation.stopped:
        return False
    sets = {plan.rendered.parent: plan for plan in result.plan.sets}
    kept = {
        candidate.member.key
        for plan in sets.values()
        for candidate in plan.prune_candidates
        if candidate.outcome is PruneOutcome.KEEP and not candidate.awaits_unwritten_node
    }
    owners, pending = set[ObjectKey](), list(kept)
    while pending:
        if (owner := pending.pop()) in sets and owner not in owners:
            owners.add(owner)
            owned = result.observed.members.get(sets[owner].rendered.id, ())
            kept.update(owned)
            pending += owned
    return all(key in kept for plan in sets.values() for key in result.observed.members.get(plan.rendered.id, ()))
