"""The final state of sources, decided by a graph in which every change is permitted.

A final state has every instance either at its target revision or, before it moves, at the revision that it has now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from applier.cluster import Object
from applier.plan.model import CandidateChange, ChangePermissions, Plan
from gitops.decisions import plan_inputs, rules
from gitops.decisions.change_verdicts import ChangeKey, ChangeVerdict, all_verdicts
from gitops.decisions.live import is_same_objects
from gitops.decisions.permissions import IN_TURN, SetChecks
from gitops.queries import QueryGraph
from gitops.reconcile.context import Context
from gitops.reconcile.graph_step import MAX_STEPS, Decided, GraphDecider, UnsettledDecision, until_decided
from gitops.rollouts.policy import Policy
from gitops.windows.verdict import WindowVerdict
from gitops.windows.window import Window
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.manifest_hash import is_written_from
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.model import Live, NewRevision, Rendering
from renderer.render.resources import overlay

MAX_FORETELLINGS: Final = 8
"""Maximum number of times that the objects which others refer to are foretold.

Such an object may itself refer to another object, and the references may form a circle.
"""

_PERMIT_ALL: Final = ChangePermissions()


@dataclass(frozen=True, repr=False)
class FinalState:
    """Everything that is due, whatever holds it now, and what holds it."""

    bundle: Rendering
    plan: Plan
    known: Context
    verdicts: Mapping[ObjectKey, Mapping[ChangeKey, ChangeVerdict]]
    """Verdicts on the changes of each set, by its parent."""
    policies: Mapping[ObjectKey, Policy]
    """Policies of instances. An instance in no rollout, and one whose policies conflict, is left out."""
    graph: QueryGraph
    """Graph that has decided the state. It may be in another state now."""

    def verdict_of(self, change: CandidateChange) -> ChangeVerdict:
        """Return what bars a change of the plan now, and what lets it bypass closed windows."""
        return self.verdicts[change.set.parent][ChangeKey(change.key, change.operation)]

    # The windows of a change are those of the commit, in whatever state the graph is.

    def window_verdict_at(self, change: CandidateChange, moment: datetime) -> WindowVerdict:
        """Return what the windows say of a change of the plan at a moment in UTC."""
        return SetChecks(self.graph, change.set.parent, IN_TURN).window_verdict_at(change, moment)

    def wave_windows(self, kind: GroupKind, policy: Policy) -> Mapping[str, Window]:
        """Return the windows that the waves of a policy name."""
        return rules.wave_windows(self.graph, kind, policy)


@dataclass
class FinalStates:
    """Final states of the sources of one cluster, decided by one graph, one after the other."""

    decider: GraphDecider
    catalogs: Sequence[Catalog]
    _issued: tuple[NewRevision, ...] = ()
    """Revisions that are supposed to be stored."""

    async def decide(self, known: Context) -> Decided:
        """Decide the state with all instances at their targets, as if all new revisions were stored.

        Raises: ClusterError, UnsettledDecision.
        """
        self._suppose({})
        foretellings = 0
        for _ in range(MAX_STEPS):
            bundle, plan, known = await until_decided(self._step, known)
            if bundle.issued:
                self._issued += bundle.issued
                known = replace(known, archive=known.archive.with_pending_revisions(bundle.issued))
                continue
            coming = foretold(bundle, known.observed.objects)
            if is_same_objects(coming, known.foretold) or foretellings == MAX_FORETELLINGS:
                return replace(bundle, issued=self._issued), plan, known
            known, foretellings = replace(known, foretold=coming), foretellings + 1
        raise UnsettledDecision(f"revisions were issued {MAX_STEPS} times; this is a fault of Levelgate")

    async def decide_unmoved(self, known: Context) -> Decided:
        """Decide the state with all instances at the revisions that the graph has given them last.

        Raises: ClusterError, UnsettledDecision.
        """
        self._suppose(self.decider.inputs.placements)
        return await until_decided(self._step, known)

    def judge(self, bundle: Rendering, plan: Plan, known: Context) -> FinalState:
        """Return the state that was decided last, with what holds it now. Raises: Fault of a verdict."""
        graph = self.decider.graph
        verdicts = self.decider.inputs.observed(lambda: graph.answer(all_verdicts)).value or {}
        with graph.reading():
            policies = rules.policies_of(graph, bundle.instances)
        return FinalState(bundle, plan, known, verdicts, policies, graph)

    def decide_now(self) -> None:
        """Let the graph decide what may be done now, and no longer a final state."""
        with self.decider.graph.transaction() as transaction:
            transaction.set(plan_inputs.assumed_permissions.at(), None)
            transaction.set(plan_inputs.is_to_final_state.at(), False)

    async def _step(self, known: Context) -> Context | Decided:
        rendered = await self.decider.render(self.catalogs, known)
        if isinstance(rendered, Context):
            return rendered
        bundle, known = rendered
        if bundle.issued:
            return bundle, Plan(()), known
        plan = await self.decider.plan(bundle, known)
        return plan if isinstance(plan, Context) else (bundle, plan, known)

    def _suppose(self, placements: Mapping[ObjectKey, RevisionPlacement]) -> None:
        with self.decider.graph.transaction() as transaction:
            transaction.set(plan_inputs.assumed_permissions.at(), _PERMIT_ALL)
            transaction.set(plan_inputs.is_to_final_state.at(), True)
            self.decider.inputs.set_placements(transaction, placements)


def foretold(bundle: Rendering, live: Live) -> dict[ObjectKey, Object]:
    """Return the objects that others refer to and that the commit itself writes, as the commit leaves them.

    Nobody knows what controllers make of them. Each object that changes has a version of its own.
    """
    referred = {node.key for one in bundle.sets for node in one.nodes if node.external and node.key}
    nodes = (node for one in bundle.sets if referred for node in one.nodes if node.key in referred and node.writable)
    found: dict[ObjectKey, Object] = {}
    for node in nodes:
        there = live.get(node.key) if node.key else None
        if node.key and not (there and is_written_from(there, node.manifest, node.hash)):
            coming = overlay(node.manifest, there) if there else node.manifest
            found[node.key] = {**coming, "metadata": {**coming["metadata"], "resourceVersion": node.hash}}
    return found
