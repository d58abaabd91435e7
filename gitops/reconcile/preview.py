"""What a pass would do, and all that would follow. Nothing is written, but the server is asked by dry runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from applier.cluster import Cluster, Object
from applier.execute.dry_run import DryRunResult, dry_run_plan
from applier.execute.member_writer import MemberWriter
from applier.plan.model import Plan
from applier.plan.planner import plan
from applier.read.pending_reads import PendingReads
from gitops.clock import Clock
from gitops.decisions import decide
from gitops.decisions.decision import Decision
from gitops.decisions.inputs import DecisionInputs
from gitops.reconcile import foreign_sources
from gitops.reconcile.context import Context, EventualPlan, Preview, ReconcileResult
from gitops.reconcile.left_behind import find_places, search
from gitops.reconcile.observe import FactsAt, observe_all, refresh_installation, refresh_kro_status
from gitops.reconcile.sources import SourceState, users_of
from gitops.reconcile.step import Decider
from gitops.records.source_record import read_own_configmaps
from renderer.catalog.catalog import written_versions
from renderer.render.cache import RenderCache
from renderer.render.model import RenderedNode, Rendering


async def preview(
    cluster: Cluster,
    sources: Sequence[SourceState],
    clock: Clock,
    *,
    cluster_name: str,
    facts: FactsAt | None = None,
    memo: RenderCache,
    own: Sequence[Object] | None = None,
) -> Preview:
    """What a process that begins now would do; `own` are the ConfigMaps of our namespace, where they were read already. Raises ClusterError only
    when the cluster cannot be read at all.
    """
    reads = PendingReads(cluster)
    decider = Decider(reads, clock, memo)
    sources = await refresh_kro_status(reads, sources, clock.now())
    catalogs = [state.catalog for state in sources]
    reads.set_versions(written_versions(catalogs))
    own = await read_own_configmaps(reads) if own is None else own
    begun = await observe_all(
        reads, sources, decider.seen, clock=clock, cluster_name=cluster_name, facts=facts, own=own
    )
    begun = await refresh_installation(reads, await foreign_sources.with_foreign_sources(reads, begun, catalogs))
    writer = MemberWriter(cluster, {}, users_of(sources))
    freely = replace(begun, propagation=Decision())
    bundle, due, known = await decider.decide(catalogs, freely, to_the_end=True)
    rehearsal = await dry_run_plan(writer, foreign_sources.restrict_to_read_sources(due, known), known.observed)
    if rehearsal.observed.failures != known.observed.failures:
        known = replace(known, observed=rehearsal.observed)
        bundle, due, known = await decider.decide(catalogs, known, to_the_end=True)
    archive = known.archive.with_pending_revisions(bundle.issued)
    foreseen = replace(known, propagation=begun.propagation, archive=archive, foretold={})
    found, first, decided = await decider.decide(catalogs, foreseen)
    then = _prospect(bundle, due, decided, rehearsal)
    left_behind = await search(reads, find_places(begun, sources), sources, bundle, due, decided)
    return Preview(
        first=ReconcileResult(
            found, foreign_sources.restrict_to_read_sources(first, decided), decided.observed, (), decided.propagation
        ),
        due=then,
        staying=await _staying(writer, found, decided, then) if _stays(found, decided.propagation) else None,
        accepted={one.source: begun.archive.accepted_rules(one.source) for one in catalogs},
        neighbours=begun.neighbours,
        left_behind=left_behind,
    )


def _prospect(bundle: Rendering, found: Plan, known: Context, rehearsal: DryRunResult) -> EventualPlan:
    found = foreign_sources.restrict_to_read_sources(found, known)
    here = DecisionInputs(
        known.conditions, bundle, found, known.observed, known.archive.stored_revisions, known.propagation
    )
    return EventualPlan(
        here,
        decide.all_causes(known.propagation, here),
        decide.find_overrides(known.propagation, here),
        rehearsal.accepted_changes,
        rehearsal.denied,
    )


def _stays(bundle: Rendering, decided: Decision) -> bool:
    """Is some instance not where it is to go?"""
    return bool(decided.frozen) or any(one.revision != one.target_revision for one in bundle.instances.values())


async def _staying(writer: MemberWriter, bundle: Rendering, known: Context, due: EventualPlan) -> EventualPlan:
    """What is to be done while instances are rendered as in `bundle`. The server is asked of what differs from what is due; what it refuses of that
    says nothing of this.
    """
    later = {node.key: node.hash for one in due.bundle.sets for node in one.nodes if node.writable}

    def is_alike(node: RenderedNode) -> bool:
        return node.writable and later.get(node.key) == node.hash

    nodes = {node.key: node for one in bundle.sets for node in one.nodes if node.key and node.writable}
    failures = {key: why for key, why in known.observed.failures.items() if key not in nodes or is_alike(nodes[key])}
    known = replace(known, observed=replace(known.observed, failures=failures))
    found = foreign_sources.restrict_to_read_sources(
        plan(bundle, known.observed, known.records, to_final_state=True), known
    )
    own = Plan(tuple(replace(one, nodes=tuple(it for it in one.nodes if not is_alike(it.node))) for one in found.sets))
    rehearsal = await dry_run_plan(writer, own, known.observed)
    if rehearsal.observed.failures != failures:
        known = replace(known, observed=rehearsal.observed)
        found = plan(bundle, known.observed, known.records, to_final_state=True)
    answers = {**due.answers, **rehearsal.accepted_changes}
    return _prospect(bundle, found, known, replace(rehearsal, accepted_changes=answers))
