"""Plan of one set: its nodes, its prune candidates, and the actions due on its parent.

The module is pure. Levelgate writes the parent first and last. Before Levelgate writes a member, the scope on the
parent covers the member (I1). When nothing else is due, the scope shrinks to the kinds and namespaces that are left.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import filterfalse
from typing import Final, NamedTuple

from applier.applyset import completed_jobs, inventory, kro
from applier.applyset.inventory import ForeignSet, Scope
from applier.applyset.member import has_own_finalizer
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.plan import deletion
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ApplySetPlan, ChangePermissions, NodeAction, NodePlan
from applier.plan.node_planner import NodePlans, select_repairs
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome, protected_keys
from applier.plan.prune_planner import PrunePlanner
from applier.state.managed_fields import apply_entry
from applier.state.observed import annotation, is_terminating, label
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet


class MemberFate(NamedTuple):
    """Intent of a set for one of its members, on which the plan of the member's own set rests."""

    candidate: PruneCandidate | None
    """Deletion of the member, or None."""
    protection_cause: Cause | None
    """Cause that makes the set keep the member, although no set wants the member, or None."""
    former_source: str
    """Source of the set if the set no longer wants the member, or an empty string."""


NO_FATE: Final = MemberFate(None, None, "")
"""Fate of an object that no set keeps or deletes."""


def member_fates(set_plan: ApplySetPlan, members: Iterable[ObjectKey]) -> Mapping[ObjectKey, MemberFate]:
    """Return the fates that `set_plan` plans for members of its set, by key. Members without an entry have no fate.

    Args:
        members: keys of the live members of the set.
    """
    candidates = {candidate.member.key: candidate for candidate in set_plan.prune_candidates}
    causes = dict(protected_keys(set_plan.prune_candidates))
    causes |= {
        key: candidate.blocked
        for key, candidate in candidates.items()
        if candidate.blocked and candidate.member.is_terminating and candidate.outcome is PruneOutcome.KEEP
    }
    if set_plan.is_unknown and set_plan.not_moved:
        causes |= dict.fromkeys(members, set_plan.not_moved)
    deletions = {key: one for key, one in candidates.items() if one.outcome is PruneOutcome.DELETE}
    return {
        key: MemberFate(deletions.get(key), causes.get(key), set_plan.source if key in candidates else "")
        for key in candidates.keys() | causes.keys()
    }


