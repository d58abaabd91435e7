"""The pure part of a pass, with the reads that it asks for: render, plan, let move, again until no more may move and nothing is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from applier.cluster import Reader
from applier.execute.fights import Fights
from applier.execute.refusals import Refusals
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ChangePermissions, PermissionAnswer, Plan
from applier.plan.planner import plan
from applier.state.observed import annotation, label
from gitops.clock import Clock
from gitops.decisions import decide
from gitops.decisions.decision import Decision
from gitops.decisions.inputs import DecisionInputs
from gitops.instrumentation import Stage, no_stage
from gitops.reconcile import missing_reads
from gitops.reconcile.context import Context, ReconcileCache
from gitops.reconcile.earlier_objects import (
    EarlierCatalogs,
    read_earlier_objects,
    sources_to_heal,
    with_earlier_objects,
)
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.definition.kind_schemas import KindSchemas, from_crds
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.kinds import defined_kind
from renderer.manifest_hash import is_written_from
from renderer.render.cache import RenderCache
from renderer.render.model import Live, Rendering
from renderer.render.render import render
from renderer.render.resources import overlay
from renderer.render.world import ClusterView

MOST_ROUNDS = 8
"""So often what is referred to is foretold again: it may refer to something else itself, and in a circle for ever."""


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for one cluster; `earlier` reads sources at commits before, where that can be done. `memo`,
    `comparisons`, `fights`, `refusals` and `seen` remember from pass to pass. `stage` hears of renderings and
    plans.
    """

    cluster: Reader
    clock: Clock
    memo: RenderCache = field(default_factory=RenderCache)
    comparisons: ComparisonCache = field(default_factory=ComparisonCache)
    fights: Fights = field(default_factory=Fights)
    refusals: Refusals = field(default_factory=Refusals)
    seen: ReconcileCache = field(default_factory=ReconcileCache)
    earlier: EarlierCatalogs | None = None
    stage: Stage = no_stage

    async def refresh(self, known: Context) -> Context:
        """Return what is known, with the kinds that the cluster serves now. Raises: ClusterError."""
        observed = known.observed.with_discovery(await self.cluster.discover())
        self.seen.types = from_crds(observed.crds, self.seen.types)
        return replace(known, observed=observed)

    def constraints_now(self, known: Context) -> PlanConstraints:
        """Return the constraints of plans, with the repairs and writes that have to wait now."""
        now = self.clock.now()
        throttled, refused = self.fights.throttled(now), self.refusals.active(now)
        return replace(known.records, throttled_repairs=throttled, refused_writes=refused)

    async def read_earlier(self, bundle: Rendering, decided: Plan, known: Context) -> tuple[Context, bool]:
        """Read the earlier objects of sources whose plain objects are held, and return whether any were found.

        Raises: ClusterError.
        """
        unread = sources_to_heal(decided) - known.earlier.keys() if self.earlier else set()
        if not (self.earlier and unread):
            return known, False
        view = partial(_view_of_one, known, self.seen.types)
        objects = await read_earlier_objects(self.earlier, unread, bundle.commits, known.observed, view)
        return replace(known, earlier={**known.earlier, **objects}), any(objects.values())

    async def decide(
        self, catalogs: Sequence[Catalog], known: Context, *, to_the_end: bool = False
    ) -> tuple[Rendering, Plan, Context]:
        """Render, plan and let move, on complete knowledge: what any of them finds missing is read, and all are asked again.

        `to_the_end` nothing is held back, and nobody is asked what may move.
        """
        rounds = 0
        while True:
            known = await self.refresh(known)
            with self.stage("render"):
                bundle = _rendered(catalogs, known, self.seen.types, self.memo)
                bundle = with_earlier_objects(bundle, known.earlier)
            if (read := await missing_reads.read_definitions(self.cluster, bundle, known)) is not known:
                known = read
                continue
            if (read := await missing_reads.list_kinds(self.cluster, bundle, known)) is not known:
                known = read
                continue
            records = self.constraints_now(known)
            gates, answers = known.propagation.gates, list[PermissionAnswer]()
            asked = gates.with_recorded_answers(answers)
            with self.stage("plan"):
                decided = plan(bundle, known.observed, records, asked, self.comparisons, to_final_state=to_the_end)
            read = await missing_reads.read_objects(self.cluster, bundle, decided, known, self.seen.objects)
            if read is not known:
                known = read
                continue
            observed = known.observed
            if to_the_end:
                coming = foretold(bundle, observed.objects)
                if coming == known.foretold or rounds == MOST_ROUNDS:
                    return bundle, decided, known
                known, rounds = replace(known, foretold=coming), rounds + 1
                continue
            if still := decide.suspended_decision(bundle, observed, known.now):
                found = plan(bundle, observed, records, still.gates, self.comparisons)
                return bundle, found, replace(known, propagation=still)
            if bundle.issued:
                return bundle, decided, known
            stored = known.archive.stored_revisions
            here = DecisionInputs(known.conditions, bundle, decided, observed, stored, _what_lasts(known.propagation))
            moved = decide.decide_changes(here)
            gated = known.gated | {one.rendered.parent for one in decided.sets if one.needs_applied_snapshot}
            is_final = gated == known.gated and (
                moved.same_placements(known.propagation) or decide.is_fixpoint(moved, here, answers)
            )
            known = replace(known, propagation=moved, gated=gated)
            if not is_final:
                continue
            if (read := await missing_reads.read_foreign_sources(self.cluster, decided, known)) is not known:
                known = read
                continue
            moved = moved.explain(moved)
            stands = moved.gates.gives_same_answers(gates, answers)
            final = decided if stands else plan(bundle, observed, records, moved.gates, self.comparisons)
            known, is_healed = await self.read_earlier(bundle, final, known)
            if is_healed:
                continue
            final = moved.with_causes(final)
            return bundle, final, replace(known, propagation=moved.with_overrides(final))


