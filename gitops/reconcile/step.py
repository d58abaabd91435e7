"""The pure part of a pass, with the reads that it asks for: render, plan, let move, again until no more may move and nothing is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial

from applier.cluster import Reader
from applier.execute.fights import Fights
from applier.execute.refusals import Refusals
from applier.plan.constraints import PlanConstraints
from applier.plan.model import Plan
from applier.state.observed import annotation, label
from gitops.clock import Clock
from gitops.instrumentation import Stage, no_stage
from gitops.reconcile.context import Context, ReconcileCache
from gitops.reconcile.earlier_objects import (
    EarlierCatalogs,
    read_earlier_objects,
    sources_to_heal,
)
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.definition.kind_schemas import KindSchemas, from_crds
from renderer.frozen import dataclass
from renderer.identity import GroupKind, applyset_id, source_parent
from renderer.kinds import defined_kind
from renderer.render.model import Rendering
from renderer.render.world import ClusterView


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for one cluster; `earlier` reads sources at commits before, where that can be done. `memo`,
    `comparisons`, `fights`, `refusals` and `seen` remember from pass to pass. `stage` hears of renderings and
    plans.
    """

    cluster: Reader
    clock: Clock
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


def _view_of_one(known: Context, types: KindSchemas, catalog: Catalog) -> ClusterView:
    return _world(known, (catalog,), types)


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
