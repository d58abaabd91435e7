"""Planners of single sets, of their nodes and of their deletions, built without the plan of all sets."""

from __future__ import annotations

from typing import Any

from applier.applyset.inventory import Scope, parent_body, with_finalizer
from applier.cluster import Object
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from tests.support.apply_sets import PARENT

LINK = ObjectKey("g.test", "Link", "default", "x")
DELETED_AT = "2026-01-01T00:00:00Z"


def rendering_of(*sets: RenderedApplySet) -> Rendering:
    """Return the rendering that wants exactly `sets`."""
    return Rendering(
        {one.source: one for one in sets if one.is_source}, {one.parent: one for one in sets if not one.is_source}
    )


def link_set(*nodes: RenderedNode, **fields: Any) -> RenderedApplySet:
    """Return the set of the instance `LINK`, which the source `platform` wants at revision 3."""
    given = {"source": "platform", "owner": PARENT, "revision": 3, "target_revision": 3, **fields}
    return RenderedApplySet(LINK, nodes=nodes, **given)


def link_object(scope: Scope | None = None, *, target: int = 3, epoch: int = 0, **metadata: Any) -> Object:
    """Return the live instance `LINK`, as Levelgate has written it."""
    body = parent_body(LINK, "g.test/v1", scope or Scope(), version="0", target=target, epoch=epoch)
    live = with_finalizer(body)
    return {**live, "metadata": {**live["metadata"], "uid": "u", "resourceVersion": "1", **metadata}}
