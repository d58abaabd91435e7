"""Decisions about some objects of sources, by the graph that decides about all.

The graph knows everything as the last looks have found it. A part sets what it has read itself, and asks for its own
sets alone. So what it lets start rests on objects that it has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from applier.applyset.completed_jobs import completion_record
from applier.plan.model import ApplySetPlan, CandidateChange, NodeAction, Plan
from applier.state.observed import annotation
from gitops.decisions.decision import suspended_decision
from gitops.decisions.declarations import Root
from gitops.decisions.definitions import read_record
from gitops.decisions.permissions import IN_TURN, SetChecks
from gitops.decisions.placements import PLACEMENTS
from gitops.decisions.renderings import NODE_PLANS, RENDERED_OBJECTS, SET_PLANS
from gitops.decisions.unread_objects import UNREAD_OBJECTS
from gitops.queries import Answer, QueryGraph, Roots
from gitops.reconcile import missing_reads
from gitops.reconcile.context import Context
from gitops.reconcile.decision_reads import DecisionReads
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.reconcile.graph_reports import explained_decision
from gitops.reconcile.graph_step import K, V, until_decided
from gitops.reconcile.incremental.cluster_state import ClusterState
from gitops.reconcile.incremental.scope import PartialScope
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, Rendering


@dataclass(frozen=True, slots=True)
class PartDecider:
    """Decides about the objects of `part`. What `whole` knows holds for everything else."""

    reads: DecisionReads
    inputs: GraphInputs
    whole: ClusterState
    part: PartialScope
    catalogs: Sequence[Catalog]

    @property
    def graph(self) -> QueryGraph:
        return self.inputs.graph

    async def decide(self, known: Context) -> tuple[Rendering, Plan, Context]:
        """Return the rendering and the plan of the part, and what is known after all reads that they ask for.

        Raises: ClusterError, UnsettledDecision.
        """
        return await until_decided(self._step, known)

    async def _step(self, known: Context) -> Context | tuple[Rendering, Plan, Context]:
        reads, cluster, before = self.reads, self.reads.cluster, self.whole.objects
        known = await reads.refresh(known)
        self._follow(replace(known, records=reads.constraints_now(known)))
        with reads.stage("render"):
            bundle = self._rendering(known)
        if (read := await missing_reads.read_definitions(cluster, bundle, known)) is not known:
            return read
        if (read := await missing_reads.list_kinds(cluster, bundle, known)) is not known:
            return read
        if (read := await missing_reads.read_unseen(cluster, bundle, self.inputs.objects, known, before)) is not known:
            return read
        if self._place(bundle):
            return known
        if unread := self._unread_objects(bundle):
            return await missing_reads.read_candidates(cluster, unread, known, before)
        with reads.stage("plan"):
            decided = self._plan(bundle, known)
        if unproven := set(_creations(decided, known)):
            return await missing_reads.read_candidates(cluster, unproven, known, before)
        if (read := await missing_reads.read_objects(cluster, bundle, decided, known, before)) is not known:
            return read
        if still := suspended_decision(bundle, known.observed, known.conditions.states, known.now):
            return bundle, decided, replace(known, propagation=still)
        if bundle.issued:
            return bundle, decided, known
        if (read := await missing_reads.read_foreign_sources(cluster, decided, known)) is not known:
            return read
        return self._explained(bundle, decided, known)

    def _follow(self, known: Context) -> None:
        inputs = self.inputs
        with inputs.following_part(self.catalogs, known, self.part.instances) as transaction:
            inputs.set_decision_inputs(transaction, known, self.whole.granted)
            applied = {key: source in known.settled for source, key in self._objects if key in self.part.roots}
            inputs.set_applied_nodes(transaction, applied)

    @property
    def _objects(self) -> Iterator[Root]:
        """The objects of the part, and those on which they depend in their sources."""
        return (Root(source, key) for source, keys in self.part.around.items() for key in sorted(keys))

    def _rendering(self, known: Context) -> Rendering:
        """Return the rendering of the part, with the records that have to be read first."""
        sources, instances = dict[str, RenderedApplySet](), dict[ObjectKey, RenderedApplySet]()
        records, found = set[str](), Rendering({}, {})
        for root in self._objects:
            answer = self._answer(RENDERED_OBJECTS, root)
            assert answer.value is not None
            found, source = answer.value, answer.value.sources[root.source]
            nodes = sources[root.source].nodes if root.source in sources else ()
            is_applied = root.source in known.settled
            sources[root.source] = replace(source, nodes=(*nodes, *source.nodes), is_applied=is_applied)
            if root.key in self.part.instances:
                instances |= found.instances
                records.update(record for (record,) in answer.unread_of(read_record))
        return replace(found, sources=sources, instances=instances, unread=frozenset(records))

    def _unread_objects(self, bundle: Rendering) -> frozenset[ObjectKey]:
        found = (self._answer(UNREAD_OBJECTS, key).value for key in bundle.instances)
        return frozenset[ObjectKey]().union(*filter(None, found))

    def _plan(self, bundle: Rendering, known: Context) -> Plan:
        self.inputs.observe_progress()
        sources = (self._source_plan(rendered, known) for rendered in bundle.sources.values())
        instances = (self._answer(SET_PLANS, key).value for key in bundle.instances)
        return Plan((*sources, *(one for one in instances if one)))

    def _source_plan(self, rendered: RenderedApplySet, known: Context) -> ApplySetPlan:
        """Return the plan of some nodes of a source. Whether its parent is as it has to be is known from the whole set."""
        parent, observed = known.observed.objects.get(rendered.parent), known.observed
        whole = self.whole.plans[rendered.parent]
        roots = (Root(rendered.source, node.key) for node in rendered.nodes if node.key)
        nodes = tuple(planned.plan for root in roots if (planned := self._answer(NODE_PLANS, root).value))
        completed = completion_record(rendered, observed, is_partial=True)
        recorded = annotation(parent, well_known.COMPLETED) if parent else ""
        return ApplySetPlan(
            rendered,
            parent,
            whole.current_scope,
            nodes,
            completion_record=completed,
            superset_scope=whole.current_scope if completed != recorded else whole.superset_scope,
            error=whole.error,
            parent_error=whole.parent_error,
        )

    def _answer(self, roots: Roots[K, V], key: K) -> Answer[K, V]:
        """Return an answer that lacks no first observation of a directive. Raises: Fault of a query."""
        return self.inputs.observed(lambda: self.graph.answer_of(roots, key))

    def _place(self, bundle: Rendering) -> bool:
        """Render instances from the revisions that are decided now. Return whether any revision is another one."""
        placed = {key: self._answer(PLACEMENTS, key).value for key in bundle.instances}
        changed = {key: one for key, one in placed.items() if one and one != self.inputs.placements.get(key)}
        if changed:
            with self.graph.transaction() as transaction:
                self.inputs.update_placements(transaction, changed)
        return bool(changed)

    def _explained(self, bundle: Rendering, decided: Plan, known: Context) -> tuple[Rendering, Plan, Context]:
        found = explained_decision(self.inputs, bundle, decided, known)
        final = found.with_causes(decided)
        plain = [change for change in final.changes if change.key in self.part.plain]
        found = replace(
            found.with_edges(final),
            has_overrides=any(self._checks(change).override_record(change) for change in final.changes),
            draining=frozenset(change.key for change in plain if self._checks(change).all_causes(change)),
        )
        gated = known.gated | {one.rendered.parent for one in final.sets if one.needs_applied_snapshot}
        return bundle, final, replace(known, propagation=found, gated=gated)

    def _checks(self, change: CandidateChange) -> SetChecks:
        return SetChecks(self.graph, change.set.parent, IN_TURN)


def _creations(decided: Plan, known: Context) -> Iterator[ObjectKey]:
    """Yield the objects to create that this look has not shown to be absent."""
    for node in (node for one in decided.sets for node in one.nodes):
        is_creation = node.allowed and node.live is None and node.action not in _NO_WRITES
        if is_creation and node.node.key and not known.observed.is_known(node.node.key):
            yield node.node.key


_NO_WRITES: Final = (NodeAction.NONE, NodeAction.READ, NodeAction.UNKNOWN)
