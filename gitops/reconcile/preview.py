"""Preview of a reconciliation: what it would do first, and everything that would follow.

A preview writes nothing, and asks the API server by dry runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from applier.cluster import Cluster, Object
from applier.errors import Denied
from applier.execute.dry_run import DryRunResult, dry_run_plan
from applier.execute.member_writer import MemberWriter
from applier.plan.model import ApplySetPlan, Barrier, Plan
from applier.read.pending_reads import PendingReads
from applier.state.observed import Observed
from gitops.clock import Clock
from gitops.decisions import rules
from gitops.decisions.decision import Decision
from gitops.reconcile import foreign_sources
from gitops.reconcile.context import Context, ReconcileResult
from gitops.reconcile.decision_reads import DecisionReads
from gitops.reconcile.final_state import FinalState, FinalStates
from gitops.reconcile.foreign_sources import restrict_to_read_sources
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.reconcile.graph_step import MAX_STEPS, Decided, GraphDecider, UnsettledDecision
from gitops.reconcile.left_behind import find_places, search
from gitops.reconcile.observe import FactsAt, observe_all, refresh_installation, refresh_kro_status
from gitops.reconcile.sources import SourceState, users_of
from gitops.records.left_behind import LeftBehindMember
from gitops.records.source_record import SourceRecord, read_own_configmaps
from gitops.rollouts.source_rules import StoredRules
from renderer.catalog.catalog import Catalog, written_versions
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedNode, Rendering


# Without a representation, because asyncio formats the results of tasks, and these values hold everything.
@dataclass(frozen=True, repr=False)
class EventualPlan:
    """Everything that is due in the end, whatever holds it now, with the answers of dry runs."""

    state: FinalState
    plan: Plan
    """The plan of the state, without the sets of sources that are not read from Git."""
    answers: Mapping[ObjectKey, tuple[Object, Object]]
    """Each live object that the server would change: as it is, and as it would be."""
    denied: Mapping[ObjectKey, Denied]
    """Objects that may not be read or changed in a dry run. The server says nothing else about them."""

    @property
    def bundle(self) -> Rendering:
        return self.state.bundle

    @property
    def observed(self) -> Observed:
        return self.state.known.observed

    @property
    def now(self) -> datetime:
        return self.state.known.now

    @cached_property
    def plans(self) -> Mapping[ObjectKey, ApplySetPlan]:
        """The plan of each instance."""
        return {one.rendered.parent: one for one in self.plan.sets if not one.rendered.is_source}


@dataclass(frozen=True, slots=True, repr=False)
class Preview:
    """What a reconciliation would do first, and everything that would follow."""

    first: ReconcileResult
    due: EventualPlan
    staying: EventualPlan | None
    """What is due while each instance is where `first` leaves it, or None if no instance moves later."""
    barriers: Mapping[ObjectKey, Barrier]
    """Rule by which the nodes of an instance wait for others. An instance with the default rule is left out."""
    accepted: Mapping[str, StoredRules]
    """Rules of each source that were in force before."""
    neighbours: Mapping[str, SourceRecord]
    """Records of the sources of the cluster that are not read from Git, by name."""
    left_behind: tuple[LeftBehindMember, ...]
    """Members without their label that the commit does not want."""


async def preview(
    cluster: Cluster,
    sources: Sequence[SourceState],
    clock: Clock,
    *,
    cluster_name: str,
    facts: FactsAt | None = None,
    own: Sequence[Object] | None = None,
) -> Preview:
    """Return what a process that begins now would do.

    Args:
        own: ConfigMaps of Levelgate's namespace, or None to read them.

    Raises: ClusterError if the cluster cannot be read at all.
    """
    reads = PendingReads(cluster)
    decider = GraphDecider(DecisionReads(reads, clock), GraphInputs())
    sources = await refresh_kro_status(reads, sources, clock.now())
    catalogs = [state.catalog for state in sources]
    reads.set_versions(written_versions(catalogs))
    own = await read_own_configmaps(reads) if own is None else own
    begun = await observe_all(
        reads, sources, decider.reads.seen, clock=clock, cluster_name=cluster_name, facts=facts, own=own
    )
    begun = await refresh_installation(reads, await foreign_sources.with_foreign_sources(reads, begun, catalogs))
    writer = MemberWriter(cluster, {}, users_of(sources))
    states = FinalStates(decider, catalogs)
    bundle, plan, known = await states.decide(replace(begun, propagation=Decision()))
    rehearsal = await dry_run_plan(writer, restrict_to_read_sources(plan, known), known.observed)
    if rehearsal.observed.failures != known.observed.failures:
        bundle, plan, known = await states.decide(replace(known, observed=rehearsal.observed))
    due = _eventual_plan(states.judge(bundle, plan, known), rehearsal)
    states.decide_now()
    foreseen = replace(known, propagation=begun.propagation, foretold={})
    found, first, decided = await _decide_first(decider, catalogs, foreseen)
    barriers = _barriers(decider, found)
    staying = await _staying(writer, states, found, decided, due) if _stays(found, decided.propagation) else None
    left_behind = await search(reads, find_places(begun, sources), sources, bundle, plan, decided)
    return Preview(
        first=ReconcileResult(
            found, restrict_to_read_sources(first, decided), decided.observed, (), decided.propagation
        ),
        due=due,
        staying=staying,
        barriers=barriers,
        accepted={one.source: begun.archive.accepted_rules(one.source) for one in catalogs},
        neighbours=begun.neighbours,
        left_behind=left_behind,
    )


async def _decide_first(decider: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> Decided:
    """Return what may be done now, as if each decision of a rollout was stored as soon as it was made.

    Raises: ClusterError, UnsettledDecision.
    """
    decider.begin(known)
    for _ in range(MAX_STEPS):
        bundle, plan, known = await decider.decide(catalogs, known)
        if known.propagation.stopped:
            return bundle, plan, known
        states = known.propagation.states
        is_changed = bool(known.rollouts.changed_names(states, includes_report=False))
        if not (is_changed or known.propagation.grants):
            plan, known = decider.explain(bundle, plan, known)
            return bundle, plan, known
        known = known.with_rollouts(known.rollouts.with_pending_states(states))
        known = replace(known, propagation=known.propagation.with_grants())
    raise UnsettledDecision(f"rollouts have decided {MAX_STEPS} times; this is a fault of Levelgate")


def _barriers(decider: GraphDecider, bundle: Rendering) -> dict[ObjectKey, Barrier]:
    """Return the rule by which the nodes of each instance wait for others, where it is not the default rule."""
    with decider.graph.reading():
        policies = rules.policies_of(decider.graph, bundle.instances)
    return {key: policy.barrier for key, policy in policies.items() if policy.barrier is not Barrier.PATH}


def _eventual_plan(state: FinalState, rehearsal: DryRunResult) -> EventualPlan:
    plan = restrict_to_read_sources(state.plan, state.known)
    return EventualPlan(state, plan, rehearsal.accepted_changes, rehearsal.denied)


def _stays(bundle: Rendering, decided: Decision) -> bool:
    """Return whether some instance is not where it is to go."""
    return bool(decided.frozen) or any(one.revision != one.target_revision for one in bundle.instances.values())


async def _staying(
    writer: MemberWriter, states: FinalStates, bundle: Rendering, known: Context, due: EventualPlan
) -> EventualPlan:
    """Return what is due while instances are rendered as in `bundle`.

    The server is asked about what differs from what is due. What it refuses of that says nothing about this plan.
    """
    later = {node.key: node.hash for one in due.bundle.sets for node in one.nodes if node.writable}

    def is_alike(node: RenderedNode) -> bool:
        return node.writable and later.get(node.key) == node.hash

    nodes = {node.key: node for one in bundle.sets for node in one.nodes if node.key and node.writable}
    failures = {key: why for key, why in known.observed.failures.items() if key not in nodes or is_alike(nodes[key])}
    known = replace(known, observed=replace(known.observed, failures=failures))
    bundle, plan, known = await states.decide_unmoved(known)
    found = restrict_to_read_sources(plan, known)
    own = Plan(tuple(replace(one, nodes=tuple(it for it in one.nodes if not is_alike(it.node))) for one in found.sets))
    rehearsal = await dry_run_plan(writer, own, known.observed)
    if rehearsal.observed.failures != failures:
        bundle, plan, known = await states.decide_unmoved(replace(known, observed=rehearsal.observed))
    answers = {**due.answers, **rehearsal.accepted_changes}
    return _eventual_plan(states.judge(bundle, plan, known), replace(rehearsal, accepted_changes=answers))
