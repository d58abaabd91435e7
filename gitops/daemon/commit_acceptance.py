"""Acceptance of a new commit of a source: take it, or hold it until a person agrees.

A commit may require that its plan is the one that a person has read. The plan is then computed again against the live
cluster, and its hash is compared. The command line, or the trailer `Levelgate-Plan` of the commit, names the expected hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from applier.causes import Reason
from applier.cluster import Cluster, Object
from gitops.clock import Clock
from gitops.daemon.git_servers import GitServerLimits
from gitops.errors import GitopsError, SourceError
from gitops.reconcile.source_acceptance import AcceptedCommit, HeldCommit, objection, unsigned
from gitops.reconcile.sources import SourceState, state_of, unavailable_state
from gitops.records.source_record import SourceRecord, is_approved
from gitops.source import Mirror
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

PLAN_TRAILER = "Levelgate-Plan"


class PlanHashMismatch(GitopsError):
    """The plan is not the one that was agreed to; nothing was written."""


async def require_plan_hash(
    cluster: Cluster, state: SourceState, required_hash: str, *, clock: Clock, cluster_name: str
) -> None:
    """Raises PlanHashMismatch where the plan of this source is another one, ClusterError where the cluster cannot be read."""
    from gitops.plan import planner  # a plan is made for a few commits only, and costs start-up
    from gitops.plan.report import is_same

    plan = await planner.plan_against_cluster(cluster, state, clock=clock, cluster_name=cluster_name)
    if not is_same(required_hash, plan.hash):
        source = plan.source
        raise PlanHashMismatch(
            f"source {source}: the plan is {plan.hash} now, not {required_hash}: Git or the cluster has moved, and nothing was written; "
            f"read it with `levelgate plan` and --source {source}, and require its hash"
        )


async def plan_mismatch(
    cluster: Cluster, state: SourceState, trailer_hash: str, *, clock: Clock, cluster_name: str
) -> HeldCommit | None:
    """Why the commit of this state may not be taken: the plan that its trailer says (`said`) is not its plan. Raises ClusterError."""
    from gitops.plan import planner  # a plan is made for a few commits only, and costs start-up
    from gitops.plan.report import is_same

    plan = await planner.plan_against_cluster(cluster, state, clock=clock, cluster_name=cluster_name)
    if is_same(trailer_hash, plan.hash):
        return None
    claim = f"was made for plan {trailer_hash}" if trailer_hash else f"names no plan in a trailer {PLAN_TRAILER}"
    commit = state.catalog.commit
    return HeldCommit(commit, f"commit {commit[:7]} {claim}, and its plan is {plan.hash}", Reason.APPROVAL_REQUIRED)


@dataclass(frozen=True, slots=True)
class CommitAcceptance:
    """One source: as it was read last, if it was (`known`), its record in the cluster, and what the configuration says of it."""

    name: str
    mirror: Mirror
    last_state: SourceState | None
    record: Object | None
    config: SourceConfig | None
    governors: frozenset[str]
    cluster: Cluster
    cluster_name: str
    clock: Clock
    server_limits: GitServerLimits
    notice: Callable[[str, str], None]

    async def find_held_commit(self, current_commit: AcceptedCommit, new_commit: AcceptedCommit) -> HeldCommit | None:
        """What a person has to agree to before the source goes on; None: nothing. Raises SourceError and ClusterError."""
        run, mirror, record = self.server_limits.run, self.mirror, self.record
        held_commit = await run(mirror, objection, mirror, current_commit, new_commit, record)
        unpinned = (
            self.last_state.unpinned if self.last_state else SourceRecord.from_object(record or {}).commit_before_pin
        )
        if held_commit and unpinned:
            held_commit = await run(
                mirror, objection, mirror, current_commit._replace(commit=unpinned), new_commit, record
            )
        if held_commit or not self.config:
            return held_commit
        if signers := self.config.verification:
            held_commit = await run(mirror, unsigned, mirror, signers, current_commit.commit, new_commit.commit, record)
        if held_commit is None and self.config.require_plan and new_commit.commit != current_commit.commit:
            held_commit = await self._find_plan_mismatch(self.config, new_commit.commit)
        return held_commit

    async def read_state(
        self, current_commit: AcceptedCommit, new_commit: AcceptedCommit, held_commit: HeldCommit | None
    ) -> SourceState:
        """The source at the commit that it has come to, or as it was before, with the offer of that one. Raises SourceError where it was nowhere."""
        state = self.last_state
        if held_commit is None or state is None:
            target_commit = current_commit if held_commit else new_commit
            state = replace(await self._read_commit(target_commit.commit, held_commit), version=target_commit.version)
        if held_commit:
            self.notice(self.name, f"HELD: {held_commit.why}; {self._advice(held_commit)}")
        return replace(state, offer=held_commit, pin=None, unpinned="")

    async def _read_commit(self, commit: str, held_commit: HeldCommit | None) -> SourceState:
        """The source at this commit. Where a person has to agree before it goes on to the one that is offered, and the copy is lost, it stays there
        unread.
        """
        if held_commit and not commit:
            raise SourceError(str(self.mirror.target), held_commit.why, advice=self._advice(held_commit))
        try:
            snapshot = await self.server_limits.run(self.mirror, self.mirror.read_snapshot, commit)
        except SourceError:
            if held_commit is None:
                raise
            message = f"commit {commit[:7]} is no longer in any copy: {held_commit.why}"
            return unavailable_state(self.name, self.mirror.target, commit, message)
        self.notice(self.name, f"{snapshot.revision[:7]}  {snapshot.subject}")
        return state_of(self.name, self.mirror.target, snapshot, self.last_state.catalog if self.last_state else None)

    async def _find_plan_mismatch(self, config: SourceConfig, commit: str) -> HeldCommit | None:
        """Why a commit that has to be one that somebody planned may not be taken; an approval of the commit stands for its plan."""
        target = self.mirror.target
        if is_approved(self.record, commit, target.path):
            return None
        snapshot = await self.server_limits.run(self.mirror, self.mirror.read_snapshot, commit)
        state = state_of(self.name, target, snapshot, self.last_state.catalog if self.last_state else None)
        state = state.configured(config, self.governors)
        return await plan_mismatch(self.cluster, state, snapshot.plan, clock=self.clock, cluster_name=self.cluster_name)

    def _advice(self, held_commit: HeldCommit) -> str:
        return f"to accept it: levelgate approve source/{self.name} --commit {held_commit.commit[:12]}"
