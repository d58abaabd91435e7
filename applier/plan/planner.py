"""Plan of one reconciliation, decided from the rendering and the observed state.

The module is pure, and decides the order of the sets. `set_planner` plans each set, `node_planner` its writes, and
`prune_planner` its deletions. `deletion_brake` holds deletions until a person approves the deletions. If an action is
not due, its plan contains a cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from applier.plan import deletion
from applier.plan.barriers import WriteBarriers
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.constraints import PlanConstraints
from applier.plan.deletion_brake import DEFAULT_BRAKE, DeletionBrake, brake_message, eventual_deletions
from applier.plan.drain_progress import index_wanting_sets
from applier.plan.model import ApplySetPlan, ChangePermissions, PermissionAnswer, Plan
from applier.plan.node_planner import NodePlanner, ObservedNodeStates
from applier.plan.node_state import NodeStateReader
from applier.plan.plan_cache import SetPlanInputs, SharedPlanInputs
from applier.plan.prune_indexes import ObservedPruneIndexes
from applier.plan.prune_planner import PrunePlanner
from applier.plan.set_planner import NO_FATE, ApplySetPlanner, MemberFate, member_fates
from applier.state.observed_view import ObservedView
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, applyset_id
from renderer.render.model import RenderedApplySet, Rendering


def plan(
    rendering: Rendering,
    observed: ObservedView,
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
    comparison_cache: ComparisonCache | None = None,
    *,
    to_final_state: bool = False,
) -> Plan:
    """Plan all due actions, permitted or not, for all sets and for live instances that no set wants any more.

    Args:
        comparison_cache: results of earlier plans, reused to save work. The plan is the same without them.
        to_final_state: true if the deletions follow all writes. Otherwise pending writes protect objects that the
            written objects may use. A plan to the final state omits the commit to approve, because the id of a merge
            commit is unknown before the merge.
    """
    constraints, permissions, comparison_cache = (
        constraints or PlanConstraints(),
        permissions or ChangePermissions(),
        comparison_cache or ComparisonCache(),
    )
    comparison_cache.turn()
    plan_all = partial(
        _plan_all,
        rendering,
        observed,
        permissions=permissions,
        comparison_cache=comparison_cache,
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
    comparison_cache: ComparisonCache,
    to_final_state: bool,
) -> Plan:
    """Plan all sets under `constraints`, which include the holds of the deletion brake."""
    wanting_sets = index_wanting_sets(rendering)
    contested_keys = frozenset(key for key, set_ids in wanting_sets.items() if len(set_ids) > 1)
    foreign_claims = {key: [applyset_id(claimant)] for key, claimant in constraints.foreign_claims.items()}
    wanting_sets = {**foreign_claims, **wanting_sets}
    unwanted = (*_unwanted_instances(rendering, observed), *_lost_instances(rendering, observed, constraints))
    sets = {rendered.id: rendered for rendered in (*rendering.sets, *unwanted)}
    instance_kinds = frozenset(key.group_kind for key in rendering.instances)
    permission_answers: list[PermissionAnswer] = []
    former_reads = {key: reads for former in rendering.former.values() for key, reads in former.member_reads.items()}
    barriers = WriteBarriers(
        observed,
        wanting_sets,
        sets,
        rendering.commits,
        constraints,
        permissions.with_recorded_answers(permission_answers),
    )
    state_reader = NodeStateReader(observed, instance_kinds, comparison_cache.verdict)
    set_planner = ApplySetPlanner(
        observed,
        rendering.instances.keys(),
        constraints,
        permissions,
        to_final_state,
        NodePlanner(ObservedNodeStates(state_reader, constraints), barriers),
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
    shared_inputs = comparison_cache.carried.under(
        SharedPlanInputs.of(observed, constraints, instance_kinds, to_final_state)
    )
    refused_parents = frozenset(parent for parent, _ in constraints.refused_writes)
    set_inputs = SetPlanInputs(shared_inputs, observed, permissions, wanting_sets, contested_keys, refused_parents)
    return _CachingPlanner(sets, set_planner, comparison_cache, set_inputs, permission_answers).plan()


@dataclass(frozen=True)
class _CachingPlanner:
    """Planner of all sets that reuses the plans of unchanged instances."""

    sets: Mapping[str, RenderedApplySet]
    set_planner: ApplySetPlanner
    comparison_cache: ComparisonCache
    set_inputs: SetPlanInputs
    permission_answers: list[PermissionAnswer]
    """Permissions that the plan of a set asked for, with the answers. A cached plan is valid while the answers stay
    the same.
    """

    def plan(self) -> Plan:
        """Plan all sets, owners before their members.

        In this order, the planner knows whether an owner deletes an instance before it plans the instance.
        """
        observed = self.set_planner.observed
        fates: dict[ObjectKey, MemberFate] = {}
        set_plans = []
        for rendered in self.sets.values():
            set_plan = self._plan_set(rendered, fates.get(rendered.parent, NO_FATE))
            fates |= member_fates(set_plan, observed.members.get(rendered.id, ()))
            set_plans.append(set_plan)
        return deletion.with_container_causes(Plan(tuple(set_plans)), observed)

    def _plan_set(self, rendered: RenderedApplySet, fate: MemberFate) -> ApplySetPlan:
        """Plan the set `rendered`.

        If `rendered` is the set of a wanted instance, and no input of its last plan has changed, return the last plan.
        """
        if rendered.parent not in self.set_planner.instances:
            return self.set_planner.plan_set(rendered, fate)
        if cached_plan := self.comparison_cache.carry(rendered, self.set_inputs):
            return cached_plan
        self.permission_answers.clear()
        set_plan = self.set_planner.plan_set(rendered, NO_FATE)
        self.comparison_cache.carried.keep(set_plan, self.set_inputs, tuple(self.permission_answers))
        return set_plan


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
