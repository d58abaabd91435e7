"""Planners of single sets, of their nodes and of their deletions, built without the plan of all sets."""

from __future__ import annotations

from typing import Any

from applier.applyset.inventory import Scope, parent_body, with_finalizer
from applier.cluster import Object
from applier.plan.barriers import WriteBarriers
from applier.plan.comparison import compare_with_live
from applier.plan.constraints import PlanConstraints
from applier.plan.drain_progress import index_wanting_sets
from applier.plan.model import ChangePermissions
from applier.plan.node_planner import NodePlanner, ObservedNodeStates
from applier.plan.node_state import NodeStateReader
from applier.plan.prune_indexes import ObservedPruneIndexes
from applier.plan.prune_planner import PrunePlanner
from applier.plan.set_planner import ApplySetPlanner
from applier.state.observed import Observed
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


def set_planner(
    rendering: Rendering,
    observed: Observed,
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
    *,
    unwanted: tuple[RenderedApplySet, ...] = (),
    to_final_state: bool = False,
) -> ApplySetPlanner:
    """Return the planner of the sets of `rendering` and of the sets `unwanted`, which the rendering does not want."""
    constraints, permissions = constraints or PlanConstraints(), permissions or ChangePermissions()
    sets = {one.id: one for one in (*rendering.sets, *unwanted)}
    wanting_sets = index_wanting_sets(rendering)
    instance_kinds = frozenset(key.group_kind for key in rendering.instances)
    former_reads = {key: reads for former in rendering.former.values() for key, reads in former.member_reads.items()}
    barriers = WriteBarriers(observed, wanting_sets, sets, rendering.commits, constraints, permissions)
    return ApplySetPlanner(
        observed,
        rendering.instances.keys(),
        constraints,
        permissions,
        to_final_state,
        NodePlanner(
            ObservedNodeStates(NodeStateReader(observed, instance_kinds, compare_with_live), constraints), barriers
        ),
        PrunePlanner(
            observed,
            wanting_sets,
            ObservedPruneIndexes(observed, wanting_sets, sets, constraints, rendering.instances.keys(), former_reads),
            constraints,
            permissions,
            to_final_state,
            barriers.drain_progress,
        ),
    )
