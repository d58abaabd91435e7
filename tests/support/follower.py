"""Stand-ins for the reconciler and the mirror of a follower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from applier.applyset.inventory import Scope
from applier.cluster import Cluster, Discovery
from applier.execute.results import Result
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.state.observed import Observed
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.cluster_state import ClusterState
from gitops.reconcile.incremental.scope import WidenScope
from gitops.reconcile.left_behind import LeftBehindSearch
from gitops.reconcile.set_summaries import SetSummaries
from gitops.reconcile.sources import SourceState
from gitops.source import BranchRef, SourceSnapshot, SourceTarget, Tip
from renderer.identity import GroupKind, ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering

KEY = ObjectKey("", "ConfigMap", "default", "a")
LIVE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


def found(*, changed: bool = False, moving: bool = False) -> ReconcileResult:
    """Return a result of a reconciliation that changed something or not, with a write in flight or not."""
    parent = ObjectKey("", "ConfigMap", "levelgate-system", "source-platform")
    node = RenderedNode("a", 0, (), GroupKind("", "ConfigMap"), LIVE, KEY)
    plan = NodePlan(node, NodeAction.NONE, LIVE, ready=not moving, healthy=not moving)
    one = ApplySetPlan(RenderedApplySet(parent=parent, nodes=(node,), source="platform"), LIVE, Scope(), nodes=(plan,))
    results = (Result(parent, KEY, "created"),) if changed else ()
    due = Plan((one,))
    return ReconcileResult(Rendering({}, {}), due, Observed(Discovery({})), results, ledger=SetSummaries.of(due))


@dataclass(kw_only=True)
class IdleReconciler:
    """A reconciler without a cluster's state and without work, but for `reconcile`."""

    cluster: Cluster = field(default_factory=lambda: cluster_of(Sandbox().answer))
    whole: ClusterState | None = None
    refused: dict[ObjectKey, dict[ObjectKey, datetime]] = field(default_factory=dict)
    late: frozenset[ObjectKey] | None = None
    left_behind: LeftBehindSearch = field(default_factory=LeftBehindSearch)

    name = "local"
    pending = ()

    def heal_from(self, earlier: Any) -> None:
        """Ignore the commits to heal from."""

    def run_in_background(self, *_: object) -> None:
        pass

    def disable_retries(self) -> None:
        pass

    async def wait_until_idle(self) -> None:
        pass

    async def close(self, _: float) -> None:
        pass

    def accept(self, _: Sequence[SourceState]) -> WidenScope:
        return WidenScope("nothing is known")

    def advance_clock(self) -> frozenset[ObjectKey] | None:
        return self.late


@dataclass
class ListedMirror:
    """A mirror with one commit. It writes each question to `log`, which several mirrors may share."""

    name: str
    log: list[str]
    server: str = "https://x"
    commit: str = "1" * 40
    credential_states: tuple[object, ...] = ()

    @property
    def repository(self) -> str:
        return self.server

    @property
    def target(self) -> SourceTarget:
        return SourceTarget("https://x.example.com/x.git", BranchRef(self.name))

    @property
    def ref_names(self) -> tuple[str, ...]:
        return (self.name,)

    def list_refs(self, *names: str) -> dict[str, str]:
        self.log.append(f"{self.server} {' '.join(names)}")
        return dict.fromkeys(names, self.commit)

    def find_tip(self, refs: dict[str, str]) -> Tip:
        return Tip(self.name, refs[self.name])

    def fetch(self, tip: Tip) -> str:
        self.log.append(f"fetch {tip.name}")
        return tip.commit

    def has_commit(self, commit: str) -> bool:
        return commit == self.commit

    def find_copied_commit(self, prefix: str) -> str | None:
        return self.commit if self.commit.startswith(prefix) else None

    def is_ancestor(self, *_: str) -> bool:
        return True

    def read_snapshot(self, revision: str) -> SourceSnapshot:
        return SourceSnapshot(revision, revision, {}, (), True, "subject", "Ada", "subject", None)
