"""Acceptance of a new commit of a source, or a hold until a person approves the commit.

A commit may require the hash of the plan that a person has read. In this case, Levelgate plans the commit again against
the live cluster, and compares the hash of the new plan with the required hash. The required hash is on the command
line, or in the trailer `Levelgate-Plan` of the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from applier.causes import Reason
from applier.cluster import Cluster, Object
from gitops.clock import Clock
from gitops.daemon.git_servers import GitThreadLimits
from gitops.errors import GitopsError, SourceError
from gitops.reconcile.source_acceptance import AcceptedCommit, HeldCommit, objection, unsigned
from gitops.reconcile.sources import SourceState, state_of, unavailable_state
from gitops.records.source_record import SourceRecord, is_approved
from gitops.source import Mirror
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

PLAN_TRAILER = "Levelgate-Plan"


class PlanHashMismatch(GitopsError):
    """Error of a commit whose plan hash differs from the required hash, so that the process writes nothing."""


async def require_plan_hash(
    cluster: Cluster, state: SourceState, required_hash: str, *, clock: Clock, cluster_name: str
) -> None:
    """Check that the plan of the source has the hash `required_hash`.

    Raises: PlanHashMismatch if the plan has a different hash; ClusterError if a read of the cluster fails.
    """
    from gitops.plan import planner  # few commits need a plan, and the import slows down the start
    from gitops.plan.report import is_same

    plan = await planner.plan_against_cluster(cluster, state, clock=clock, cluster_name=cluster_name)
    if not is_same(required_hash, plan.hash):
        source = plan.source
        raise PlanHashMismatch(
            f"source {source}: the plan is {plan.hash} now, not {required_hash}, because Git or the cluster has "
            f"changed; the run writes nothing; read the plan with `levelgate plan` and --source {source}, "
            "and require the new hash"
        )


async def plan_mismatch(
    cluster: Cluster, state: SourceState, trailer_hash: str, *, clock: Clock, cluster_name: str
) -> HeldCommit | None:
    """Return the commit of `state` as held, or None if the plan of the commit has the hash `trailer_hash`.

    Raises: ClusterError.
    """
    from gitops.plan import planner  # few commits need a plan, and the import slows down the start
    from gitops.plan.report import is_same

    plan = await planner.plan_against_cluster(cluster, state, clock=clock, cluster_name=cluster_name)
    if is_same(trailer_hash, plan.hash):
        return None
    claim = f"was made for plan {trailer_hash}" if trailer_hash else f"has no plan hash in a trailer {PLAN_TRAILER}"
    commit = state.catalog.commit
    return HeldCommit(commit, f"commit {commit[:7]} {claim}, and its plan is {plan.hash}", Reason.APPROVAL_REQUIRED)


@dataclass
class CommitAcceptance:
    """Acceptance of commits of one source."""

    name: str
    mirror: Mirror
    last_state: SourceState | None
    """Newest state, or None before the first read of the source."""

    record: Object | None
    """Record of the source in the cluster."""

    config: SourceConfig | None
    governors: frozenset[str]
    """Sources whose windows and policies govern all sources."""

    cluster: Cluster
    cluster_name: str
    clock: Clock
    thread_limits: GitThreadLimits
    notice: Callable[[str, str], None]

    async def find_held_commit(self, current_commit: AcceptedCommit, new_commit: AcceptedCommit) -> HeldCommit | None:
        """Return `new_commit` as held if a person has to approve it, or None. Raises: SourceError, ClusterError."""
        run, mirror, record = self.thread_limits.run, self.mirror, self.record
        held_commit = await run(mirror, objection, mirror, current_commit, new_commit, record)
        unpinned = (
            self.last_state.unpinned if self.last_state else SourceRecord.from_object(record or {}).commit_before_pin
        )
        # If a pin moved the source off its branch, the new commit has to follow the commit before the pin.
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
        """Return the source at `new_commit`. With a `held_commit`, return the source at the current commit instead.

        The state at the current commit offers `held_commit` for approval.

        Raises: SourceError if the source has no current commit.
        """
        state = self.last_state
        if held_commit is None or state is None:
            target_commit = current_commit if held_commit else new_commit
            state = replace(await self._read_commit(target_commit.commit, held_commit), version=target_commit.version)
        if held_commit:
            self.notice(self.name, f"HELD: {held_commit.why}; {self._advice(held_commit)}")
        return replace(state, offer=held_commit, pin=None, unpinned="")

    async def _read_commit(self, commit: str, held_commit: HeldCommit | None) -> SourceState:
        """Return the source at `commit`.

        If a commit is held and no local copy has the current commit any more, return the source without content.
        Without content, the reconciliation writes nothing.

        Args:
            commit: new commit, or the current commit if `held_commit` is given.
        """
        if held_commit and not commit:
            raise SourceError(str(self.mirror.target), held_commit.why, advice=self._advice(held_commit))
        try:
            snapshot = await self.thread_limits.run(self.mirror, self.mirror.read_snapshot, commit)
        except SourceError:
            if held_commit is None:
                raise
            message = (
                f"no local copy contains commit {commit[:7]} any more: {held_commit.why}; {self._advice(held_commit)}"
            )
            return unavailable_state(self.name, self.mirror.target, commit, message)
        self.notice(self.name, f"{snapshot.revision[:7]}  {snapshot.subject}")
        return state_of(self.name, self.mirror.target, snapshot, self.last_state.catalog if self.last_state else None)

    async def _find_plan_mismatch(self, config: SourceConfig, commit: str) -> HeldCommit | None:
        """Return `commit` as held if the hash of its plan differs from the hash in its trailer, or None otherwise."""
        target = self.mirror.target
        if is_approved(self.record, commit, target.path):
            return None
        snapshot = await self.thread_limits.run(self.mirror, self.mirror.read_snapshot, commit)
        state = state_of(self.name, target, snapshot, self.last_state.catalog if self.last_state else None)
        state = state.configured(config, self.governors)
        return await plan_mismatch(self.cluster, state, snapshot.plan, clock=self.clock, cluster_name=self.cluster_name)

    def _advice(self, held_commit: HeldCommit) -> str:
        return f"to accept the commit, run levelgate approve source/{self.name} --commit {held_commit.commit[:12]}"
