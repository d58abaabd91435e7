"""Plans of all sets from a rendering and an observation, by the planners of the applier and without a graph.

Decisions of graphs are compared with these plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from applier.applyset import completed_jobs
from applier.applyset.completed_jobs import JOB
from applier.plan import deletion
from applier.plan.barriers import WriteBarriers
from applier.plan.comparison import compare_with_live
from applier.plan.constraints import PlanConstraints
from applier.plan.deletion_brake import DEFAULT_BRAKE, DeletionBrake, brake_message, eventual_deletions
from applier.plan.model import ChangePermissions, Plan
from applier.plan.node_planner import NodePlanner
from applier.plan.node_state import NodeInputs, NodeState, NodeStateReader, SetFacts
from applier.plan.prune_indexes import ObservedPruneIndexes
from applier.plan.prune_planner import PrunePlanner
from applier.plan.set_planner import NO_FATE, ApplySetPlanner, MemberFate, member_fates
from applier.state.observed_view import ObservedView
from renderer.identity import ObjectKey, applyset_id
from renderer.render.model import RenderedApplySet, Rendering


def index_wanting_sets(rendering: Rendering) -> dict[ObjectKey, list[str]]:
    """Return the ids of the sets that want each object, in rendering order, by key of the object."""
    wanting_sets: dict[ObjectKey, list[str]] = {}
    for rendered in rendering.sets:
        for node in rendered.nodes:
            if node.key and not node.external:
                wanting_sets.setdefault(node.key, []).append(rendered.id)
    return wanting_sets


@dataclass(frozen=True, slots=True)
class ObservedNodeStates:
    """States of nodes, read from the observed objects. Implements `NodeStates`."""

    reader: NodeStateReader
    constraints: PlanConstraints

    def states_of(self, rendered: RenderedApplySet) -> Iterable[NodeState]:
        """Return the state of each node of `rendered`, in the order of the set."""
        source, parent = rendered.source, self.reader.observed.objects.get(rendered.parent)
        facts = SetFacts(rendered, self.constraints.conflict_policy_of(source), self.constraints.adoption_of(source))
        applied_nodes = rendered.applied_rendering.nodes if rendered.applied_rendering else ()
        applied_jobs = {node.key: node for node in applied_nodes if node.group_kind == JOB}
        for node in rendered.nodes:
            dependencies = rendered.member_dependencies.get(node.id, ())
            completion = completed_jobs.completion_of(node, parent)
            inputs = NodeInputs(node, dependencies, completion, applied_jobs.get(node.key))
            yield self.reader.state_of(facts, inputs)


def set_planner(
    rendering: Rendering,
    observed: ObservedView,
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
    *,
    unwanted: Sequence[RenderedApplySet] = (),
    to_final_state: bool = False,
) -> ApplySetPlanner:
    """Return the planner of the sets of `rendering` and of the sets `unwanted`, which the rendering does not want."""
    constraints, permissions = constraints or PlanConstraints(), permissions or ChangePermissions()
    sets = {one.id: one for one in (*rendering.sets, *unwanted)}
    foreign_claims = {key: [applyset_id(claimant)] for key, claimant in constraints.foreign_claims.items()}
    wanting_sets = {**foreign_claims, **index_wanting_sets(rendering)}
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


def plan(
    rendering: Rendering,
    observed: ObservedView,
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
    *,
    to_final_state: bool = False,
) -> Plan:
    """Plan all due actions, permitted or not, for all sets and for live instances that no set wants any more.

    Args:
        to_final_state: true if the deletions follow all writes. Otherwise pending writes protect objects that the
            written objects may use. A plan to the final state omits the commit to approve, because the id of a merge
            commit is unknown before the merge.
    """
    constraints, permissions = constraints or PlanConstraints(), permissions or ChangePermissions()
    plan_all = partial(
        _plan_all,
        rendering,
        observed,
        permissions=permissions,
        to_final_state=to_final_state,
    )
    decided = plan_all(constraints)
    commits = {} if to_final_state else rendering.commits
    braked_sources = {
        source: message
        for source in rendering.sources
        if source not in constraints.approved_sources
        and (
            message := _brake_message(
                decided, observed, source, constraints.brakes.get(source, DEFAULT_BRAKE), commits.get(source, "")
            )
        )
    }
    if not braked_sources:
        return decided
    # The plan is decided again, because a held deletion also changes which objects are protected, and which actions
    # wait.
    return plan_all(replace(constraints, pruning_holds={**braked_sources, **constraints.pruning_holds}))


def _brake_message(plan: Plan, observed: ObservedView, source: str, brake: DeletionBrake, commit: str) -> str:
    """Return the reason why a person has to approve the deletions of `source`, or an empty string."""
    sets = {set_plan.rendered.parent: set_plan for set_plan in plan.sets}
    lost = [parent for parent, set_plan in sets.items() if set_plan.is_lost and set_plan.source == source]
    deleted = eventual_deletions(sets, source, lost)
    sources_sets = [
        set_plan.rendered.id
        for parent, set_plan in sets.items()
        if set_plan.rendered.source == source or parent in deleted
    ]
    live_count = sum(len(observed.members.get(set_id, ())) for set_id in sources_sets)
    return "" if brake.permits(len(deleted), live_count) else brake_message(len(deleted), live_count, source, commit)


def _plan_all(
    rendering: Rendering,
    observed: ObservedView,
    constraints: PlanConstraints,
    *,
    permissions: ChangePermissions,
    to_final_state: bool,
) -> Plan:
    """Plan all sets under `constraints`, which include the holds of the deletion brake."""
    unwanted = [*_unwanted_instances(rendering, observed), *_lost_instances(rendering, observed, constraints)]
    planner = set_planner(
        rendering, observed, constraints, permissions, unwanted=unwanted, to_final_state=to_final_state
    )
    # Owners come before their members, so that it is known whether an owner deletes an instance.
    fates: dict[ObjectKey, MemberFate] = {}
    set_plans = []
    for rendered in (*rendering.sets, *unwanted):
        is_wanted = rendered.parent in rendering.instances
        set_plan = planner.plan_set(rendered, NO_FATE if is_wanted else fates.get(rendered.parent, NO_FATE))
        fates |= member_fates(set_plan, observed.members.get(rendered.id, ()))
        set_plans.append(set_plan)
    return deletion.with_container_causes(Plan(tuple(set_plans)), observed)


def _unwanted_instances(rendering: Rendering, observed: ObservedView) -> Iterator[RenderedApplySet]:
    """Yield the sets, without nodes, of live instances that neither Git nor their parent wants.

    Parents come before their children.
    """
    unwanted_keys = observed.parents.keys() - rendering.instances.keys()
    pending = [rendered.id for rendered in rendering.sets] if unwanted_keys else []
    while pending:
        for key in observed.members.get(pending.pop(), ()):
            if key in unwanted_keys:
                last_rendering = rendering.leaving.get(key)
                unwanted = (
                    replace(last_rendering, nodes=(), applied_rendering=last_rendering)
                    if last_rendering
                    else RenderedApplySet(parent=key)
                )
                pending.append(unwanted.id)
                yield unwanted


def _lost_instances(
    rendering: Rendering, observed: ObservedView, constraints: PlanConstraints
) -> Iterator[RenderedApplySet]:
    """Yield the sets, without nodes, of unwanted instances that are missing although the sets still have members."""
    for key, source in sorted(constraints.scope_sources.items()):
        if key in observed.objects or key in rendering.instances or source not in rendering.sources:
            continue
        if observed.members.get(applyset_id(key)):
            yield RenderedApplySet(parent=key, source=source, applied_rendering=rendering.leaving.get(key))
