"""The first look of a pass: all members of our sets, what is stored, and what governs now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from applier.applyset import kro
from applier.applyset.inventory import TOOL, Scope, is_intact, tool_of
from applier.cluster import Object, Reader
from applier.errors import ClusterError
from applier.plan.constraints import PlanConstraints
from applier.read import observe
from applier.state.observed import Observed, label
from gitops.clock import Clock
from gitops.decisions.decision import Decision, initial_placements
from gitops.decisions.inputs import DecisionRules
from gitops.gates.evaluate import ExternalFact
from gitops.reconcile.context import Context, ReconcileCache
from gitops.reconcile.incremental.cluster_state import ClusterState
from gitops.reconcile.incremental.scope import PartialScope
from gitops.reconcile.sources import SourceState
from gitops.records import window_calendar
from gitops.records.installation import INSTALLATION, check_format
from gitops.records.revisions import RevisionArchive
from gitops.records.rollout_records import Rollouts
from gitops.records.source_record import SourceRecord, is_approved, source_records
from gitops.rollouts.source_rules import restore_rules, unread_source_rules
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD

FactsAt = Callable[[datetime], Mapping[str, ExternalFact]]
"""The external facts that are declared, as they are at a time, without asking anybody."""


async def observe_all(
    cluster: Reader,
    sources: Sequence[SourceState],
    seen: ReconcileCache,
    *,
    clock: Clock,
    cluster_name: str,
    facts: FactsAt | None = None,
    own: Sequence[Object] | None = None,
) -> Context:
    """All members of our sets and what is stored; and for sources whose inventory is lost the members that a list of everything finds. What the
    cluster's other sources have on record counts where `own`, all ConfigMaps of our namespace, were read already.
    """
    named = {state.catalog.source for state in sources}.union(*(state.governors for state in sources))
    archive = await RevisionArchive.observe(cluster, seen.archive)
    archive = await archive.with_rules_contents(cluster, sorted(named))
    others = source_records(own or ())
    if own is None:
        own = await cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=well_known.RECORD)
    rollouts, windows = Rollouts.from_objects(own), window_calendar.find_configmap(own)
    catalogs = [state.catalog for state in sources]
    read = {catalog.source for catalog in catalogs}
    neighbours = {name: one for name, one in others.items() if name not in read}
    parents = [source_parent(catalog.source) for catalog in catalogs]
    instances = {kind for catalog in catalogs for kind in (*catalog.definitions, *catalog.broken)}
    observed = await observe.observe(cluster, parents, kinds={CRD}, whole=instances)
    used_before = {ObjectKey.from_manifest(one.crd) for one in seen.types.described.values()}
    observed = await observe.read_objects(cluster, observed, {key for key in used_before if not observed.is_known(key)})
    missing = [parent for parent in parents if _is_lost(observed.objects.get(parent))]
    lost = await observe.find_lost_members(cluster, observed, missing) if missing else {}
    reading = seen.read(clock, cluster.server_time)
    observed = replace(observed.reuse_unchanged(seen.objects), now=reading.now)
    rules = {one.source: seen.rules_of(one, archive.accepted_rules(one.source)) for one in catalogs}
    governors = {state.catalog.source: state.governors for state in sources}
    rules |= {
        name: (restore_rules if name in neighbours and neighbours[name].target else unread_source_rules)(
            name, archive.accepted_rules(name)
        )
        for name in set().union(*governors.values()) - rules.keys()
    }
    conditions = DecisionRules(
        rules,
        {},
        reading,
        cluster_name,
        suspended={state.catalog.source: state.suspend for state in sources if state.suspend},
        governors=governors,
        externals=facts(reading.now) if facts else None,
        depends_on={state.catalog.source: state.depends_on for state in sources if state.depends_on},
    )
    begun = initial_placements(observed, archive.stored_revisions)
    names = (catalog.source for catalog in catalogs)
    live = {name: obj for name in names if (obj := observed.objects.get(source_parent(name)))}
    said = {name: SourceRecord.from_object(obj) for name, obj in live.items()}
    records = _beside(_records(sources, live, said, lost), neighbours)
    # What differs in a source whose own objects were brought to this commit before is drift.
    settled = frozenset(
        one.source for one in catalogs if one.source in said and said[one.source].own_objects_commit == one.commit
    )
    known = Context(observed, archive, rollouts, windows, conditions, begun, records, settled, neighbours=neighbours)
    return known.with_rollouts(rollouts)


async def observe_part(
    cluster: Reader,
    whole: ClusterState,
    part: PartialScope,
    seen: ReconcileCache,
    *,
    clock: Clock,
    facts: FactsAt | None = None,
) -> Context:
    """The instances of a part and all members of their sets, read anew; everything else as the whole knows it."""
    everything, known = whole.observed, whole.known
    parents = frozenset(source_parent(state.catalog.source) for state in whole.sources)
    rest = parents.union(*part.around.values()) - part.roots
    objects = {key: obj for key in rest if (obj := everything.objects.get(key))} | {
        ObjectKey.from_manifest(obj): obj for obj in whole.crds
    }
    observed = Observed(everything.discovery, objects, whole.absent_crds, sets=part.ids)
    observed = await observe.list_missing_kinds(
        cluster, await observe.read_candidates(cluster, observed, part.roots), ()
    )
    reading = seen.read(clock, cluster.server_time)
    observed = replace(observed.reuse_unchanged(everything.objects), now=reading.now)
    conditions = replace(
        known.conditions,
        reading=reading,
        states=known.rollouts.states(reading.now),
        externals=facts(reading.now) if facts else None,
    )
    archive = whole.archive(part.instances)
    before = Decision(states=whole.propagation.states, source_requests=whole.propagation.source_requests)
    targets = {key: number for key in part.instances if (number := whole.granted.get(key))}
    # Of instances that wait for their turn Git's spec is not written, so it may still be a change.
    before_move = known.settled if targets else frozenset(state.catalog.source for state in whole.sources)
    settled = before_move if part.roots.isdisjoint(whole.changed_roots) else frozenset()
    return Context(
        observed,
        archive,
        known.rollouts,
        known.calendar,
        conditions,
        before,
        known.records,
        settled,
        earlier=known.earlier,
    )


async def refresh_installation(cluster: Reader, known: Context) -> Context:
    """With what a person says now of the whole installation: it is asked before every round, so that everything can be stopped soon."""
    observed = await observe.read_objects(cluster, known.observed, {INSTALLATION})
    check_format(observed.objects.get(INSTALLATION))
    return replace(known, observed=observed)


async def refresh_kro_status(cluster: Reader, sources: Sequence[SourceState], now: datetime) -> Sequence[SourceState]:
    """Who may take over from kro learns whether it runs; where that cannot be told, it counts as running."""
    if not any(state.adoption.adoptable_tools for state in sources):
        return sources
    try:
        runs = await kro.describe_running(cluster, now)
    except ClusterError as error:
        runs = f"perhaps: {error}"
    return [replace(state, adoption=replace(state.adoption, running_kro=runs)) for state in sources]


def _is_lost(parent: Object | None) -> bool:
    """Does the inventory of a source not say any more where its members are? That of another tool is not ours to find."""
    if parent is None or not label(parent, well_known.PARENT_ID):
        return True
    return tool_of(parent) == TOOL and not is_intact(parent)


def _records(
    sources: Sequence[SourceState],
    live: Mapping[str, Object],
    said: Mapping[str, SourceRecord],
    lost: Mapping[ObjectKey, Scope],
) -> PlanConstraints:
    """`live` are the ConfigMaps of the sources, `said` what stands in them."""
    scopes: dict[ObjectKey, Scope] = dict(lost)
    scope_sources: dict[ObjectKey, str] = {}
    for name, record in said.items():
        scopes |= record.scopes
        scope_sources |= dict.fromkeys(record.scopes, name)
    approved = {
        name
        for state in sources
        if (name := state.catalog.source) in live and is_approved(live[name], state.catalog.commit, state.path)
        if not (state.prunes and said[name].is_prune_disabled)  # it was no word on deletions while nothing was deleted
    }
    holds = {
        state.catalog.source: state.hold for state in sources if state.hold and state.catalog.source not in approved
    }
    found_again = "the inventory of this source was lost or changed by others; nothing is deleted until its members are known again"
    return PlanConstraints(
        scopes=scopes,
        scope_sources=scope_sources,
        unreadable_files={state.catalog.source: state.catalog.protection for state in sources},
        pruning_holds=holds
        | {state.catalog.source: found_again for state in sources if source_parent(state.catalog.source) in lost},
        approved_sources=frozenset(approved),
        adoptions={state.catalog.source: state.adoption for state in sources},
        conflict_policies={state.catalog.source: state.conflicts for state in sources},
        brakes={state.catalog.source: state.brake for state in sources},
        non_pruning_sources=frozenset(state.catalog.source for state in sources if not state.prunes),
        orphaned_keys=frozenset(key for state in sources for key in state.orphaned_keys),
    )


def _beside(records: PlanConstraints, neighbours: Mapping[str, SourceRecord]) -> PlanConstraints:
    """With what is known of sources that are not looked at: which sets are theirs, what they wait for, and what leaves them."""
    parents = {name: source_parent(name) for name in neighbours}
    claims = {key: parents[name] for name, record in neighbours.items() for key in record.claims}
    left = frozenset(key for record in neighbours.values() for key in record.prune_candidates)
    ids = {applyset_id(one): name for name, one in parents.items()}
    return replace(
        records,
        foreign_sources=ids,
        foreign_claims=claims,
        relinquished_keys=left,
        relinquished_sets=frozenset(map(applyset_id, left)),
    )
