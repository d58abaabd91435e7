"""A source's own objects as earlier commits say them; Git keeps these, so nothing is stored in the cluster.

An object whose change a person, a window or a gate holds is healed from the last commit to which all of them were
brought. What a later commit has begun may be finished after the next one came, where both want it alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from applier.applyset.member import short_commit
from applier.plan.drain_progress import find_begun_commit
from applier.plan.model import Plan
from applier.state.observed import Observed
from gitops.records.source_record import SourceRecord
from renderer.catalog.catalog import Catalog
from renderer.identity import GroupKind, source_parent
from renderer.render.cache import RenderCache
from renderer.render.model import BegunCommit, RenderedApplySet
from renderer.render.render import render
from renderer.render.world import ClusterView

EarlierCatalogs = Callable[[str, str], Awaitable[Catalog | None]]
"""A source as it was at a commit, whose id may be short; None where that cannot be read now."""


class EarlierOwnObjects(NamedTuple):
    """A source's own objects as they were brought about last, and what was begun since, where that is another commit."""

    applied: RenderedApplySet
    begun: BegunCommit | None


EarlierObjects = Mapping[str, EarlierOwnObjects | None]
"""By source, those of which something is held; None where it is not known."""


def sources_to_heal(plan: Plan) -> set[str]:
    """Return the sources that have a plain object whose change or deletion lacks permission."""
    own = (set_plan for set_plan in plan.sets if set_plan.rendered.is_source and not set_plan.error)
    return {
        set_plan.rendered.source
        for set_plan in own
        if any(node_plan.lacks_permission for node_plan in set_plan.nodes)
        or any(candidate.lacks_permission for candidate in set_plan.prune_candidates)
    }


async def read_earlier_objects(
    catalogs: EarlierCatalogs,
    sources: Iterable[str],
    commits: Mapping[str, str],
    observed: Observed,
    view: Callable[[Catalog], ClusterView],
) -> EarlierObjects:
    """Read and render the own objects of these sources, whose present commits are `commits`.

    Instances are left out, as they have applied snapshots of their own.
    """
    found: dict[str, EarlierOwnObjects | None] = {}
    for source in sorted(sources):
        record = SourceRecord.from_object(observed.objects.get(source_parent(source)) or {})
        commit = record.own_objects_commit
        catalog = await catalogs(source, commit) if commit else None
        applied = _render_own_objects(catalog, view) if catalog else None
        found[source] = None
        if catalog and applied:
            begun = find_begun_commit(applied, observed, _instance_kinds(catalog))
            is_present = begun == short_commit(commits.get(source, ""))
            begun_catalog = await catalogs(source, begun) if begun and not is_present else None
            rendering = _render_own_objects(begun_catalog, view) if begun_catalog else None
            found[source] = EarlierOwnObjects(applied, BegunCommit(begun, rendering) if rendering else None)
    return found


def _instance_kinds(catalog: Catalog) -> set[GroupKind]:
    return {*catalog.definitions, *catalog.broken}


def _render_own_objects(catalog: Catalog, view: Callable[[Catalog], ClusterView]) -> RenderedApplySet | None:
    defined = _instance_kinds(catalog)
    plain = replace(catalog, objects=tuple(obj for obj in catalog.objects if obj.group_kind not in defined))
    rendered = render((plain,), view(plain), RenderCache()).sources.get(catalog.source)
    return replace(rendered, is_applied=True) if rendered and not rendered.error else None
