"""What a pass would do, and all that would follow. Nothing is written, but the server is asked by dry runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from applier.cluster import Cluster
from applier.plan import Records
from applier.reads import Reads
from applier.write import Writer
from gitops.clock import Clock
from gitops.passes.deciding import Decider
from gitops.passes.known import Pass, Preview
from gitops.passes.observing import FactsAt, heeding, heeding_kro, observe_all
from gitops.passes.sources import SourceState, users_of
from gitops.propagation import governor
from gitops.propagation.propagation import Propagation
from gitops.propagation.situation import Situation
from gitops.records.record import SourceRecord, read_records
from renderer.catalog import written_versions
from renderer.identity import applyset_id, source_parent
from renderer.memo import Memo


async def preview(
    cluster: Cluster, sources: Sequence[SourceState], clock: Clock, *, facts: FactsAt | None = None, memo: Memo
) -> Preview:
    """What a process that begins now would do. Raises ClusterError only when the cluster cannot be read at all."""
    reads = Reads(cluster)
    decider = Decider(reads, clock, memo)
    sources = await heeding_kro(reads, sources, clock.now())
    catalogs = [state.catalog for state in sources]
    reads.show(written_versions(catalogs))
    begun = await heeding(reads, await observe_all(reads, sources, decider.seen, clock=clock, facts=facts))
    looked_at = {catalog.source for catalog in catalogs}
    neighbours = {name: record for name, record in await read_records(reads) if name not in looked_at}
    begun = replace(begun, records=_beside(begun.records, neighbours))
    freely = replace(begun, propagation=Propagation())
    bundle, due, known = await decider.decide(catalogs, freely, to_the_end=True)
    rehearsal = await Writer(cluster, {}, users_of(sources)).rehearse(due, known.observed)
    if rehearsal.observed.failures != known.observed.failures:
        known = replace(known, observed=rehearsal.observed)
        bundle, due, known = await decider.decide(catalogs, known, to_the_end=True)
    foreseen = replace(known, propagation=begun.propagation, archive=known.archive.foreseen(bundle.issued))
    found, first, decided = await decider.decide(catalogs, foreseen)
    here = Situation(decided.conditions, bundle, due, decided.observed, decided.archive.stored, decided.propagation)
    return Preview(
        first=Pass(found, first, decided.observed, (), decided.propagation),
        bundle=bundle,
        due=due,
        situation=here,
        hindrances=governor.hindrances(decided.propagation, here),
        answers=rehearsal.answers,
        accepted={one.source: begun.archive.rules(one.source) for one in catalogs},
        neighbours=neighbours,
    )


def _beside(records: Records, neighbours: Mapping[str, SourceRecord]) -> Records:
    """With what is known of sources that are not looked at: which sets are theirs, and what they wait for."""
    parents = {name: source_parent(name) for name in neighbours}
    claims = {key: parents[name] for name, record in neighbours.items() for key in record.claims}
    return replace(records, neighbours={applyset_id(one): name for name, one in parents.items()}, claims=claims)
