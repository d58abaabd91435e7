"""Whom an event on an object would wake, and why, found in the cluster alone (S4-5, S4-17).

The daemon's index is built anew, by the same functions, from what the cluster keeps: each instance as it stands there, rendered from the stored
revision that it is at. What only Git says, and no pass has brought to the cluster yet, has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from applier.cluster import Cluster
from gitops.clock import Clock
from gitops.reconcile.decision_reads import DecisionReads
from gitops.reconcile.final_state import FinalStates
from gitops.reconcile.foreign_sources import definers, with_instances
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.reconcile.graph_step import GraphDecider
from gitops.reconcile.incremental.interests import (
    Roots,
    affected_sets,
    dependencies_of,
    is_watched,
    references,
    root_of,
    roots_to_reconcile,
    watch_targets,
)
from gitops.reconcile.incremental.topology import DependencyIndex, DependencyMatch
from gitops.reconcile.observe import observe_all
from gitops.reconcile.sources import SourceState
from gitops.records.installation import INSTALLATION, cluster_name
from gitops.records.references import Ref, RefError, find_key
from gitops.records.source_record import SourceRecord, read_records
from renderer.catalog.catalog import Catalog
from renderer.errors import SourceLocation
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.kinds import CRD
from renderer.render.model import RenderedApplySet


@dataclass(frozen=True, slots=True)
class AffectedSet:
    """A set that is woken, and the pass that looks at it: over an object of a source, or (None) over everything."""

    set: RenderedApplySet
    why: DependencyMatch
    root: ObjectKey | None


@dataclass(frozen=True, slots=True)
class EventEffects:
    """What an event on `key` does. Where it is not `watched` no event is heard of; `roots` are the objects that are looked at, None where it is
    everything.
    """

    key: ObjectKey
    watched: bool
    found: tuple[AffectedSet, ...]
    roots: Roots


async def wakes(cluster: Cluster, event: Ref, subject: Ref | None, namespace: str, *, clock: Clock) -> EventEffects:
    """Of an event on the object that `event` names, alive or not; with a `subject` only what is woken of it: an instance, a node, a source, a
    definition or its rollout. Raises RefError, ClusterError.
    """
    key = await find_key(cluster, event, namespace)
    about = await find_key(cluster, subject, namespace) if subject and not subject.own_type else None
    obj = await cluster.get(key, metadata_only=True)
    if obj is None:
        version = (await cluster.discover()).resources[key.group_kind].api_version
        obj = {"apiVersion": version, "kind": key.kind, "metadata": {"name": key.name, "namespace": key.namespace}}
    records = await read_records(cluster)
    states = [SourceState(one) for one in await _catalogs(cluster, records)]
    decider = GraphDecider(DecisionReads(cluster, clock), GraphInputs())
    named = cluster_name(await cluster.get(INSTALLATION))
    known = await observe_all(cluster, states, decider.reads.seen, clock=clock, cluster_name=named)
    catalogs = [with_instances(state.catalog, known.observed.objects.values()) for state in states]
    decider.begin(known)
    bundle, plan, known = await FinalStates(decider, catalogs).decide_unmoved(known)
    topology = DependencyIndex()
    for one in plan.sets:
        topology.set_dependencies(one.rendered.parent, dependencies_of(one))
    heard = {*watch_targets(known.observed), *(found for one in plan.sets for found in references(one))}
    sets = {one.parent: one for one in bundle.sets}
    whom = affected_sets(bundle, topology, obj)
    found = [AffectedSet(sets[parent], why, root_of(bundle, key, parent)) for parent, why in whom.items()]
    return EventEffects(
        key,
        any(is_watched(one, obj) for one in heard),
        tuple(one for one in found if subject is None or _concerns(one, subject, about)),
        roots_to_reconcile(bundle, key, whom),
    )


async def _catalogs(cluster: Cluster, records: Sequence[tuple[str, SourceRecord]]) -> list[Catalog]:
    """Of each source the kinds that it defines, to be rendered from their stored revisions."""
    defined = definers(await cluster.list(CRD), [name for name, _ in records])
    return [
        Catalog(
            name, record.target, broken={kind: SourceLocation() for kind, source in defined.items() if source == name}
        )
        for name, record in records
    ]


def _concerns(wake: AffectedSet, subject: Ref, about: ObjectKey | None) -> bool:
    match subject.own_type:
        case "source":
            return wake.set.source == subject.name
        case "rgd" | "rollout":
            return wake.set.definition == subject.name
        case "window":
            raise RefError(f"no event enqueues {subject}: a window is read from Git, and opens by time")
    nodes = {node.id for node in wake.set.nodes if node.key == about}
    if wake.set.parent == about:
        return not subject.node or subject.node in wake.why.nodes
    return not nodes.isdisjoint(wake.why.nodes)
