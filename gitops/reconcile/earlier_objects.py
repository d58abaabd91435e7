"""Plain objects as the last commit says them to which all of a source's own objects were brought.

An object whose change a person, a window or a gate holds is healed from that. Git keeps what was applied, so nothing is stored in the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from applier.plan.model import Plan
from applier.state.observed import Observed
from gitops.records.source_record import SourceRecord
from renderer.catalog.catalog import Catalog
from renderer.identity import source_parent
from renderer.render.cache import RenderCache
from renderer.render.model import RenderedApplySet, Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView

EarlierCatalogs = Callable[[str, str], Awaitable[Catalog | None]]
"""A source as it was at a commit; None where that cannot be read now."""

EarlierObjects = Mapping[str, RenderedApplySet | None]
"""Of sources of which something is held: their own objects at that commit; None where it is not known."""


def sources_to_heal(plan: Plan) -> set[str]:
    """The sources that have a plain object whose change or deletion lacks permission."""
    own = (set_plan for set_plan in plan.sets if set_plan.rendered.is_source and not set_plan.error)
    return {
        set_plan.rendered.source
        for set_plan in own
        if any(node_plan.lacks_permission for node_plan in set_plan.nodes)
        or any(candidate.lacks_permission for candidate in set_plan.prune_candidates)
    }


async def read_earlier_objects(
    catalogs: EarlierCatalogs, sources: Iterable[str], observed: Observed, view: Callable[[Catalog], ClusterView]
) -> EarlierObjects:
    """Read and render them; instances are left out, as they have applied snapshots of their own."""
    found: dict[str, RenderedApplySet | None] = {}
    for source in sorted(sources):
        record = SourceRecord.from_object(observed.objects.get(source_parent(source)) or {})
        commit = record.own_objects_commit
        catalog = await catalogs(source, commit) if commit else None
        found[source] = _rendered(catalog, view) if catalog else None
    return found


def with_earlier_objects(bundle: Rendering, earlier: EarlierObjects) -> Rendering:
    """The rendering, in which these sources know their objects at that commit."""
    known = {name: one for name, one in earlier.items() if one and name in bundle.sources}
    if not known:
        return bundle
    sources = {name: replace(bundle.sources[name], applied_rendering=one) for name, one in known.items()}
    return replace(bundle, sources={**bundle.sources, **sources})


def _rendered(catalog: Catalog, view: Callable[[Catalog], ClusterView]) -> RenderedApplySet | None:
    defined = catalog.definitions.keys() | catalog.broken.keys()
    plain = replace(catalog, objects=tuple(one for one in catalog.objects if one.group_kind not in defined))
    rendered = render((plain,), view(plain), RenderCache()).sources.get(catalog.source)
    return replace(rendered, is_applied=True) if rendered and not rendered.error else None
