"""Plans of sets as queries, as if each instance had its turn in its rollout, and the deletion brake of each source.

The plan of a set depends on the objects that the set names, and on the plan of its owner if nobody wants the set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from applier.applyset.completed_jobs import TTL_TOLERANCE, completions
from applier.plan.deletion_brake import brake_message, eventual_deletions
from applier.plan.model import ApplySetPlan, ChangePermissions, is_same_set_plan
from applier.plan.prune_planner import PrunePlanner
from applier.plan.set_planner import NO_FATE, ApplySetPlanner, MemberFate, member_fates
from gitops.decisions import live
from gitops.decisions.declarations import Root
from gitops.decisions.definitions import planned_source_names, source_commit
from gitops.decisions.instances import is_wanted
from gitops.decisions.live_view import Contained, LiveView, Lookup
from gitops.decisions.permissions import IN_TURN, SetChecks, Turn, permissions_of
from gitops.decisions.plan_inputs import (
    Brakes,
    assumed_permissions,
    constraints_of,
    is_to_final_state,
    prune_approval,
    source_settings,
)
from gitops.decisions.planned import (
    holding_parent,
    lost_instances,
    planned_parents,
    planned_set,
    recorded_scope,
)
from gitops.decisions.prune_order import GraphPruneIndexes, wanting_lookup
from gitops.decisions.source_node_plans import PlannedNode, SourceNodePlans, is_same_planned_node, planned_node
from gitops.decisions.source_sets import placed_node
from gitops.decisions.standalone_plans import node_planner
from gitops.queries import Contributions, QueryGraph, QueryIndex, query, recompute_at
from renderer.identity import ObjectKey, applyset_id, source_parent
from renderer.render.model import RenderedApplySet


@query
def _fate(graph: QueryGraph, instance: ObjectKey, brakes: Brakes) -> MemberFate:
    """Return the fate of an unwanted instance by the plan of the set that holds it."""
    holder = holding_parent(graph, instance)
    owner = _set_plan(graph, holder, brakes) if holder else None
    if owner is None:
        return NO_FATE
    return member_fates(owner, live.members_of(graph, owner.rendered.id)).get(instance, NO_FATE)


@query(same=is_same_set_plan)
def _set_plan(graph: QueryGraph, parent: ObjectKey, brakes: Brakes) -> ApplySetPlan | None:
    return _plan(graph, parent, brakes, IN_TURN)


def _plan(graph: QueryGraph, parent: ObjectKey, brakes: Brakes, turn: Turn) -> ApplySetPlan | None:
    """Return the plan of a set, or None if there is nothing to plan for the parent.

    Args:
        brakes: sources whose deletions wait for an approval.
    """
    rendered = planned_set(graph, parent)
    if rendered is None:
        return None
    fate = NO_FATE if _is_wanted_set(graph, rendered) else _fate(graph, parent, brakes)
    permissions = assumed_permissions(graph) or permissions_of(SetChecks(graph, parent, turn))
    found = _planner(graph, rendered, brakes, permissions).plan_set(rendered, fate)
    for completion in completions(found.parent).values():
        recompute_at(graph, completion.until - TTL_TOLERANCE)
    return found


def _is_wanted_set(graph: QueryGraph, rendered: RenderedApplySet) -> bool:
    return rendered.is_source or is_wanted(graph, rendered.parent)


def _planner(
    graph: QueryGraph, rendered: RenderedApplySet, brakes: Brakes, permissions: ChangePermissions
) -> ApplySetPlanner:
    view, wanting = LiveView(graph, graph.now), wanting_lookup(graph)
    constraints, to_final_state = constraints_of(graph, dict(brakes)), is_to_final_state(graph)
    nodes = node_planner(graph, rendered, dict(brakes), permissions)
    plans = SourceNodePlans(graph, rendered, brakes, nodes) if rendered.is_source else nodes
    indexes, drain_progress = GraphPruneIndexes(graph), nodes.barriers.drain_progress
    pruning = PrunePlanner(view, wanting, indexes, constraints, permissions, to_final_state, drain_progress)
    instances = Contained[ObjectKey](partial(is_wanted, graph))
    return ApplySetPlanner(view, instances, constraints, permissions, to_final_state, plans, pruning)


@query
def _has_unwanted_members(graph: QueryGraph, source: str) -> bool:
    """Return whether the set of a source has a live member that no set wants."""
    wanted = wanting_lookup(graph)
    return any(key not in wanted for key in live.members_of(graph, applyset_id(source_parent(source))))


@query
def brake_of(graph: QueryGraph, source: str) -> str:
    """Return the reason why a person has to approve the deletions of a source, or an empty text."""
    if prune_approval(graph, source).is_approved:
        return ""
    lost = [key for key in lost_instances(graph) if (found := recorded_scope(graph, key)) and found.source == source]
    if not (lost or _has_unwanted_members(graph, source)):
        return ""
    brake = source_settings(graph, source).brake
    sets = Lookup[ObjectKey, ApplySetPlan](lambda parent: _set_plan(graph, parent, ()), "plans")
    deleted = eventual_deletions(sets, source, lost)
    if len(deleted) <= brake.deletions:
        return ""
    live_count = _count_members(graph, source, deleted)
    commit = "" if is_to_final_state(graph) else source_commit(graph, source).commit
    return "" if brake.permits(len(deleted), live_count) else brake_message(len(deleted), live_count, source, commit)


def _count_members(graph: QueryGraph, source: str, deleted: Collection[ObjectKey]) -> int:
    """Return the number of live members of all sets of a source, and of the deleted instances."""
    found = (planned_set(graph, parent) for parent in planned_parents(graph))
    counted = (one.id for one in found if one and (one.source == source or one.parent in deleted))
    return sum(len(live.members_of(graph, set_id)) for set_id in counted)


@query
def _brake_message(graph: QueryGraph, source: str) -> Mapping[None, str]:
    message = brake_of(graph, source)
    return {None: message} if message else {}


_brakes: Final[QueryIndex[str, None, str, Contributions[str, str]]] = QueryIndex(
    "_brakes",
    order=8,
    members=planned_source_names,
    contributions=_brake_message,
    new_entry=Contributions[str, str],
    # A brake that counts objects which nobody has read may hold any deletion.
    spreads_unread=True,
)
"""Messages of the deletion brake, by source.

