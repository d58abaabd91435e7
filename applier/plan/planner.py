"""Plan of one reconciliation, decided from the rendering and the observed state. Pure.

`node_planner` decides writes, `prune` deletions, `deletion_brake` what waits for a person. This module decides the actions
of each set as a whole and of its parent. Every action that is not due carries its cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import filterfalse

from applier.applyset import completed_jobs, inventory, kro
from applier.applyset.inventory import ForeignSet, Scope
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.plan import prune
from applier.plan.barriers import WriteBarriers
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.deletion_brake import brake_message
from applier.plan.model import (
    DEFAULT_BRAKE,
    ApplySetPlan,
    Barrier,
    CandidateChange,
    ChangePermissions,
    DeletionBrake,
    NodeAction,
    NodePlan,
    Operation,
    PermissionAnswer,
    Plan,
    PlanConstraints,
)
from applier.plan.node_planner import NodePlanner
from applier.plan.plan_cache import SetPlanInputs, SharedPlanInputs
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.managed_fields import apply_entry
from applier.state.observed import Observed, annotation, is_terminating, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, applyset_id
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet, Rendering

__all__ = [
    "DEFAULT_BRAKE",
    "ApplySetPlan",
    "Barrier",
    "CandidateChange",
    "ChangePermissions",
    "DeletionBrake",
    "NodeAction",
    "NodePlan",
    "Operation",
    "PermissionAnswer",
    "Plan",
    "PlanConstraints",
    "plan",
]


def plan(
    rendering: Rendering,
    observed: Observed,
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
    comparison_cache: ComparisonCache | None = None,
    *,
    to_final_state: bool = False,
) -> Plan:
    """Decide everything that is due, allowed or not, for all sets of the bundle and for live instances that nothing wants any more.

    `comparisons`, those of earlier plans, only save work. A plan `to_the_end` shows what goes once all that can be written is written; else what
    is still to be written protects what it uses until then. It names no commit to approve: what is merged may get another id.
    """
    constraints, permissions, comparison_cache = (
        constraints or PlanConstraints(),
        permissions or ChangePermissions(),
        comparison_cache or ComparisonCache(),
    )
    comparison_cache.turn()
    decided = _Planner(rendering, observed, constraints, permissions, comparison_cache, to_final_state).plan()
    commits = {} if to_final_state else rendering.commits
    braked_sources = {
        source: message
        for source in rendering.sources
        if source not in constraints.approved_sources
        and (
            message := brake_message(
                decided, observed, source, constraints.brakes.get(source, DEFAULT_BRAKE), commits.get(source, "")
            )
        )
    }
    if not braked_sources:
        return decided
    constraints = replace(constraints, pruning_holds={**braked_sources, **constraints.pruning_holds})
    return _Planner(rendering, observed, constraints, permissions, comparison_cache, to_final_state).plan()


@dataclass
class _Planner:
    rendering: Rendering
    observed: Observed
    constraints: PlanConstraints
    permissions: ChangePermissions
    comparison_cache: ComparisonCache
    to_final_state: bool

    def __post_init__(self) -> None:
        self.wanting_sets: dict[ObjectKey, list[str]] = {}
        contested_keys: set[ObjectKey] = set()
        for rendered in self.rendering.sets:
            for node in rendered.nodes:
                if node.key and not node.external:
                    wanting_ids = self.wanting_sets.setdefault(node.key, [])
                    wanting_ids.append(rendered.id)
                    if len(wanting_ids) > 1:
                        contested_keys.add(node.key)
        for key, claimant in self.constraints.foreign_claims.items():
            self.wanting_sets.setdefault(key, [applyset_id(claimant)])
        self.sets = {rendered.id: rendered for rendered in (*self.rendering.sets, *self._unwanted_instances())}
        instance_kinds = frozenset(key.group_kind for key in self.rendering.instances)
        self.permission_answers: list[PermissionAnswer] = []
        recording_permissions = self.permissions.with_recorded_answers(self.permission_answers)
        barriers = WriteBarriers(
            self.observed,
            self.wanting_sets,
            self.sets,
            self.rendering.commits,
            self.constraints,
            recording_permissions,
        )
        self.node_planner = NodePlanner(self.observed, instance_kinds, self.comparison_cache, barriers)
        shared_inputs = self.comparison_cache.carried.under(
            SharedPlanInputs.of(self.observed, self.constraints, instance_kinds, self.to_final_state)
        )
        refused_parents = frozenset(parent for parent, _ in self.constraints.refused_writes)
        self.set_inputs = SetPlanInputs(
            shared_inputs,
            self.observed,
            self.permissions,
            self.wanting_sets,
            frozenset(contested_keys),
            refused_parents,
        )

    @cached_property
    def dependents(self) -> Mapping[str, tuple[Member, ...]]:
        return prune.index_dependents(self.observed, self.sets)

    def plan(self) -> Plan:
        """Sets from owner to member, so that an instance's set knows whether its owner lets it go."""
        pending_deletions: dict[ObjectKey, PruneCandidate] = {}
        protection_causes: dict[ObjectKey, Cause] = {}
        former_sources: dict[ObjectKey, str] = {}
        set_plans = []
        for rendered in self.sets.values():
            set_plan = self._plan_set_cached(
                rendered, pending_deletions.get(rendered.parent), protection_causes.get(rendered.parent)
            )
            if not rendered.source:
                set_plan = replace(set_plan, former_source=former_sources.get(rendered.parent, ""))
            pending_deletions |= {
                candidate.member.key: candidate
                for candidate in set_plan.prune_candidates
                if candidate.outcome is PruneOutcome.DELETE
            }
            protection_causes |= prune.protected_keys(set_plan.prune_candidates)
            if set_plan.is_unknown and set_plan.not_moved:
                protection_causes |= dict.fromkeys(self.observed.members.get(rendered.id, ()), set_plan.not_moved)
            former_sources |= {candidate.member.key: set_plan.source for candidate in set_plan.prune_candidates}
            set_plans.append(set_plan)
        return Plan(tuple(set_plans))

    def _plan_set_cached(
        self, rendered: RenderedApplySet, candidate: PruneCandidate | None, protection_cause: Cause | None
    ) -> ApplySetPlan:
        """The plan of a set; of an instance that is wanted the one of before, where nothing of it has changed."""
        if rendered.parent not in self.rendering.instances:
            return self._plan_set(rendered, candidate, protection_cause)
        if cached_plan := self.comparison_cache.carry(rendered, self.set_inputs):
            return cached_plan
        self.permission_answers.clear()
        set_plan = self._plan_set(rendered, None, None)
        self.comparison_cache.carried.keep(set_plan, self.set_inputs, tuple(self.permission_answers))
        return set_plan

    def _plan_set(
        self, rendered: RenderedApplySet, candidate: PruneCandidate | None, protection_cause: Cause | None
    ) -> ApplySetPlan:
        return self._with_parent_failure(
            self._with_epoch_first(self._decide_set(rendered, candidate, protection_cause))
        )

    def _with_epoch_first(self, plan: ApplySetPlan) -> ApplySetPlan:
        """Before the first write of a set in an epoch the epoch is put on its parent, and only there where nobody else has written: so who was
        overtaken without knowing it learns it there.
        """
        if (
            plan.parent is None
            or inventory.epoch_of(plan.parent) >= self.constraints.epoch
            or not plan.has_member_changes
        ):
            return plan
        postponed = tuple(
            candidate.with_postponement("the parent is written first") for candidate in plan.prune_candidates
        )
        return replace(
            plan,
            nodes=tuple(node_plan._replace(allowed=False) for node_plan in plan.nodes),
            repairs=tuple(node_plan._replace(allowed=False) for node_plan in plan.repairs),
            prune_candidates=postponed,
            superset_scope=plan.superset_scope or plan.current_scope,
            completion_record=plan.completion_record or annotation(plan.parent, well_known.COMPLETED),
        )

    def _with_parent_failure(self, plan: ApplySetPlan) -> ApplySetPlan:
        """A parent that could not be written is not written again in the same pass, and nothing that its scope must cover. Nor is one that was
        refused.
        """
        key = plan.rendered.parent
        failure = self.observed.failures.get(key) or self.constraints.refusal(key, key, plan.parent_intent, plan.parent)
        if failure is None:
            return plan
        parent_cause = Cause.from_error(failure)
        return replace(
            plan, superset_scope=None, exact_scope=None, detach=False, finish_deletion=False, parent_error=parent_cause
        )

    def _unwanted_instances(self) -> Iterator[RenderedApplySet]:
        """Live instances of our sets that Git or their parent no longer want, as sets with nothing desired; found from parent to child."""
        unwanted_keys = self.observed.parents.keys() - self.rendering.instances.keys()
        pending = [rendered.id for rendered in self.rendering.sets] if unwanted_keys else []
        while pending:
            for key in self.observed.members.get(pending.pop(), ()):
                if key in unwanted_keys:
                    last_rendering = self.rendering.leaving.get(key)
                    unwanted = (
                        replace(last_rendering, nodes=(), applied_rendering=last_rendering)
                        if last_rendering
                        else RenderedApplySet(parent=key)
                    )
                    pending.append(unwanted.id)
                    yield unwanted

    def _decide_set(
        self, rendered: RenderedApplySet, candidate: PruneCandidate | None, protection_cause: Cause | None
    ) -> ApplySetPlan:
        parent = self.observed.objects.get(rendered.parent)
        inherited_tools = self.constraints.adoption_of(rendered.source).inherited_tools
        try:
            current_scope = inventory.read_scope(parent, inherited_tools=inherited_tools) if parent else Scope()
        except ForeignSet as error:
            is_kro_set = parent is not None and inventory.tool_of(parent) == kro.TOOL
            return ApplySetPlan(
                rendered, parent, Scope(), error=Cause(Reason.CONFLICT, str(error)), is_unknown=is_kro_set
            )
        if not (parent and label(parent, well_known.PARENT_ID) and inventory.is_intact(parent)):
            current_scope = current_scope | self.constraints.scopes.get(rendered.parent, Scope())
        if not (rendered.is_source or rendered.parent in self.rendering.instances):
            return self._plan_unwanted(rendered, parent, current_scope, candidate, protection_cause)
        read_error = None if parent or rendered.is_source else self.observed.unreadable.get(rendered.parent.group_kind)
        if read_error:
            return ApplySetPlan(rendered, None, current_scope, error=Cause.from_error(read_error))
        if suspension_cause := self.permissions.suspended.get(rendered.parent):
            nodes = self.node_planner.plan_nodes(rendered, ready_to_write=False)
            return ApplySetPlan(
                rendered,
                parent,
                current_scope,
                nodes,
                target_revision=inventory.target_of(parent),
                error=suspension_cause,
            )
        if rendered.error:
            return ApplySetPlan(rendered, parent, current_scope, error=Cause(Reason.RENDER_FAILED, rendered.error))
        if rendered.held_reason:
            return self._plan_held(rendered, parent, current_scope)
        if not rendered.is_source and parent and is_terminating(parent):
            return self._plan_detaching(rendered, parent, current_scope)
        return self._plan_active(rendered, parent, current_scope)

    def _plan_unwanted(
        self,
        rendered: RenderedApplySet,
        parent: Object | None,
        current_scope: Scope,
        candidate: PruneCandidate | None,
        protection_cause: Cause | None,
    ) -> ApplySetPlan:
        """An instance that is not rendered. Only if its owner lets it go its members go; while it, or what uses it, may not be deleted yet it is
        healed, and else it may still be wanted, and stays as it is.
        """
        if parent and protection_cause and not self.to_final_state:
            applied_rendering = None if is_terminating(parent) else rendered.applied_rendering
            repairs = (
                self.node_planner.plan_repairs(applied_rendering, ready_to_write=True) if applied_rendering else ()
            )
            return ApplySetPlan(
                rendered, parent, current_scope, repairs=repairs, not_moved=protection_cause, is_unknown=True
            )
        if parent is None or candidate is None:
            return ApplySetPlan(rendered, parent, current_scope, is_unknown=True)
        return (
            self._plan_deleting(rendered, parent, current_scope)
            if is_terminating(parent)
            else self._plan_leaving(rendered, parent, current_scope)
        )

    def _plan_held(self, rendered: RenderedApplySet, parent: Object | None, current_scope: Scope) -> ApplySetPlan:
        """A set at its applied pair: what is missing or was changed by hand is healed, nothing is moved and nothing pruned."""
        hold_cause = Cause(Reason.RENDER_FAILED, rendered.held_reason)
        is_parent_current = (
            parent is not None and not is_terminating(parent) and bool(label(parent, well_known.PARENT_ID))
        )
        completion_record, is_recorded = self._completed_jobs(rendered, parent)
        nodes = self.node_planner.plan_nodes(
            rendered, ready_to_write=is_parent_current and is_recorded, hold_cause=hold_cause
        )
        superset_scope = current_scope if is_parent_current and not is_recorded else None
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            nodes,
            completion_record=completion_record,
            superset_scope=superset_scope,
            error=hold_cause,
        )

    def _completed_jobs(self, rendered: RenderedApplySet, parent: Object | None) -> tuple[str, bool]:
        """What the parent has to record of Jobs that have completed, and whether it does."""
        completion_record = completed_jobs.completion_record(
            rendered, self.observed, is_partial=rendered.parent in self.constraints.partial_sets
        )
        return completion_record, completion_record == (annotation(parent, well_known.COMPLETED) if parent else "")

    def _plan_detaching(self, rendered: RenderedApplySet, parent: Object, current_scope: Scope) -> ApplySetPlan:
        """Deleted by hand, still wanted: children stay, the finalizer goes once the scope is on record, the object is created again."""
        is_scope_recorded = self.constraints.scopes.get(rendered.parent, Scope()) >= current_scope
        can_detach = is_scope_recorded and _has_finalizer(parent)
        nodes = self.node_planner.plan_nodes(rendered, ready_to_write=False)
        candidates = self._prune_candidates(rendered, nodes, current_scope) if self.to_final_state else ()
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            nodes,
            candidates,
            target_revision=inventory.target_of(parent),
            detach=can_detach,
        )

    def _plan_leaving(self, rendered: RenderedApplySet, parent: Object, current_scope: Scope) -> ApplySetPlan:
        """An instance that its owner is about to delete: its members follow once it is deleted, if it may be."""
        candidates = self._prune_candidates(
            rendered, (), current_scope, release=annotation(parent, well_known.DELETION_POLICY) == "orphan"
        )
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            prune_candidates=tuple(candidate.with_postponement("goes with its instance") for candidate in candidates),
        )

    def _plan_deleting(self, rendered: RenderedApplySet, parent: Object, current_scope: Scope) -> ApplySetPlan:
        """Nobody wants the instance any more: prune with nothing desired, then let it go (S0-17)."""
        candidates = self._prune_candidates(
            rendered, (), current_scope, release=annotation(parent, well_known.DELETION_POLICY) == "orphan"
        )
        contested_keys = [key for key in self.observed.members.get(rendered.id, ()) if key in self.wanting_sets]
        message = f"it goes once others have taken over what they want of it: {join_names(contested_keys, limit=3)}"
        handover_cause = (
            Cause(Reason.DEPENDENCY_NOT_READY, message, object_key=contested_keys[0]) if contested_keys else None
        )
        can_finish = not (candidates or contested_keys) and self._is_listed(current_scope) and _has_finalizer(parent)
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            prune_candidates=candidates,
            finish_deletion=can_finish,
            parent_error=handover_cause,
        )

    def _plan_active(self, rendered: RenderedApplySet, parent: Object | None, current_scope: Scope) -> ApplySetPlan:
        desired_scope = self._scope_of(rendered)
        if rendered.applied_rendering:
            desired_scope |= self._scope_of(rendered.applied_rendering)
        target_revision = self.permissions.targets.get(rendered.parent) or inventory.target_of(parent)
        is_parent_current = (
            current_scope >= desired_scope and parent is not None and bool(label(parent, well_known.PARENT_ID))
        )
        is_parent_current = is_parent_current and parent is not None and inventory.is_intact(parent)
        if not rendered.is_source and parent is not None:
            is_parent_current = is_parent_current and inventory.tool_of(parent) == inventory.TOOL
            is_parent_current = (
                is_parent_current and _has_finalizer(parent) and target_revision == inventory.target_of(parent)
            )
        completion_record, is_recorded = self._completed_jobs(rendered, parent)
        is_parent_current = is_parent_current and is_recorded
        nodes = self.node_planner.plan_nodes(rendered, ready_to_write=is_parent_current)
        superset_scope = (
            current_scope | desired_scope
            if not is_parent_current and (rendered.is_source or _is_ours(parent))
            else None
        )
        candidates = self._prune_candidates(rendered, nodes, current_scope)
        repairs = self._plan_repairs(rendered, nodes, candidates, is_parent_current=is_parent_current)
        has_pending_writes = superset_scope is not None or any(
            node.allowed and node.action is not NodeAction.NONE for node in (*nodes, *repairs)
        )
        if has_pending_writes:
            candidates = tuple(
                candidate.with_postponement("pruned after everything is applied") for candidate in candidates
            )
        exact_scope = None
        is_complete = rendered.parent not in self.constraints.partial_sets
        if (
            parent is not None
            and not has_pending_writes
            and not candidates
            and is_complete
            and self._is_listed(current_scope)
        ):
            live_scope = inventory.scope_of(self.observed.members.get(rendered.id, ()), rendered.parent)
            unkeyed_nodes = (node for node in rendered.nodes if node.key is None and not node.external)
            unkeyed_scope = Scope(frozenset(node.group_kind for node in unkeyed_nodes))
            wanted_scope = desired_scope | live_scope | unkeyed_scope
            exact_scope = wanted_scope if wanted_scope != current_scope else None
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            nodes,
            candidates,
            repairs,
            target_revision,
            completion_record,
            superset_scope,
            exact_scope,
        )

    def _plan_repairs(
        self,
        rendered: RenderedApplySet,
        nodes: tuple[NodePlan, ...],
        candidates: tuple[PruneCandidate, ...],
        *,
        is_parent_current: bool,
    ) -> tuple[NodePlan, ...]:
        if rendered.applied_rendering is None:
            return ()
        denied_keys = {node_plan.node.key for node_plan in nodes if node_plan.lacks_permission and node_plan.node.key}
        denied_keys |= {candidate.member.key for candidate in candidates if candidate.lacks_permission}
        repairs = self.node_planner.plan_repairs(rendered.applied_rendering, ready_to_write=is_parent_current)
        return tuple(repair for repair in repairs if repair.node.key in denied_keys)

    def _is_listed(self, scope: Scope) -> bool:
        return all(kind in self.observed.listed or self.observed.has_none_of(kind) for kind in scope.kinds)

    def _prune_candidates(
        self, rendered: RenderedApplySet, nodes: tuple[NodePlan, ...], current_scope: Scope, *, release: bool = False
    ) -> tuple[PruneCandidate, ...]:
        if rendered.parent in self.constraints.partial_sets:
            return ()
        if self.wanting_sets.keys() >= set(self.observed.members.get(rendered.id, ())):
            return ()
        protections = [
            prune.PruneProtection(node_plan.node.id, node_plan.node.group_kind, node_plan.node.key)
            for node_plan in nodes
            if not (node_plan.is_applied or (self.to_final_state and node_plan.is_writable))
        ]
        hold_message = self.constraints.pruning_holds.get(rendered.source, "") if rendered.is_source else ""
        scopes = (
            [current_scope]
            if not rendered.is_source
            else [self._current_scope_of(other_set) for other_set in self.sets.values()]
        )
        if not hold_message and (self.observed.unreadable or not all(map(self._is_listed, scopes))):
            hold_message = "not every kind of the inventory could be listed; nothing is deleted on an incomplete view"
        candidates = prune.prune_candidates(
            rendered,
            self.observed,
            desired_keys=self.wanting_sets,
            protections=protections,
            dependents=self.dependents,
            unreadable=self.constraints.unreadable_files.get(rendered.source) if rendered.is_source else None,
            hold_message=hold_message,
            release=release,
            keeping_source=rendered.source if rendered.source in self.constraints.non_pruning_sources else "",
        )
        return tuple(self._with_obstacles(rendered, candidate) for candidate in candidates)

    def _with_obstacles(self, rendered: RenderedApplySet, candidate: PruneCandidate) -> PruneCandidate:
        """An orphan that could not be deleted in this pass, that was refused before, or that may not be deleted now, stays; also where it would not
        be deleted yet: it is the same as long as a gate holds it.
        """
        member = candidate.member
        live = self.observed.objects[member.key]
        failure = self.observed.failures.get(member.key) or self.constraints.refusal(
            rendered.parent, member.key, None, live
        )
        if failure:
            return replace(candidate, allowed=False, blocked=Cause.from_error(failure))
        if not (candidate.is_protected or (candidate.allowed and candidate.outcome is PruneOutcome.DELETE)):
            return candidate
        change = CandidateChange(rendered, member.key, Operation.PRUNE, member.node_id, member.level, live=live)
        cause = self.permissions.check(change)
        return replace(candidate, outcome=PruneOutcome.DELETE, allowed=False, blocked=cause) if cause else candidate

    def _scope_of(self, rendered: RenderedApplySet) -> Scope:
        """Where what the set owns may live, as far as that is known; not what it only refers to, nor a kind of which nothing ever lives."""
        scope = inventory.scope_of(
            (node.key for node in rendered.nodes if node.key and not node.external), rendered.parent
        )
        return replace(scope, kinds=frozenset(filterfalse(self.observed.is_only_answered, scope.kinds)))

    def _current_scope_of(self, rendered: RenderedApplySet) -> Scope:
        parent = self.observed.objects.get(rendered.parent)
        try:
            return inventory.read_scope(parent) if parent else Scope()
        except ForeignSet:
            return Scope()


def _is_ours(parent: Object | None) -> bool:
    """May its set be written? That of another tool only once the instance itself has been adopted."""
    if parent is None:
        return False
    return inventory.tool_of(parent) in {"", inventory.TOOL} or apply_entry(parent, CONTENT_MANAGER) is not None


def _has_finalizer(parent: Object) -> bool:
    return well_known.FINALIZER in (parent["metadata"].get("finalizers") or ())
