"""Whether a source takes the commit that its ref has come to, or stands where it is until a person agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from applier.cluster import Cluster, Object
from gitops.clock import Clock
from gitops.daemon.doors import GitServerLimits
from gitops.errors import SourceError
from gitops.reconcile.source_acceptance import AcceptedCommit, HeldCommit, objection, unsigned
from gitops.reconcile.sources import SourceState, state_of, unavailable_state
from gitops.records.source_record import SourceRecord, is_approved
from gitops.source import Mirror
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class CommitAcceptance:
    """One source: as it was read last, if it was (`known`), its record in the cluster, and what the configuration says of it."""

    name: str
    mirror: Mirror
    known: SourceState | None
    record: Object | None
    config: SourceConfig | None
    governors: frozenset[str]
    cluster: Cluster
    cluster_name: str
    clock: Clock
    doors: GitServerLimits
    notice: Callable[[str, str], None]

    async def offer(self, before: AcceptedCommit, after: AcceptedCommit) -> HeldCommit | None:
        """What a person has to agree to before the source goes on; None: nothing. Raises SourceError and ClusterError."""
        through, mirror, record = self.doors.run, self.mirror, self.record
        offer = await through(mirror, objection, mirror, before, after, record)
        unpinned = self.known.unpinned if self.known else SourceRecord.read(record or {}).unpinned
        if offer and unpinned:
            offer = await through(mirror, objection, mirror, before._replace(commit=unpinned), after, record)
        if offer or not self.config:
            return offer
        if signers := self.config.verification:
            offer = await through(mirror, unsigned, mirror, signers, before.commit, after.commit, record)
        if offer is None and self.config.require_plan and after.commit != before.commit:
            offer = await self._unplanned(self.config, after.commit)
        return offer

    async def state(self, before: AcceptedCommit, after: AcceptedCommit, offer: HeldCommit | None) -> SourceState:
        """The source at the commit that it has come to, or as it was before, with the offer of that one. Raises SourceError where it was nowhere."""
        known = self.known
        if offer is None or known is None:
            stand = before if offer else after
            known = replace(await self._stand(stand.commit, offer), version=stand.version)
        if offer:
            self.notice(self.name, f"HELD: {offer.why}; {self._advice(offer)}")
        return replace(known, offer=offer, pin=None, unpinned="")

    async def _stand(self, commit: str, offer: HeldCommit | None) -> SourceState:
        """The source at this commit. Where a person has to agree before it goes on to the one that is offered, and the copy is lost, it stays there
        unread.
        """
        if offer and not commit:
            raise SourceError(str(self.mirror.target), offer.why, advice=self._advice(offer))
        try:
            snapshot = await self.doors.run(self.mirror, self.mirror.snapshot, commit)
        except SourceError:
            if offer is None:
                raise
            why = f"commit {commit[:7]} is in no copy any more: {offer.why}"
            return unavailable_state(self.name, self.mirror.target, commit, why)
        self.notice(self.name, f"{snapshot.revision[:7]}  {snapshot.subject}")
        return state_of(self.name, self.mirror.target, snapshot, self.known.catalog if self.known else None)

    async def _unplanned(self, config: SourceConfig, commit: str) -> HeldCommit | None:
        """Why a commit that has to be one that somebody planned may not be taken; an approval of the commit stands for its plan."""
        from gitops.daemon import agreement

        target = self.mirror.target
        if is_approved(self.record, commit, target.path):
            return None
        snapshot = await self.doors.run(self.mirror, self.mirror.snapshot, commit)
        state = state_of(self.name, target, snapshot, self.known.catalog if self.known else None)
        state = state.configured(config, self.governors)
        return await agreement.plan_mismatch(
            self.cluster, state, snapshot.plan, clock=self.clock, cluster_name=self.cluster_name
        )

    def _advice(self, offer: HeldCommit) -> str:
        return f"to go there: levelgate approve source/{self.name} --commit {offer.commit[:12]}"