Each plan follows the brakes, and each brake counts in all plans. Through the index, a change of one set marks no other.
"""


@query
def _braked_sources(graph: QueryGraph) -> Brakes:
    """Return the messages of the brakes. Raises: Fault of a brake."""
    for fault in _brakes.failed(graph).values():
        raise fault
    return tuple(sorted(_brakes(graph, None).items()))


@query(same=is_same_planned_node)
def source_node_plan(graph: QueryGraph, root: Root) -> PlannedNode | None:
    """Return the plan of an object of a source as if the set could be written, or None if the source lacks it."""
    node = placed_node(graph, *root)
    return planned_node(graph, root.source, node.id, _braked_sources(graph)) if node else None


def prospective_plan(graph: QueryGraph, parent: ObjectKey) -> ApplySetPlan | None:
    """Return the plan of a set as if its instance had its turn, or None if there is nothing to plan for the parent.

    Rollouts judge instances by this plan, so that a turn never depends on itself. While a brake holds deletions, the
    plan differs in more than these deletions: other objects are protected, and other actions wait.
    """
    return _set_plan(graph, parent, _braked_sources(graph))


def plan_in_turn(graph: QueryGraph, parent: ObjectKey, turn: Turn) -> ApplySetPlan | None:
    """Return the plan of a set whose instance has this turn, or None if there is nothing to plan for the parent."""
    return _plan(graph, parent, _braked_sources(graph), turn)
