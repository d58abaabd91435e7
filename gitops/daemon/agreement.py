"""Only what was agreed to: a commit is carried out if its plan is the one that somebody has read.

The plan is made anew, against the cluster as it is, and its hash compared. Somebody names the hash on the command line, or in the commit itself:
its trailer `Levelgate-Plan`.
"""

from __future__ import annotations

from applier.causes import Reason
from applier.cluster import Cluster
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.plan import planner
from gitops.plan.hashing import is_same
from gitops.reconcile.source_acceptance import HeldCommit
from gitops.reconcile.sources import SourceState

PLAN_TRAILER = "Levelgate-Plan"


class PlanHashMismatch(GitopsError):
    """The plan is not the one that was agreed to; nothing was written."""


async def require_plan_hash(
    cluster: Cluster, state: SourceState, required_hash: str, *, clock: Clock, cluster_name: str
) -> None:
    """Raises OtherPlan where the plan of this source is another one, ClusterError where the cluster cannot be read."""
    plan = await planner.plan_against_cluster(cluster, state, clock=clock, cluster_name=cluster_name)
    if not is_same(required_hash, plan.hash):
        source = plan.source
        raise PlanHashMismatch(
            f"source {source}: the plan is {plan.hash} now, not {required_hash}: Git or the cluster has moved, and nothing was written; "
            f"read it with `levelgate plan` and --source {source}, and require that one"
        )


async def plan_mismatch(
    cluster: Cluster, state: SourceState, trailer_hash: str, *, clock: Clock, cluster_name: str
) -> HeldCommit | None:
    """Why the commit of this state may not be taken: the plan that its trailer says (`said`) is not its plan. Raises ClusterError."""
    plan = await planner.plan_against_cluster(cluster, state, clock=clock, cluster_name=cluster_name)
    if is_same(trailer_hash, plan.hash):
        return None
    claim = f"was made for plan {trailer_hash}" if trailer_hash else f"says no plan in a trailer {PLAN_TRAILER}"
    commit = state.catalog.commit
    return HeldCommit(commit, f"commit {commit[:7]} {claim}, and its plan is {plan.hash}", Reason.APPROVAL_REQUIRED)