@dataclass(frozen=True)
class ApplySetPlanner:
    """Planner of single sets, which chooses the plan by the state of the parent."""

    observed: ObservedView
    instances: Container[ObjectKey]
    """Keys of the rendered instances."""
    constraints: PlanConstraints
    permissions: ChangePermissions
    to_final_state: bool
    node_planner: NodePlans
    prune_planner: PrunePlanner

    def plan_set(self, rendered: RenderedApplySet, fate: MemberFate) -> ApplySetPlan:
        """Plan one set.

        Args:
            rendered: the set, without nodes if the set is no longer wanted.
            fate: the fate of the set's parent, as the owning set plans it.
        """
        plan = self._with_parent_failure(
            self._with_epoch_first(self._decide_set(rendered, fate.candidate, fate.protection_cause))
        )
        if fate.former_source and not rendered.source:
            plan = replace(plan, former_source=fate.former_source)
        cause = deletion.parent_cause(plan, self.observed)
        return replace(plan, deletion=cause) if cause else plan

    def _with_epoch_first(self, plan: ApplySetPlan) -> ApplySetPlan:
        """Return a plan that writes the term of leadership to the parent before the first member of that term.

        If a process of a later term has written the parent, the write fails. So a process that has lost its leadership
        without noticing stops at this write.
        """
        if (
            plan.parent is None
            or inventory.epoch_of(plan.parent) >= self.constraints.epoch
            or not plan.has_member_changes
        ):
            return plan
        return replace(
            plan,
            nodes=tuple(node_plan._replace(allowed=False) for node_plan in plan.nodes),
            repairs=tuple(node_plan._replace(allowed=False) for node_plan in plan.repairs),
            prune_candidates=_postponed(plan.prune_candidates, "the parent is written first"),
            superset_scope=plan.superset_scope or plan.current_scope,
            completion_record=plan.completion_record or annotation(plan.parent, well_known.COMPLETED),
        )

    def _with_parent_failure(self, plan: ApplySetPlan) -> ApplySetPlan:
        """Return `plan`, without further writes of the parent if a write of the parent has failed.

        Failures of this reconciliation count, and so do earlier refusals of the same write by the server.
        """
        key = plan.rendered.parent
        failure = self.observed.failures.get(key) or self.constraints.refusal(key, key, plan.parent_intent, plan.parent)
        if failure is None:
            return plan
        parent_cause = Cause.from_error(failure)
        return replace(
            plan, superset_scope=None, exact_scope=None, detach=False, finish_deletion=False, parent_error=parent_cause
        )

    def _decide_set(
        self, rendered: RenderedApplySet, candidate: PruneCandidate | None, protection_cause: Cause | None
    ) -> ApplySetPlan:
        parent = self.observed.objects.get(rendered.parent)
        adoptable_tools = self.constraints.adoption_of(rendered.source).adoptable_tools
        try:
            current_scope = inventory.read_scope(parent, adoptable_tools=adoptable_tools) if parent else Scope()
        except ForeignSet as error:
            is_kro_set = parent is not None and inventory.tool_of(parent) == kro.TOOL
            return ApplySetPlan(
                rendered, parent, Scope(), error=Cause(Reason.CONFLICT, str(error)), is_unknown=is_kro_set
            )
        if not (parent and label(parent, well_known.PARENT_ID) and inventory.is_intact(parent)):
            current_scope = current_scope | self.constraints.scopes.get(rendered.parent, Scope())
        if not (rendered.is_source or rendered.parent in self.instances):
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
                self.prune_planner.departing_members(rendered),
                target_revision=inventory.target_revision_of(parent),
                error=suspension_cause,
            )
        if (
            parent
            and is_terminating(parent)
            and (rendered.error or rendered.held_reason)
            and deletion.deleted_container(rendered.parent, self.observed)
        ):
            return self._plan_detaching(rendered, parent, current_scope)
        if rendered.error:
            render_cause = Cause(Reason.RENDER_FAILED, rendered.error)
            departing = self.prune_planner.departing_members(rendered)
            return ApplySetPlan(rendered, parent, current_scope, prune_candidates=departing, error=render_cause)
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
        """Plan an instance that is not rendered.

        The first matching case decides:

        1. The owning set protects the instance (`protection_cause`): heal the members.
        2. The instance is missing: see `_plan_lost`.
        3. The owning set does not delete the instance (no `candidate`): keep the instance, which may still be wanted.
        4. Otherwise prune the members, now or after the deletion of the instance has begun.
        """
        if parent and protection_cause and not self.to_final_state:
            applied_rendering = None if is_terminating(parent) else rendered.applied_rendering
            applied_nodes = (
                self.node_planner.plan_nodes(applied_rendering, ready_to_write=True) if applied_rendering else ()
            )
            repairs = select_repairs(applied_nodes, ready_to_write=True)
            return ApplySetPlan(
                rendered, parent, current_scope, repairs=repairs, not_moved=protection_cause, is_unknown=True
            )
        if parent is None:
            return self._plan_lost(rendered, current_scope)
        if candidate is None:
            suspension_cause = self.permissions.suspended.get(rendered.parent) if is_terminating(parent) else None
            return ApplySetPlan(rendered, parent, current_scope, error=suspension_cause, is_unknown=True)
        return (
            self._plan_deleting(rendered, parent, current_scope)
            if is_terminating(parent)
            else self._plan_leaving(rendered, parent, current_scope)
        )

    def _plan_lost(self, rendered: RenderedApplySet, current_scope: Scope) -> ApplySetPlan:
        """Plan a set whose instance is missing.

        Once it is certain that Git does not declare the instance, prune the members of the set.
        """
        cause = self.prune_planner.find_lost_cause(rendered)
        if cause or rendered.parent in self.prune_planner.wanting_sets:
            return ApplySetPlan(rendered, None, current_scope, not_moved=cause, is_unknown=True, is_lost=True)
        last = rendered.applied_rendering
        release = last is not None and annotation(last.manifest, well_known.DELETION_POLICY) == "orphan"
        candidates = self.prune_planner.plan_candidates(rendered, (), current_scope, release=release)
        return ApplySetPlan(rendered, None, current_scope, prune_candidates=candidates, is_lost=True)

    def _plan_held(self, rendered: RenderedApplySet, parent: Object | None, current_scope: Scope) -> ApplySetPlan:
        """Plan a set that stays at its applied snapshot: heal the objects, but update and prune none."""
        hold_cause = Cause(Reason.RENDER_FAILED, rendered.held_reason)
        is_parent_applied = (
            parent is not None and not is_terminating(parent) and bool(label(parent, well_known.PARENT_ID))
        )
        completion_record, is_recorded = self._completed_jobs(rendered, parent)
        nodes = self.node_planner.plan_nodes(
            rendered, ready_to_write=is_parent_applied and is_recorded, hold_cause=hold_cause
        )
        superset_scope = current_scope if is_parent_applied and not is_recorded else None
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            nodes,
            self.prune_planner.departing_members(rendered),
            completion_record=completion_record,
            superset_scope=superset_scope,
            error=hold_cause,
        )

    def _completed_jobs(self, rendered: RenderedApplySet, parent: Object | None) -> tuple[str, bool]:
        """Return the completed Jobs to record on `parent`, and whether `parent` already records exactly these Jobs."""
        completion_record = completed_jobs.completion_record(rendered, self.observed, is_partial=False)
        return completion_record, completion_record == (annotation(parent, well_known.COMPLETED) if parent else "")

    def _plan_detaching(self, rendered: RenderedApplySet, parent: Object, current_scope: Scope) -> ApplySetPlan:
        """Plan an instance that another client deleted and that is still wanted.

        The members of the instance stay. Once Levelgate has recorded the scope, Levelgate removes the finalizer, and
        creates the instance again.
        """
        is_scope_recorded = self.constraints.scopes.get(rendered.parent, Scope()) >= current_scope
        can_detach = is_scope_recorded and has_own_finalizer(parent)
        nodes = self.node_planner.plan_nodes(rendered, ready_to_write=False)
        candidates = self.prune_planner.plan_candidates(rendered, nodes, current_scope) if self.to_final_state else ()
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            nodes,
            candidates,
            target_revision=inventory.target_revision_of(parent),
            detach=can_detach,
        )

    def _plan_leaving(self, rendered: RenderedApplySet, parent: Object, current_scope: Scope) -> ApplySetPlan:
        """Plan an instance that its owner is about to delete.

        After the deletion of the instance has begun, a later plan prunes the members of the set.
        """
        candidates = self._members_to_prune(rendered, parent, current_scope)
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            prune_candidates=_postponed(candidates, "deleted with its instance"),
        )

    def _plan_deleting(self, rendered: RenderedApplySet, parent: Object, current_scope: Scope) -> ApplySetPlan:
        """Plan a terminating instance: prune all members, then remove the finalizer (S0-17)."""
        candidates = self._members_to_prune(rendered, parent, current_scope)
        contested_keys = self.prune_planner.wanted_members(rendered)
        message = f"the deletion waits until other sets take over {join_names(contested_keys, limit=3)}"
        handover_cause = (
            Cause(Reason.DEPENDENCY_NOT_READY, message, object_key=contested_keys[0]) if contested_keys else None
        )
        is_empty = not (candidates or contested_keys) and self.prune_planner.is_listed(current_scope)
        return ApplySetPlan(
            rendered,
            parent,
            current_scope,
            prune_candidates=candidates,
            finish_deletion=is_empty and has_own_finalizer(parent),
            parent_error=handover_cause,
        )

    def _members_to_prune(
        self, rendered: RenderedApplySet, parent: Object, current_scope: Scope
    ) -> tuple[PruneCandidate, ...]:
        release = annotation(parent, well_known.DELETION_POLICY) == "orphan"
        return self.prune_planner.plan_candidates(rendered, (), current_scope, release=release)

    def _plan_active(self, rendered: RenderedApplySet, parent: Object | None, current_scope: Scope) -> ApplySetPlan:
        """Plan a wanted set.

        The order is: widen the scope, write desired members, delete prune candidates, narrow the scope.
        """
        desired_scope = self._scope_of(rendered) | self.constraints.unlabelled_scopes.get(rendered.parent, Scope())
        if rendered.applied_rendering:
            desired_scope |= self._scope_of(rendered.applied_rendering)
        target_revision = self.permissions.targets.get(rendered.parent) or inventory.target_revision_of(parent)
        completion_record, is_recorded = self._completed_jobs(rendered, parent)
        is_parent_applied = (
            is_recorded and current_scope >= desired_scope and _is_parent_applied(rendered, parent, target_revision)
        )
        nodes = self.node_planner.plan_nodes(rendered, ready_to_write=is_parent_applied)
        superset_scope = (
            current_scope | desired_scope
            if not is_parent_applied and (rendered.is_source or _is_ours(parent))
            else None
        )
        candidates = self.prune_planner.plan_candidates(rendered, nodes, current_scope)
        applied_nodes = (
            self.node_planner.plan_nodes(rendered.applied_rendering, ready_to_write=True)
            if rendered.applied_rendering
            else ()
        )
        repairs = _select_denied_repairs(applied_nodes, nodes, candidates, ready_to_write=is_parent_applied)
        exact_scope = None
        if superset_scope is not None or any(
            node.allowed and node.action is not NodeAction.NONE for node in (*nodes, *repairs)
        ):
            candidates = _postponed(candidates, "pruned after everything is applied")
        elif parent is not None and not candidates:
            exact_scope = self._exact_scope(rendered, desired_scope, current_scope)
        set_plan = ApplySetPlan(
            rendered,
            parent,
            current_scope,
            nodes,
            candidates,
            repairs,
            target_revision,
            completion_record,
            superset_scope,
            first_scope=current_scope | desired_scope if parent is None and not rendered.is_source else None,
            exact_scope=exact_scope,
            former_nodes=select_former_nodes(applied_nodes, nodes),
        )
        return replace(set_plan, begun_at=self._start_to_record(set_plan))

    def _start_to_record(self, set_plan: ApplySetPlan) -> datetime | None:
        """Return the time at which a change of an instance began, or None if later plans need no record of this time.

        Deleted objects no longer show the start. An enclosing instance counts as applied before its nested instance is
        applied.
        """
        rendered = set_plan.rendered
        is_unfinished = rendered.is_nested and not all(node_plan.is_applied for node_plan in set_plan.nodes)
        if rendered.is_source or not (set_plan.candidates_to_remove or is_unfinished):
            return None
        progress = self.prune_planner.drain_progress(rendered)
        return progress.since if progress else None

    def _exact_scope(self, rendered: RenderedApplySet, desired_scope: Scope, current_scope: Scope) -> Scope | None:
        """Return the scope to record for a set without further work.

        If `current_scope` already is this scope, or if the list of one of its kinds is incomplete, return None.
        """
        if not self.prune_planner.is_listed(current_scope):
            return None
        live_scope = inventory.scope_of(self.observed.members.get(rendered.id, ()), rendered.parent)
        unkeyed_nodes = (node for node in rendered.nodes if node.key is None and not node.external)
        unkeyed_scope = Scope(frozenset(node.group_kind for node in unkeyed_nodes))
        wanted_scope = desired_scope | live_scope | unkeyed_scope
        return wanted_scope if wanted_scope != current_scope else None

    def _scope_of(self, rendered: RenderedApplySet) -> Scope:
        """Return the scope of the nodes of `rendered` whose keys are known.

        The result omits external nodes, and kinds that the server does not store.
        """
        scope = inventory.scope_of(
            (node.key for node in rendered.nodes if node.key and not node.external), rendered.parent
        )
        return replace(scope, kinds=frozenset(filterfalse(self.observed.is_only_answered, scope.kinds)))


