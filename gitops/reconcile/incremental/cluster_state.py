"""What the last pass over everything knew, kept up by passes over parts: what a part rests on for all that is outside of it.

Invariant: a pass over a part changes here what it looked at itself, and nothing else. It is the memory of one process; a restart, and whatever
cannot be told from here, begins with a pass over everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, NamedTuple

from applier.cluster import Object
from applier.plan.model import ApplySetPlan, NodePlan, Plan
from applier.state.managed_fields import metadata_without_status_writes
from applier.state.observed import Observed
from applier.status import HealthResult, health, is_fresh
from gitops.decisions.decision import earliest
from gitops.decisions.explanation import CountedItem, DecidedRollout
from gitops.reconcile.context import Context, ReconcileResult
from gitops.reconcile.incremental.interests import root_instance
from gitops.reconcile.set_summaries import SetSummary
from gitops.reconcile.sources import SourceState
from gitops.reconcile.statuses import statuses
from gitops.records.pack_store import AppliedPacks
from gitops.records.revisions import RevisionArchive
from gitops.records.rollout_records import Rollouts
from gitops.rollouts.collection import Counters
from gitops.rollouts.outlook import progress_of
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import RolloutState
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject, declared_key
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, applyset_id
from renderer.kinds import CRD, is_namespaced
from renderer.render.model import RenderedApplySet, RenderedNode

Place = tuple[str, ObjectKey]
"""A source, and an object that it declares."""


class WaveCounts(NamedTuple):
    """How the items of a rollout count."""

    policy: Policy
    counters: Mapping[str, Counters]
    """Counters by name of the wave."""


class RecountedRollouts(NamedTuple):
    """What counts otherwise since the last recount."""

    rollouts: Mapping[str, WaveCounts]
    """Counts of the rollouts that decide otherwise, by name."""
    ended: frozenset[ObjectKey]
    """Instances that have settled or failed since, or do not count so any more."""
    next_change: datetime | None
    """Next time in UTC at which an item counts otherwise although nothing happens, or None."""


@dataclass
class ClusterState:
    """`sources` as they were accepted last, `begun` what that pass planned and observed of everything, `known` the rest of what it knew.

    `objects`, `instances`, `plans` (without the nodes of sources, see `plan_of`), `propagation` and the `ledger` follow what parts find, at a
    cost that the rest does not add to; `found` is all of it as one value, made where somebody asks.

    `due` are instances that the sources want otherwise than they were last brought to; `granted` those that their rollouts have let move since, with
    the revision, and that no part has looked at yet. `moved`: rollouts in which something counts otherwise since
    they were asked. `has_unreported_changes`: the
    records of sources and rollouts say something else than passes over parts have found since; `is_outdated`: those that wait for their turn do.
    """

    sources: Sequence[SourceState]
    begun: ReconcileResult
    known: Context
    packs: AppliedPacks
    next_change: datetime | None
    """See `RecountedRollouts.next_change`."""
    changed_roots: dict[ObjectKey, DeclaredObject] = field(default_factory=dict)
    granted: dict[ObjectKey, int] = field(default_factory=dict)
    rollouts_to_recompute: set[str] = field(default_factory=set)
    has_unreported_changes: bool = False
    has_stale_causes: bool = False
    _late: set[ObjectKey] = field(default_factory=set)

    def __post_init__(self) -> None:
        bundle, observed = self.begun.bundle, self.begun.observed
        self.instances = dict(bundle.instances)
        self.bundle = replace(bundle, instances=self.instances)
        self.objects = dict(observed.objects)
        self.observed = replace(observed, objects=self.objects)
        self.absent_crds = frozenset(key for key in observed.absent if key.group_kind == CRD)
        self._remembered = dict(self.begun.propagation.remembered)
        self.propagation = replace(self.begun.propagation, remembered=self._remembered)
        self.plans: dict[ObjectKey, ApplySetPlan] = {one.rendered.parent: one for one in self.begun.plan.sets}
        self.ledger = self.begun.ledger
        self.now = self.begun.now
        self._found: ReconcileResult | None = self.begun
        self.wanted: dict[ObjectKey, frozenset[str]] = {}
        for rendered in bundle.sets:
            self._want(rendered)
        self._roots = {key: root for key in bundle.instances if (root := root_instance(bundle, key))}
        self._families: dict[ObjectKey, set[ObjectKey]] = {}
        for key, root in self._roots.items():
            self._families.setdefault(root, set()).add(key)
        self._nodes = {name: {node.id: node for node in one.nodes} for name, one in bundle.sources.items()}
        self._members = dict(observed.members)
        self._used = {
            name for rendered in bundle.sources.values() for node in rendered.nodes for name in node.depends_on
        }
        self._own_plans = {
            parent: {node.node.id: node for node in one.nodes}
            for parent, one in self.plans.items()
            if one.rendered.is_source
        }
        self._order = {parent: {name: at for at, name in enumerate(own)} for parent, own in self._own_plans.items()}
        self._restless = {
            parent: {node.node.id: node for node in self.ledger.accounts[parent].restless} for parent in self._own_plans
        }
        scopes = {kind: one.namespaced for kind, one in observed.discovery.resources.items()}
        self._declared: dict[Place, DeclaredObject] = {}
        self._duplicates: dict[Place, list[DeclaredObject]] = {}
        self._places: dict[int, ObjectKey] = {}
        for state in self.sources:
            for one in state.catalog.objects:
                key = declared_key(one, namespaced=is_namespaced(one.group_kind, scopes))
                place = state.catalog.source, key
                if self._declared.setdefault(place, one) is one:
                    self._places[id(one)] = key
                else:
                    self._duplicates.setdefault(place, []).append(one)
        self._crds = [obj for key, obj in observed.objects.items() if key.group_kind == CRD]

    def _want(self, rendered: RenderedApplySet, before: RenderedApplySet | None = None) -> None:
        own = frozenset({rendered.id})
        for key in _own(before) if before else ():
            self.wanted[key] -= own
        for key in _own(rendered):
            self.wanted[key] = self.wanted[key] | own if self.wanted.get(key) else own

    @property
    def snapshot(self) -> ReconcileResult:
        """Everything as it is known now."""
        if self._found is None:
            sources = {
                name: replace(one, nodes=tuple(self._nodes[name].values())) for name, one in self.bundle.sources.items()
            }
            plans = tuple(
                replace(
                    one,
                    rendered=sources.get(one.rendered.source, one.rendered),
                    nodes=tuple(self._own_plans[key].values()),
                )
                if one.rendered.is_source
                else one
                for key, one in self.plans.items()
            )
            self._found = replace(
                self.begun,
                bundle=replace(self.bundle, sources=sources, instances=self.instances.copy()),
                plan=Plan(plans),
                observed=replace(self.observed, objects=self.objects.copy()),
                propagation=replace(self.propagation, remembered=self._remembered.copy()),
                sources=tuple(self.sources),
                now=self.now,
            )
        return self._found

    def _wake_at(self, edges: datetime | None) -> datetime | None:
        """When time alone may change something: not when it would have, before parts found otherwise."""
        return earliest(edges, self.next_change)

    @property
    def crds(self) -> Sequence[Object]:
        """All that were seen. One that changes wakes a pass over everything."""
        return self._crds

    def root_of(self, key: ObjectKey) -> ObjectKey | None:
        """The instance of a source that the instance of this key belongs to; None for what is no instance."""
        return self._roots.get(key)

    def source_of(self, key: ObjectKey) -> str:
        """The one source that declares the object of this key; empty where there is none, or more than one, or one that declares it twice."""
        found = [name for name in self.bundle.sources if (name, key) in self._declared]
        return found[0] if len(found) == 1 and (found[0], key) not in self._duplicates else ""

    def is_said_otherwise(self, place: Place, declared: DeclaredObject) -> bool:
        """Does this say something else than what was declared there? Where it stands in its file is nothing that it says."""
        before = self._declared[place]
        return (before.manifest, before.refused_reason) != (declared.manifest, declared.refused_reason)

    def place_of(self, source: str, declared: DeclaredObject) -> ObjectKey | None:
        """The key of an object as this source declares it; None if it counts for nothing, because another one is declared in its place, too."""
        key = self._places.get(id(declared))
        is_one = key is not None and (source, key) not in self._duplicates
        return key if key and is_one and self._declared.get((source, key)) is declared else None

    def family(self, roots: Iterable[ObjectKey]) -> frozenset[ObjectKey]:
        """These instances and all that are nested in them."""
        return frozenset().union(*(self._families.get(root, ()) for root in roots))

    def is_used(self, node: str) -> bool:
        """Does another object of a source depend on this one?"""
        return node in self._used

    def plan_of(self, parent: ObjectKey, node: str) -> NodePlan | None:
        """What was planned for an object of a source."""
        return self._own_plans[parent].get(node)

    def ancestors(self, source: str, roots: Collection[ObjectKey]) -> Iterator[RenderedNode]:
        """What these objects of a source depend on there, themselves left out."""
        nodes, seen = self._nodes[source], set(map(str, roots))
        pending = [nodes[name] for name in seen if name in nodes]
        while pending:
            for name in pending.pop().depends_on:
                if name not in seen:
                    seen.add(name)
                    pending.append(nodes[name])
                    yield nodes[name]

    def catalogs(self, around: Mapping[str, Collection[ObjectKey]]) -> list[Catalog]:
        """The catalogs of all sources with these objects alone, and with all definitions."""
        return [
            replace(
                state.catalog,
                objects=tuple(
                    one
                    for key in sorted(around.get(state.catalog.source, ()))
                    if (first := self._declared.get((state.catalog.source, key)))
                    for one in (first, *self._duplicates.get((state.catalog.source, key), ()))
                ),
                contents={},
                problems=(),
            )
            for state in self.sources
        ]

    def archive(self, instances: Collection[ObjectKey]) -> RevisionArchive:
        """What is stored of definitions and rules, and the applied pairs of these instances."""
        return self.known.archive.select_instances(instances, self.packs.records_of(instances))

    def set_sources(
        self,
        sources: Sequence[SourceState],
        changed: Mapping[Place, DeclaredObject],
        *,
        due: Mapping[Place, DeclaredObject],
    ) -> None:
        """The sources have moved, by these objects alone; those that are `due` have to be looked at."""
        self.sources = sources
        self._declared |= changed
        self._places |= {id(declared): key for (_, key), declared in changed.items()}
        self.changed_roots |= {key: declared for (_, key), declared in due.items()}
        self.has_unreported_changes, self._found = True, None

    @property
    def rollouts(self) -> Mapping[str, DecidedRollout]:
        """As they were decided last; their collections follow what parts find."""
        return self.propagation.rollouts

    def counts(self, one: CountedItem) -> bool:
        """Does a rollout count this item, and in this wave?"""
        rollout, name = self.rollouts.get(one.rollout), one.item.key
        return rollout is not None and name in rollout.keys and rollout.collection.wave_of(name) == one.wave

    def advance_clock(self, now: datetime, counts: RecountedRollouts) -> frozenset[ObjectKey] | None:
        """Return the roots of instances whose bake or deadline has ended, or None if time may have changed more.

        Each of these roots has to be looked at.
        """
        self._recount(counts, frozenset(), ())
        late, self._late = frozenset(self._late), set()
        return None if self.propagation.next_edge and self.propagation.next_edge <= now else late

    def grant(self, targets: Mapping[ObjectKey, int], states: Mapping[str, RolloutState]) -> None:
        """These instances may move: their rollouts have counted and stored it."""
        self.granted |= targets
        before, self._found = self.propagation, None
        self.propagation = replace(before, states={**before.states, **states}, wake_at=self._wake_at(before.next_edge))

    def expects(self, obj: Object) -> bool:
        """Is this instance as it was planned for, but for a status that says what is to be said of it, and decides nothing for whoever owns or counts
        it? Then a pass over it would find nothing new.
        """
        key = ObjectKey.from_manifest(obj)
        one, counted = self.plans.get(key), self.propagation.counted.get(key)
        if one is None or one.parent is None or self.now is None or "status" not in obj or self.root_of(key) != key:
            return False
        if _beside_status(one.parent) != _beside_status(obj) or _health(one.parent) != _health(obj):
            return False
        if counted and self._is_read_by_gates(counted):
            return False
        due = statuses(Plan((replace(one, parent=obj),)), self.sources, self.propagation, self.now)
        return all(_said_in(status) == _said_in(obj["status"]) for _, _, status in due)

    def update_move_causes(self, plans: Iterable[ApplySetPlan]) -> None:
        """Instances say now why they stay where they are."""
        for one in plans:
            self.plans[one.rendered.parent] = one
            self.ledger.put(SetSummary.of(one))
        self.has_stale_causes, self._found = False, None

    def record_stored_records(self, rollouts: Rollouts, objects: Iterable[Object]) -> None:
        """The records of sources and rollouts are stored like this now."""
        self.known, self._found = replace(self.known, rollouts=rollouts), None
        self.objects |= {ObjectKey.from_manifest(obj): obj for obj in (*rollouts.records.values(), *objects)}

    def update_from(
        self,
        part: ReconcileResult,
        instances: frozenset[ObjectKey],
        looked_at: Mapping[ObjectKey, DeclaredObject],
        counts: RecountedRollouts,
    ) -> ReconcileResult:
        """What a pass over a part found takes the place of what was known of these instances. Of those that are due `looked_at` is what it was made
        from, and `counts` is what counts otherwise by it. Answers that pass, with the accounts that it changed.
        """
        for key in instances:
            self._want(part.bundle.instances[key], self.instances[key])
        self._observe(part.observed, {applyset_id(key) for key in instances})
        self.instances |= part.bundle.instances
        for name, rendered in part.bundle.sources.items():
            self._nodes[name] |= {node.id: node for node in rendered.nodes}
        moved = {one.rendered.parent: self._plan(one) for one in part.plan.sets}
        self.has_unreported_changes |= any(
            before is None or _said(before) != _said(after) for before, after in moved.values()
        )
        self.has_unreported_changes |= any(not result.is_bookkeeping for result in part.results)
        found = part.propagation
        self._remembered |= found.remembered
        self.propagation = replace(self.propagation, next_edge=earliest(self.propagation.next_edge, found.next_edge))
        read_by_gates = {one.rollout for one in found.counted.values() if self._is_read_by_gates(one)}
        self._recount(counts, instances, read_by_gates)
        self._late -= instances
        self.granted = {key: number for key, number in self.granted.items() if key not in instances}
        self.changed_roots = {key: it for key, it in self.changed_roots.items() if looked_at.get(key) is not it}
        self.now, self._found = part.now, None
        return replace(
            part,
            bundle=replace(part.bundle, problems=self.bundle.problems),
            observed=self.observed,
            propagation=self.propagation,
            ledger=self.ledger,
            moved=moved,
            sources=tuple(self.sources),
            touched=part.plan.sets,
            latest=self.latest,
        )

    def latest(self) -> ReconcileResult:
        return self.snapshot

    def _observe(self, seen: Observed, ids: Iterable[str]) -> None:
        for set_id in ids:
            for key in self._members.get(set_id, ()):
                if key not in seen.objects:
                    self.objects.pop(key, None)
            self._members[set_id] = seen.members.get(set_id, ())
        for key in seen.absent:
            self.objects.pop(key, None)
        self.objects |= seen.objects

    def _plan(self, one: ApplySetPlan) -> tuple[SetSummary | None, SetSummary]:
        """What was planned for a set, of that of a source for some nodes of it; its account before and after."""
        key = one.rendered.parent
        if not one.rendered.is_source:
            self.plans[key] = one
            account = SetSummary.of(one)
            return self.ledger.put(account), account
        own, restless = self._own_plans[key], self._restless[key]
        for node in one.nodes:
            self.has_unreported_changes |= _said_of(own.get(node.node.id)) != _said_of(node)
            own[node.node.id] = node
            restless.pop(node.node.id, None)
        self.plans[key] = replace(self.plans[key], parent=one.parent)
        restless |= {node.node.id: node for node in SetSummary.of(one).restless}
        order = sorted(restless, key=self._order[key].__getitem__)
        account = SetSummary.of(replace(self.plans[key], nodes=tuple(restless[name] for name in order)))
        return self.ledger.put(account), account

    def _recount(self, counts: RecountedRollouts, seen: Collection[ObjectKey], asked: Collection[str]) -> None:
        """Take over what counts otherwise. The rollouts `asked` may decide otherwise although they count as before."""
        before = self.propagation
        states = {
            name: replace(state, waves=progress_of(found.policy, found.counters, state))
            for name, found in counts.rollouts.items()
            if (state := before.states.get(name))
        }
        self._late |= {root for key in counts.ended - frozenset(seen) if (root := self.root_of(key))}
        self.rollouts_to_recompute |= {*counts.rollouts, *asked}
        self.has_unreported_changes |= any(state.waves != before.states[name].waves for name, state in states.items())
        states = {**before.states, **states}
        waiting = (wave.waiting for name in (*counts.rollouts, *asked) if name in states for wave in states[name].waves)
        self.has_stale_causes |= any(waiting)
        self.next_change = counts.next_change
        self.propagation = replace(before, states=states, wake_at=self._wake_at(before.next_edge))
        self._found = None

    def _is_read_by_gates(self, one: CountedItem) -> bool:
        """May something else of it than what it counts as open a gate?"""
        return self.counts(one) and any(gate.reads_collection for gate in self.rollouts[one.rollout].gates.gates)


def _beside_status(obj: Object) -> Object:
    return {**obj, "metadata": metadata_without_status_writes(obj), "status": None}


def _said_in(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """It is remembered as it was seen first since when an instance is healthy; who did not see that wrote down sees it later."""
    own = status["levelgate"]
    progress = own.get("progress", {})
    return {**status, "levelgate": {**own, "progress": {**progress, "readySince": "readySince" in progress}}}


def _health(instance: Object) -> tuple[bool, HealthResult]:
    return is_fresh(instance), health(instance, is_instance=True)


def _own(rendered: RenderedApplySet) -> Iterator[ObjectKey]:
    return (node.key for node in rendered.nodes if node.key and not node.external)


def _said(one: SetSummary) -> tuple[object, ...]:
    """What the record of its source tells of a set."""
    return one.state, one.plan.current_scope, one.holds


def _said_of(one: NodePlan | None) -> tuple[object, ...] | None:
    return (one.action, one.ready, one.healthy, one.blocked) if one else None
