"""What the last pass over everything knew, kept up by passes over parts: what a part rests on for all that is outside of it.

Invariant: a pass over a part changes here what it looked at itself, and nothing else. It is the memory of one process; a restart, and whatever
cannot be told from here, begins with a pass over everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from applier.cluster import Object
from applier.plan import NodePlan, SetPlan
from gitops.passes.interests import root_in
from gitops.passes.known import Known, Pass
from gitops.passes.sources import SourceState
from gitops.passes.tally import is_on_its_way
from gitops.propagation.explain import progress_of
from gitops.propagation.state import State
from gitops.propagation.stays import Counted, Rollout
from gitops.records.causes import blocked_rows
from gitops.records.instance_status import has_failed, is_held
from gitops.records.revisions import Archive
from gitops.records.rollouts import Rollouts
from renderer.catalog import Catalog
from renderer.content import Declared, located
from renderer.identity import ObjectKey, applyset_id
from renderer.kinds import CRD, is_namespaced
from renderer.model import RenderedNode, RenderedSet

Place = tuple[str, ObjectKey]
"""A source, and an object that it declares."""


@dataclass
class Whole:
    """`sources` as they were accepted last, `found` what was planned and observed of everything, `known` the rest of what that pass knew.

    `due` are instances that the sources want otherwise than they were last brought to; `granted` those that their rollouts have let move since, with
    the revision, and that no part has looked at yet. `moved`: rollouts in which something counts otherwise since they were asked. `is_untold`: the
    records of sources and rollouts say something else than passes over parts have found since; `is_outdated`: those that wait for their turn do.
    """

    sources: Sequence[SourceState]
    found: Pass
    known: Known
    due: dict[ObjectKey, Declared] = field(default_factory=dict)
    granted: dict[ObjectKey, int] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    is_untold: bool = False
    is_outdated: bool = False
    _stored: dict[ObjectKey, Object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bundle = self.found.bundle
        self.plans: dict[ObjectKey, SetPlan] = {one.rendered.parent: one for one in self.found.plan.sets}
        self.wanted: dict[ObjectKey, frozenset[str]] = {}
        for rendered in bundle.sets:
            self._want(rendered)
        self._roots = {key: root for key in bundle.instances if (root := root_in(bundle, key))}
        self._families: dict[ObjectKey, set[ObjectKey]] = {}
        for key, root in self._roots.items():
            self._families.setdefault(root, set()).add(key)
        self._nodes = {name: {node.id: node for node in one.nodes} for name, one in bundle.sources.items()}
        self._members = dict(self.found.observed.members)
        self._used = {
            name for rendered in bundle.sources.values() for node in rendered.nodes for name in node.depends_on
        }
        self._own_plans = {
            (parent, node.node.id): node
            for parent, one in self.plans.items()
            if one.rendered.is_source
            for node in one.nodes
        }
        scopes = {kind: one.namespaced for kind, one in self.found.observed.discovery.resources.items()}
        self._declared: dict[Place, Declared] = {}
        self._places: dict[int, ObjectKey] = {}
        for state in self.sources:
            for one in state.catalog.objects:
                key = located(one, namespaced=is_namespaced(one.group_kind, scopes))
                if self._declared.setdefault((state.catalog.source, key), one) is one:
                    self._places[id(one)] = key
        self._crds = [obj for key, obj in self.found.observed.objects.items() if key.group_kind == CRD]

    def _want(self, rendered: RenderedSet, before: RenderedSet | None = None) -> None:
        own = frozenset({rendered.id})
        for key in _own(before) if before else ():
            self.wanted[key] -= own
        for key in _own(rendered):
            self.wanted[key] = self.wanted.get(key, frozenset()) | own

    @property
    def crds(self) -> Sequence[Object]:
        """All that were seen. One that changes wakes a pass over everything."""
        return self._crds

    def root_of(self, key: ObjectKey) -> ObjectKey | None:
        """The instance of a source that the instance of this key belongs to; None for what is no instance."""
        return self._roots.get(key)

    def source_of(self, key: ObjectKey) -> str:
        """The one source that declares the object of this key; empty where there is none, or more than one."""
        found = [name for name in self.found.bundle.sources if (name, key) in self._declared]
        return found[0] if len(found) == 1 else ""

    def is_said_otherwise(self, place: Place, declared: Declared) -> bool:
        """Does this say something else than what was declared there? Where it stands in its file is nothing that it says."""
        before = self._declared[place]
        return (before.manifest, before.refused) != (declared.manifest, declared.refused)

    def place_of(self, source: str, declared: Declared) -> ObjectKey | None:
        """The key of an object as this source declares it; None if it counts for nothing, because another one stands in its place."""
        key = self._places.get(id(declared))
        return key if key and self._declared.get((source, key)) is declared else None

    def family(self, roots: Iterable[ObjectKey]) -> frozenset[ObjectKey]:
        """These instances and all that are nested in them."""
        return frozenset().union(*(self._families.get(root, ()) for root in roots))

    def is_used(self, node: str) -> bool:
        """Does another object of a source depend on this one?"""
        return node in self._used

    def plan_of(self, parent: ObjectKey, node: str) -> NodePlan | None:
        """What was planned for an object of a source."""
        return self._own_plans.get((parent, node))

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
                    if (one := self._declared.get((state.catalog.source, key)))
                ),
                contents={},
                problems=(),
            )
            for state in self.sources
        ]

    def archive(self, instances: Collection[ObjectKey]) -> Archive:
        """What is stored of definitions and rules, and the applied pairs of these instances."""
        return self.known.archive.part(instances, {key: self._stored[key] for key in instances if key in self._stored})

    def accept(
        self, sources: Sequence[SourceState], changed: Mapping[Place, Declared], *, due: Mapping[Place, Declared]
    ) -> None:
        """The sources have moved, by these objects alone; those that are `due` have to be looked at."""
        self.sources = sources
        self._declared |= changed
        self._places |= {id(declared): key for (_, key), declared in changed.items()}
        self.due |= {key: declared for (_, key), declared in due.items()}
        self.is_untold = True

    @property
    def rollouts(self) -> Mapping[str, Rollout]:
        """As they were decided last; their collections follow what parts find."""
        return self.found.propagation.rollouts

    def counts(self, one: Counted) -> bool:
        """Does a rollout count this item, and in this wave?"""
        rollout, name = self.rollouts.get(one.rollout), one.item.key
        return rollout is not None and name in rollout.keys and rollout.collection.wave_of(name).name == one.wave

    def grant(self, targets: Mapping[ObjectKey, int], states: Mapping[str, State], wake_at: datetime | None) -> None:
        """These instances may move: their rollouts have counted and stored it."""
        self.granted |= targets
        before = self.found.propagation
        stored = {name: self._with_waves(name, state) for name, state in states.items()}
        earliest = min(filter(None, (before.wake_at, wake_at)), default=None)
        self.found = replace(
            self.found, propagation=replace(before, states={**before.states, **stored}, wake_at=earliest)
        )

    def miscounted(self) -> list[str]:
        """The rollouts in which what parts counted is not what there is, counted from scratch: a fault of this program."""
        return [name for name, one in self.rollouts.items() if not one.collection.recount()]

    def told(self, rollouts: Rollouts, objects: Iterable[Object]) -> None:
        """The records of sources and rollouts are stored like this now."""
        self.known = replace(self.known, rollouts=rollouts)
        self.found = replace(self.found, observed=self.found.observed.seen([*rollouts.records.values(), *objects]))

    def put(
        self,
        part: Pass,
        instances: Collection[ObjectKey],
        archive: Archive,
        looked_at: Mapping[ObjectKey, Declared],
    ) -> Pass:
        """What a pass over a part found takes the place of what was known of these instances, with their records in `archive`. Of those that are
        due `looked_at` is what it was made from. Answers the whole.
        """
        before, bundle, seen = self.found, self.found.bundle, part.observed
        for key in instances:
            self._want(part.bundle.instances[key], bundle.instances[key])
        ids = {applyset_id(key) for key in instances}
        gone = {key for set_id in ids for key in self._members.get(set_id, ()) if key not in seen.objects}
        gone |= {key for key in seen.absent if key in before.observed.objects}
        self._members |= {set_id: seen.members.get(set_id, ()) for set_id in ids}
        objects = {**before.observed.objects, **seen.objects}
        for key in gone:
            del objects[key]
        sources = {name: _with_nodes(rendered, part.bundle.sources[name]) for name, rendered in bundle.sources.items()}
        for one in part.plan.sets:
            key = one.rendered.parent
            if one.rendered.is_source:
                nodes = {(key, node.node.id): node for node in one.nodes}
                self.is_untold |= any(_said_of(self._own_plans.get(at)) != _said_of(node) for at, node in nodes.items())
                self._own_plans |= nodes
                self.plans[key] = _with_plans(self.plans[key], one, sources[one.rendered.source])
            else:
                self.is_untold |= _said(self.plans[key]) != _said(one)
                self.plans[key] = one
        self.is_untold |= any(not result.is_bookkeeping for result in part.results)
        propagation = before.propagation
        counted = part.propagation.counted.values()
        moved = {one.rollout for one in counted if self._counts_otherwise(one)}
        states = {name: self._with_waves(name, propagation.states[name]) for name in moved}
        self.moved |= moved | {one.rollout for one in counted if self._is_read_by_gates(one)}
        self.is_untold |= bool(moved)
        self.is_outdated |= any(wave.waiting for state in states.values() for wave in state.waves)
        propagation = replace(
            propagation,
            states={**propagation.states, **states},
            remembered={**propagation.remembered, **part.propagation.remembered},
            wake_at=min(filter(None, (propagation.wake_at, part.propagation.wake_at)), default=None),
        )
        self._stored |= {key: archive.records[pair.record] for key, pair in archive.stored.applied.items()}
        self.granted = {key: number for key, number in self.granted.items() if key not in instances}
        self.due = {key: it for key, it in self.due.items() if looked_at.get(key) is not it}
        self.found = replace(
            before,
            bundle=replace(bundle, sources=sources, instances={**bundle.instances, **part.bundle.instances}),
            plan=replace(before.plan, sets=tuple(self.plans.values())),
            observed=replace(before.observed, objects=objects),
            propagation=propagation,
            results=part.results,
            sources=tuple(self.sources),
            now=part.now,
            touched=part.plan.sets,
            status_errors=part.status_errors,
        )
        return self.found

    def _counts_otherwise(self, one: Counted) -> bool:
        """Count it as it is now; does that make a difference?"""
        if not self.counts(one):
            return False
        collection = self.rollouts[one.rollout].collection
        before = collection.counted(one.item.key)
        collection.put(one.item)
        return before != collection.counted(one.item.key)

    def _is_read_by_gates(self, one: Counted) -> bool:
        """May something else of it than what it counts as open a gate?"""
        return self.counts(one) and any(gate.reads_collection for gate in self.rollouts[one.rollout].gates.gates)

    def _with_waves(self, name: str, state: State) -> State:
        rollout = self.rollouts[name]
        return replace(state, waves=progress_of(rollout.policy, rollout.collection, state))


def _own(rendered: RenderedSet) -> Iterator[ObjectKey]:
    return (node.key for node in rendered.nodes if node.key and not node.external)


def _with_nodes(whole: RenderedSet, part: RenderedSet) -> RenderedSet:
    """The set of a source, with the nodes that were rendered anew; their place in the order is what it was."""
    new = {node.id: node for node in part.nodes}
    return replace(whole, nodes=tuple(new.get(node.id, node) for node in whole.nodes)) if new else whole


def _with_plans(whole: SetPlan, part: SetPlan, rendered: RenderedSet) -> SetPlan:
    new = {one.node.id: one for one in part.nodes}
    nodes = tuple(new.get(one.node.id, one) for one in whole.nodes)
    return replace(whole, nodes=nodes, parent=part.parent, rendered=rendered)


def _said(one: SetPlan) -> tuple[object, ...]:
    """What the record of its source tells of a set."""
    held = [(node, cause.reason) for node, cause, _ in blocked_rows(one) if cause.reason.is_hold]
    return has_failed(one), is_on_its_way(one), is_held(one), one.current, held


def _said_of(one: NodePlan | None) -> tuple[object, ...] | None:
    return (one.verb, one.ready, one.healthy, one.blocked) if one else None
