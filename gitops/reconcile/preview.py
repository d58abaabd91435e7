"""What a pass would do, and all that would follow. Nothing is written, but the server is asked by dry runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from applier.cluster import Cluster, Object
from applier.execute.member_writer import Rehearsal, Writer
from applier.plan.model import Plan
from applier.plan.planner import plan
from applier.read.pending_reads import Reads
from gitops.clock import Clock
from gitops.decisions import decide
from gitops.decisions.decision import Propagation
from gitops.decisions.inputs import Situation
from gitops.reconcile import foreign_sources
from gitops.reconcile.context import Known, Pass, Preview, Prospect
from gitops.reconcile.observe import FactsAt, heeding, heeding_kro, observe_all
from gitops.reconcile.sources import SourceState, users_of
from gitops.reconcile.step import Decider
from gitops.records.source_record import read_own
from renderer.catalog.catalog import written_versions
from renderer.render.cache import Memo
from renderer.render.model import Bundle, RenderedNode


async def preview(
    cluster: Cluster,
    sources: Sequence[SourceState],
    clock: Clock,
    *,
    cluster_name: str,
    facts: FactsAt | None = None,
    memo: Memo,
    own: Sequence[Object] | None = None,
) -> Preview:
    """What a process that begins now would do; `own` are the ConfigMaps of our namespace, where they were read already. Raises ClusterError only
    when the cluster cannot be read at all.
    """
    reads = Reads(cluster)
    decider = Decider(reads, clock, memo)
    sources = await heeding_kro(reads, sources, clock.now())
    catalogs = [state.catalog for state in sources]
    reads.show(written_versions(catalogs))
    own = await read_own(reads) if own is None else own
    begun = await observe_all(
        reads, sources, decider.seen, clock=clock, cluster_name=cluster_name, facts=facts, own=own
    )
    begun = await heeding(reads, await foreign_sources.beside(reads, begun, catalogs))
    writer = Writer(cluster, {}, users_of(sources))
    freely = replace(begun, propagation=Propagation())
    bundle, due, known = await decider.decide(catalogs, freely, to_the_end=True)
    rehearsal = await writer.rehearse(foreign_sources.without(due, known), known.observed)
    if rehearsal.observed.failures != known.observed.failures:
        known = replace(known, observed=rehearsal.observed)
        bundle, due, known = await decider.decide(catalogs, known, to_the_end=True)
    archive = known.archive.foreseen(bundle.issued)
    foreseen = replace(known, propagation=begun.propagation, archive=archive, foretold={})
    found, first, decided = await decider.decide(catalogs, foreseen)
    then = _prospect(bundle, due, decided, rehearsal)
    return Preview(
        first=Pass(found, foreign_sources.without(first, decided), decided.observed, (), decided.propagation),
        due=then,
        staying=await _staying(writer, found, decided, then) if _stays(found, decided.propagation) else None,
        accepted={one.source: begun.archive.rules(one.source) for one in catalogs},
        neighbours=begun.neighbours,
    )


def _prospect(bundle: Bundle, found: Plan, known: Known, rehearsal: Rehearsal) -> Prospect:
    found = foreign_sources.without(found, known)
    here = Situation(known.conditions, bundle, found, known.observed, known.archive.stored, known.propagation)
    return Prospect(here, decide.hindrances(known.propagation, here), rehearsal.answers, rehearsal.denied)


def _stays(bundle: Bundle, decided: Propagation) -> bool:
    """Is some instance not where it is to go?"""
    return bool(decided.frozen) or any(one.revision != one.aim for one in bundle.instances.values())


async def _staying(writer: Writer, bundle: Bundle, known: Known, due: Prospect) -> Prospect:
    """What is to be done while instances are rendered as in `bundle`. The server is asked of what differs from what is due; what it refuses of that
    says nothing of this.
    """
    later = {node.key: node.hash for one in due.bundle.sets for node in one.nodes if node.writable}

    def is_alike(node: RenderedNode) -> bool:
        return node.writable and later.get(node.key) == node.hash

    nodes = {node.key: node for one in bundle.sets for node in one.nodes if node.key and node.writable}
    failures = {key: why for key, why in known.observed.failures.items() if key not in nodes or is_alike(nodes[key])}
    known = replace(known, observed=replace(known.observed, failures=failures))
    found = foreign_sources.without(plan(bundle, known.observed, known.records, to_the_end=True), known)
    own = Plan(tuple(replace(one, nodes=tuple(it for it in one.nodes if not is_alike(it.node))) for one in found.sets))
    rehearsal = await writer.rehearse(own, known.observed)
    if rehearsal.observed.failures != failures:
        known = replace(known, observed=rehearsal.observed)
        found = plan(bundle, known.observed, known.records, to_the_end=True)
    answers = {**due.answers, **rehearsal.answers}
    return _prospect(bundle, found, known, replace(rehearsal, answers=answers))