def _select_denied_repairs(
    applied_nodes: Iterable[NodePlan],
    nodes: Iterable[NodePlan],
    candidates: Iterable[PruneCandidate],
    *,
    ready_to_write: bool,
) -> tuple[NodePlan, ...]:
    """Return the repairs among `applied_nodes` of the objects whose change or deletion lacks permission."""
    denied_keys = {node_plan.node.key for node_plan in nodes if node_plan.lacks_permission and node_plan.node.key}
    denied_keys |= {candidate.member.key for candidate in candidates if candidate.lacks_permission}
    repairs = select_repairs(applied_nodes, ready_to_write=ready_to_write)
    return tuple(repair for repair in repairs if repair.node.key in denied_keys)


def select_former_nodes(applied_nodes: Iterable[NodePlan], nodes: Iterable[NodePlan]) -> tuple[NodePlan, ...]:
    """Return the plans in `applied_nodes` whose objects no node in `nodes` renders."""
    keys = {node_plan.node.key for node_plan in nodes}
    return tuple(node_plan for node_plan in applied_nodes if node_plan.node.key and node_plan.node.key not in keys)


def _postponed(candidates: tuple[PruneCandidate, ...], message: str) -> tuple[PruneCandidate, ...]:
    return tuple(candidate.with_postponement(message) for candidate in candidates)


def _is_parent_applied(rendered: RenderedApplySet, parent: Object | None, target_revision: int) -> bool:
    """Return whether `parent` has all keys that members rely on.

    The scope and the record of completed Jobs do not count.
    """
    if parent is None or not label(parent, well_known.PARENT_ID) or not inventory.is_intact(parent):
        return False
    return rendered.is_source or (
        inventory.tool_of(parent) == inventory.TOOL
        and has_own_finalizer(parent)
        and target_revision == inventory.target_revision_of(parent)
    )


def _is_ours(parent: Object | None) -> bool:
    """Return whether Levelgate may write the set of `parent`.

    If the set belongs to another tool, Levelgate may write the set only after an adoption of its instance.
    """
    if parent is None:
        return False
    return inventory.tool_of(parent) in {"", inventory.TOOL} or apply_entry(parent, CONTENT_MANAGER) is not None