def _what_lasts(decided: Decision) -> Decision:
    """Return the part of `decided` that a later decision reads.

    The functions of a decision hold the plan and the objects behind the decision. With these functions, each decision
    would hold the state of all rounds before it.
    """
    gates = decided.gates
    return Decision(
        places=decided.places,
        gates=ChangePermissions(targets=gates.targets, suspended=gates.suspended, barriers=gates.barriers),
        states=decided.states,
        source_requests=decided.source_requests,
    )


def _view_of_one(known: Context, types: KindSchemas, catalog: Catalog) -> ClusterView:
    return _world(known, (catalog,), types)


def _rendered(catalogs: Sequence[Catalog], known: Context, types: KindSchemas, memo: RenderCache) -> Rendering:
    """What these sources want, beside what is known of others: their instances, and nothing else of them is planned, and nothing is wrong there."""
    whole = (*catalogs, *known.elsewhere)
    bundle = render(whole, _world(known, whole, types), memo)
    if not known.elsewhere:
        return bundle
    own = {catalog.source for catalog in catalogs}
    theirs = {"", *(one.origin.file for catalog in known.elsewhere for one in catalog.definitions.values())}
    return replace(
        bundle,
        sources={name: one for name, one in bundle.sources.items() if name in own},
        issued=tuple(one for one in bundle.issued if one.source in own),
        problems=tuple(one for one in bundle.problems if one.file not in theirs),
    )


def foretold(bundle: Rendering, live: Live) -> Live:
    """Of the objects that are only referred to, those that the commit itself writes, as they will be, each with a version of its own. What
    controllers make of them is not known.
    """
    referred = {node.key for one in bundle.sets for node in one.nodes if node.external and node.key}
    nodes = (node for one in bundle.sets if referred for node in one.nodes if node.key in referred and node.writable)
    found: dict[ObjectKey, Mapping[str, Any]] = {}
    for node in nodes:
        there = live.get(node.key) if node.key else None
        if node.key and not (there and is_written_from(there, node.manifest, node.hash)):
            coming = overlay(node.manifest, there) if there else node.manifest
            found[node.key] = {**coming, "metadata": {**coming["metadata"], "resourceVersion": node.hash}}
    return found


def _world(known: Context, catalogs: Sequence[Catalog], types: KindSchemas) -> ClusterView:
    observed = known.observed
    by_set = {applyset_id(source_parent(catalog.source)): catalog.source for catalog in catalogs}
    defined: dict[GroupKind, str] = {}
    owners: dict[GroupKind, str] = {}
    for crd in observed.crds:
        if name := annotation(crd, well_known.DEFINITION):
            kind = defined_kind(crd)
            defined[kind] = name
            if source := by_set.get(label(crd, well_known.PART_OF)):
                owners[kind] = source
    scopes = {kind: resource.namespaced for kind, resource in observed.discovery.resources.items()}
    return ClusterView(
        live={**observed.objects, **known.foretold} if known.foretold else observed.objects,
        scopes=scopes,
        defined=defined,
        owners=owners,
        selected=observed.selections,
        stored=known.archive.stored_revisions,
        places=known.propagation.places,
        gated=known.gated,
        settled=known.settled,
        types=types,
    )
