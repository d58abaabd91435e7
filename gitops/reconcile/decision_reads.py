"""Reads that decisions of one cluster ask for, and what a process keeps for them from one decision to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

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
class DecisionReads:
    """Reads of one cluster, with what they have told so far."""

    cluster: Reader
    clock: Clock
    fights: Fights = field(default_factory=Fights)
    refusals: Refusals = field(default_factory=Refusals)
    seen: ReconcileCache = field(default_factory=ReconcileCache)
    earlier: EarlierCatalogs | None = None
    """Reads sources at earlier commits, or None where nobody can."""
    stage: Stage = no_stage
    """Hears of renderings and plans."""

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

        def view(catalog: Catalog) -> ClusterView:
            return view_of(known, (catalog,), self.seen.types)

        objects = await read_earlier_objects(self.earlier, unread, bundle.commits, known.observed, view)
        return replace(known, earlier={**known.earlier, **objects}), any(objects.values())


def view_of(known: Context, catalogs: Sequence[Catalog], types: KindSchemas) -> ClusterView:
    """Return what a rendering of catalogs reads besides the catalogs themselves."""
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
