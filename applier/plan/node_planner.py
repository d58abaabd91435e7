"""One set's nodes in order of level: what each takes, and why it may not happen now.

A node is written only when all its ancestors are written at this revision and ready, on fresh observations (rules 1 and 2); unrelated
branches go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial

from applier import status
from applier.applyset import member
from applier.applyset.adoption import HUMAN_MANAGER_PREFIXES, NO_ADOPTION, TOOLS, Adoption, entries_applied_by
from applier.applyset.completed_jobs import JOB, is_completed
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.errors import ClusterError, Denied, Immutable, Invalid, Unavailable
from applier.plan.comparison_cache import ComparisonCache, Verdict
from applier.plan.model import (
    Barrier,
    CandidateChange,
    ChangePermissions,
    DrainProgress,
    NodeAction,
    NodePlan,
    Operation,
    PlanConstraints,
)
from applier.state.health import health_of, health_reference
from applier.state.managed_fields import annotation_managers, apply_entry
from applier.state.observed import Observed, annotation, is_terminating, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.manifest_hash import is_written_from
from renderer.render.model import RenderedApplySet, RenderedNode

BARRIER_ACTIONS = frozenset({NodeAction.CREATE, NodeAction.UPDATE, NodeAction.REPLACE, NodeAction.ADOPT})
"""What waits for ancestors. Repairs do not."""

_NOT_FRESH_MESSAGE = "its status does not speak of the newest generation yet"


@dataclass(frozen=True)
class NodePlanner:
    """`wanted` maps a key to the ids of the sets that want it, in order; `sets` are all sets of the plan by id; `instance_kinds` the kinds of
    our instances; `commits` those of the sources.
    """

    observed: Observed
    wanting_sets: Mapping[ObjectKey, Sequence[str]]
    sets: Mapping[str, RenderedApplySet]
    instance_kinds: Collection[GroupKind]
    commits: Mapping[str, str]
    constraints: PlanConstraints
    permissions: ChangePermissions
    comparison_cache: ComparisonCache

    def plan_nodes(
        self, rendered: RenderedApplySet, *, ready_to_write: bool, hold_cause: Cause | None = None
    ) -> tuple[NodePlan, ...]:
        """A `held` set is healed: nothing of it is moved to another manifest."""
        plans: dict[str, NodePlan] = {}
        dependents_causes: dict[str, Cause | None] = {}
        drain_progress = cache(partial(self._drain_progress, rendered))  # few sets are asked how far they have begun
        barrier = self.permissions.barriers.get(rendered.parent, Barrier.PATH)
        dependencies = rendered.member_dependencies
        depended_on = {name for node in rendered.nodes for name in node.depends_on}
        for node in rendered.nodes:
            ancestor_cause = next(filter(None, map(dependents_causes.get, node.depends_on)), None)
            ancestor_cause = ancestor_cause or _barrier_cause(barrier, node, plans.values(), dependents_causes)
            node_plan = self._plan_node(
                rendered,
                node,
                plans,
                ancestor_cause,
                dependencies[node.id],
                ready_to_write=ready_to_write,
                drain_progress=drain_progress,
            )
            if hold_cause and node_plan.allowed and node_plan.action in {NodeAction.UPDATE, NodeAction.RECORD}:
                node_plan = node_plan._replace(allowed=False, blocked=hold_cause)
            plans[node.id] = node_plan
            if node.id in depended_on or barrier is not Barrier.PATH:
                dependents_causes[node.id] = ancestor_cause or self._dependents_cause(node_plan)
        return tuple(plans.values())

    def plan_repairs(self, applied_rendering: RenderedApplySet, *, ready_to_write: bool) -> tuple[NodePlan, ...]:
        """What heals an instance at its applied pair, and what has to be looked at for that."""
        node_plans = self.plan_nodes(applied_rendering, ready_to_write=True)
        heal_actions = {NodeAction.CREATE, NodeAction.HEAL}
        repairs_due = (
            node_plan
            for node_plan in node_plans
            if node_plan.action is NodeAction.READ or (node_plan.allowed and node_plan.action in heal_actions)
        )
        return tuple(node_plan._replace(allowed=node_plan.allowed and ready_to_write) for node_plan in repairs_due)

    def _drain_progress(self, rendered: RenderedApplySet) -> DrainProgress | None:
        """How far the set has got with what is new; None where it has not begun, or it is not known what is new."""
        if rendered.is_applied or (rendered.applied and rendered.applied_rendering is None):
            return None
        applied_manifests = (
            {node.key: node.manifest for node in rendered.applied_rendering.nodes} if rendered.applied_rendering else {}
        )
        is_for_target = self._target_filter(rendered)
        moved_nodes = [
            (node.level, written_at)
            for node in rendered.nodes
            if node.key
            and node.writable
            and applied_manifests.get(node.key) != node.manifest
            and (live := self.observed.objects.get(node.key))
            and is_written_from(live, node.manifest, node.hash)
            and (written_at := _written_at(live))
            and is_for_target(live, written_at)
        ]
        return (
            DrainProgress(max(level for level, _ in moved_nodes), min(since for _, since in moved_nodes))
            if moved_nodes
            else None
        )

    def _target_filter(self, rendered: RenderedApplySet) -> Callable[[Object, datetime], bool]:
        """Was a member, at this time, written for what is wanted now, and not for something before it that wanted the same of this one? In a source
        that is this commit; in an instance its revision, and its own manifest as it was written.
        """
        if rendered.is_source:
            commit = member.short_commit(self.commits.get(rendered.source, ""))
            return lambda live, _: bool(commit) and annotation(live, well_known.COMMIT) == commit
        parent, revision = self.observed.objects.get(rendered.parent), str(rendered.revision)
        instance_written_at = _written_at(parent) if parent and is_written_from(parent, rendered.manifest) else None
        return lambda live, written_at: (
            instance_written_at is not None
            and written_at >= instance_written_at
            and annotation(live, well_known.REVISION) == revision
        )

    def _dependents_cause(self, plan: NodePlan) -> Cause | None:
        """Why dependents of this node may not start; None when they may."""
        if (
            plan.is_applied_and_ready
            or annotation({"metadata": plan.node.manifest.get("metadata")}, well_known.WAIT_FOR) == "none"
        ):
            return None
        message = plan.blocked.message if plan.blocked else f"{plan.action} to be done"
        return Cause(Reason.DEPENDENCY_NOT_READY, f"{plan.node.id}: {message}", blockers=(plan.node.id,))

    def _plan_node(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        plans: Mapping[str, NodePlan],
        ancestor_cause: Cause | None,
        dependencies: Collection[str],
        *,
        ready_to_write: bool,
        drain_progress: Callable[[], DrainProgress | None],
    ) -> NodePlan:
        live = self.observed.objects.get(node.key) if node.key else None
        parent = self.observed.objects.get(rendered.parent)
        if unwritable_plan := self._plan_unwritable(rendered, node, live, ancestor_cause, parent):
            return unwritable_plan
        assert node.key is not None
        health = self._health(node, live)
        healthy = health.status is status.KStatus.CURRENT
        has_manifest = live is not None and is_written_from(live, node.manifest, node.hash)
        is_proven_healthy = live is not None and has_manifest and healthy and status.is_fresh(live)
        recorded_dependencies = tuple(member.dependencies_to_record(live, dependencies, is_healthy=is_proven_healthy))
        action, lost_fields = self._decide_action(
            rendered, node, live, recorded_dependencies, has_manifest=has_manifest
        )
        failure = self._write_failure(rendered, node, node.key, live)
        action = self._action_after_refusal(node, live, action, failure)
        cause = self._blocking_cause(rendered, node, live, ancestor_cause, action, failure)
        ready, readiness_cause = self._readiness(node, live, health) if live is not None else (False, None)
        for name in node.healthy_first:
            if name in plans and not plans[name].healthy and cause is None and action in BARRIER_ACTIONS:
                cause = Cause(Reason.DEPENDENCY_NOT_READY, f"{name} is not healthy yet", blockers=(name,))
        if cause is None and action not in {NodeAction.NONE, NodeAction.READ}:
            operation = action.operation(is_applied=rendered.is_applied)
            node_id = "" if rendered.is_source else node.id
            cause = self._permission_cause(
                action, CandidateChange(rendered, node.key, operation, node_id, node.level, drain_progress(), live)
            )
        allowed = action is not NodeAction.NONE and cause is None and ready_to_write
        is_ttl_removed = live is None and node.group_kind == JOB and self._was_completed(rendered, node, parent)
        return NodePlan(
            node,
            action,
            live,
            allowed,
            ready or is_ttl_removed,
            healthy or is_ttl_removed,
            cause or readiness_cause,
            recorded_dependencies,
            _forced_managers(node, live),
            lost_fields,
            self._adoption(rendered),
            "" if healthy or (rendered.is_source and node.group_kind in self.instance_kinds) else health.message,
            recheck_at=health.until,
            health_reference=health_reference(live) if live is not None else None,
            is_ttl_removed=is_ttl_removed,
        )

    def _plan_unwritable(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        live: Object | None,
        ancestor_cause: Cause | None,
        parent: Object | None,
    ) -> NodePlan | None:
        """The plan of a node that is not to be written whatever gates say: it is of others, not known yet, or through; None of any other."""
        if node.external:
            return self._plan_external(node, live, ancestor_cause)
        if node.error or node.waiting:
            return self._plan_unrendered(rendered, node, live)
        assert node.key is not None
        if read_error := self.observed.unreadable.get(node.group_kind):
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.from_error(read_error))
        if self.observed.is_only_answered(node.group_kind):
            message = f"the server answers a {node.group_kind} and keeps none, so there is nothing to manage; take it out of Git"
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause(Reason.APPLY_FAILED, message))
        if is_completed(node, live, parent, self.observed.now):
            return NodePlan(node, NodeAction.NONE, None, ready=True, healthy=True, is_ttl_removed=True)
        if live is None and not self.observed.is_known(node.key):
            return self._plan_unread(node, node.key)
        return None

    def _permission_cause(self, action: NodeAction, change: CandidateChange) -> Cause | None:
        """The gate that holds a change; what is replaced is deleted, and must be allowed to come again."""
        cause = self.permissions.check(change)
        if cause is None and action is NodeAction.REPLACE:
            cause = self.permissions.check(change._replace(operation=Operation.CREATE))
        return cause

    def _was_completed(self, rendered: RenderedApplySet, node: RenderedNode, parent: Object | None) -> bool:
        """A Job that is to be made anew, and that had completed as it was before."""
        applied_nodes = rendered.applied_rendering.nodes if rendered.applied_rendering else ()
        return any(
            applied_node.key == node.key and is_completed(applied_node, None, parent, self.observed.now)
            for applied_node in applied_nodes
        )

    def _plan_unread(self, node: RenderedNode, key: ObjectKey) -> NodePlan:
        """It is not known whether it is there. Why it could not be read says the failure; one of a write is no reason not to look again."""
        match self.observed.failures.get(key):
            case Denied() | Invalid() | Unavailable() as failure:
                return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.from_error(failure))
        return NodePlan(node, NodeAction.READ, None, blocked=Cause(Reason.PROGRESSING, "not looked at yet"))

    def _plan_unrendered(self, rendered: RenderedApplySet, node: RenderedNode, live: Object | None) -> NodePlan:
        """A node that cannot be written yet, or at all; what is live of it goes on being ready and healthy."""
        cause = (
            Cause(Reason.RENDER_FAILED, node.mistake)
            if node.error
            else Cause(Reason.WAITING_FOR_DATA, ", ".join(node.waiting))
        )
        if live is None or label(live, well_known.PART_OF) != rendered.id:
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=cause)
        health = self._health(node, live)
        healthy = health.status is status.KStatus.CURRENT
        ready, _ = self._readiness(node, live, health)
        return NodePlan(
            node,
            NodeAction.UNKNOWN,
            live,
            ready=ready,
            healthy=healthy,
            blocked=cause,
            recheck_at=health.until,
            health_reference=health_reference(live),
        )

    def _plan_external(self, node: RenderedNode, live: Object | None, ancestor_cause: Cause | None) -> NodePlan:
        if node.error:
            return NodePlan(node, NodeAction.NONE, None, blocked=Cause(Reason.RENDER_FAILED, node.mistake))
        if live is None:
            if node.key and (failure := self.observed.failures.get(node.key)):
                return NodePlan(node, NodeAction.NONE, None, blocked=Cause.from_error(failure))
            action = NodeAction.READ if node.key and not self.observed.is_known(node.key) else NodeAction.NONE
            missing = ", ".join(node.waiting) or f"{node.key} to exist"
            return NodePlan(node, action, None, blocked=Cause(Reason.WAITING_FOR_DATA, missing))
        health = self._health(node, live)
        ready, readiness_cause = self._readiness(node, live, health)
        return NodePlan(
            node,
            NodeAction.NONE,
            live,
            ready=ready,
            healthy=True,
            blocked=ancestor_cause or readiness_cause,
            recheck_at=None if ready else health.until,
        )

    def _decide_action(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        live: Object | None,
        dependencies: tuple[str, ...],
        *,
        has_manifest: bool,
    ) -> Verdict:
        if live is None:
            return NodeAction.CREATE, ()
        live_set_id = label(live, well_known.PART_OF)
        if apply_entry(live, CONTENT_MANAGER) is None and (
            not live_set_id or (live_set_id == rendered.id and self._is_inherited(rendered, live))
        ):
            return NodeAction.ADOPT, ()
        if live_set_id != rendered.id or not has_manifest:
            return NodeAction.UPDATE, ()
        return self.comparison_cache.verdict(rendered, node, live, dependencies)

    def _is_inherited(self, rendered: RenderedApplySet, live: Object) -> bool:
        """A member from the time when the set was another tool's, or kubectl's: a person has handed the set over."""
        inherited_tools = self._adoption(rendered).inherited_tools
        return bool(
            entries_applied_by(
                live,
                (*HUMAN_MANAGER_PREFIXES, *(name for tool in inherited_tools for name in TOOLS[tool].manager_prefixes)),
            )
        )

    def _write_failure(
        self, rendered: RenderedApplySet, node: RenderedNode, key: ObjectKey, live: Object | None
    ) -> ClusterError | None:
        """Why it could not be written: in this pass, or in an earlier one, if nothing has changed of it since."""
        refused_write = self.constraints.refused_writes.get((rendered.parent, key))
        refusal_error = refused_write.error if refused_write and refused_write.is_same(node.manifest, live) else None
        return self.observed.failures.get(key) or refusal_error

    def _action_after_refusal(
        self, node: RenderedNode, live: Object | None, action: NodeAction, failure: ClusterError | None
    ) -> NodeAction:
        """The server will not change the object and it may be replaced: then that is what it takes."""
        is_immutable = isinstance(failure, Immutable)
        if live is None or not is_immutable or action not in {NodeAction.UPDATE, NodeAction.HEAL}:
            return action
        is_replace_allowed = (
            _annotation_value(node, live, well_known.REPLACE) == "allowed"
            and annotation(live, well_known.PRUNE) != "disabled"
        )
        return NodeAction.REPLACE if is_replace_allowed and member.is_membership_proven(live) else action

    def _blocking_cause(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        live: Object | None,
        ancestor_cause: Cause | None,
        action: NodeAction,
        failure: ClusterError | None,
    ) -> Cause | None:
        """Why this write may not happen now; None when it may."""
        assert node.key is not None
        if failure and action is not NodeAction.REPLACE:
            return Cause.from_error(failure)
        if action in {NodeAction.CREATE, NodeAction.HEAL} and (
            repair_cause := self.constraints.throttled_repairs.get(node.key)
        ):
            return repair_cause
        if owner_cause := self._other_owner_cause(rendered, node.key, live):
            return owner_cause
        if live is not None:
            if is_terminating(live):
                return Cause(
                    Reason.PROGRESSING,
                    f"{node.key} {member.describe_deletion(live)}; it is created again once it is gone",
                    object_key=node.key,
                )
            if _is_disabled(node, live):
                return (
                    Cause(Reason.SUSPENDED, f"{well_known.RECONCILE}: disabled on {node.key}")
                    if action is not NodeAction.NONE
                    else None
                )
        return ancestor_cause if action in BARRIER_ACTIONS else None

    def _other_owner_cause(self, rendered: RenderedApplySet, key: ObjectKey, live: Object | None) -> Cause | None:
        """Does another set come first? The one that holds the object, as long as it still wants it; else the first that wants it.

        An object outside our sets is taken only if we wrote it ourselves and released it, or if the source may adopt it.
        """
        wanting_set_ids = self.wanting_sets.get(key, (rendered.id,))
        live_set_id = label(live, well_known.PART_OF) if live else ""
        owner_set_id = live_set_id if live_set_id in wanting_set_ids else wanting_set_ids[0]
        if owner_set_id != rendered.id:
            return Cause(
                Reason.OWNED_ELSEWHERE,
                f"{key} belongs to {self.sets[owner_set_id].parent}, which wants it too; keep it in one of the two",
            )
        if live is None or live_set_id == rendered.id:
            return None
        if live_set_id:
            live_set = self.sets.get(live_set_id)
            if live_set and not (live_set.error or live_set.held_reason):
                return None
            if live_set:
                return Cause(Reason.OWNED_ELSEWHERE, f"{key} is part of {live_set.parent}; remove it there first")
            if key in self.constraints.relinquished_keys or live_set_id in self.constraints.relinquished_sets:
                return None
            if foreign_source := self.constraints.foreign_sources.get(live_set_id):
                handover_advice = "take it out there, and it is handed over; nothing is deleted"
                advice = "if nobody follows that source any more, follow it too, with a path that holds nothing"
                return Cause(
                    Reason.OWNED_ELSEWHERE, f"{key} belongs to source {foreign_source}; {handover_advice} ({advice})"
                )
            parent_hint = f"its parent: kubectl get configmaps,secrets -A -l {well_known.PARENT_ID}={live_set_id}"
            advice = (
                f"stop who applies it, and take off its label {well_known.PART_OF}; removed there it may be deleted"
            )
            return Cause(Reason.OWNED_ELSEWHERE, f"{key} is part of a set that is not ours ({parent_hint}); {advice}")
        is_foreign = apply_entry(live, CONTENT_MANAGER) is None  # in no set, and never applied by us
        refusal = self._adoption(rendered).refusal(live) if is_foreign else ""
        return Cause(Reason.CONFLICT, refusal) if refusal else None

    def _adoption(self, rendered: RenderedApplySet) -> Adoption:
        return self.constraints.adoptions.get(rendered.source, NO_ADOPTION)

    def _health(self, node: RenderedNode, live: Object | None) -> status.HealthResult:
        if live is None:
            return status.health(None)
        if annotation(live, well_known.HEALTH) == "ignore":
            return status.HealthResult(status.KStatus.CURRENT)
        if not status.is_fresh(live):
            return status.HealthResult(status.KStatus.IN_PROGRESS, node.ready.why or _NOT_FRESH_MESSAGE)
        live_health = health_of(live, self.observed, is_instance=node.group_kind in self.instance_kinds)
        if node.ready.verdict is not False:
            return live_health
        unhealthy_message = live_health.message if live_health.status is not status.KStatus.CURRENT else ""
        return status.HealthResult(
            status.KStatus.IN_PROGRESS, "; ".join(filter(None, (node.ready.why, unhealthy_message)))
        )

    def _readiness(self, node: RenderedNode, live: Object, health: status.HealthResult) -> tuple[bool, Cause | None]:
        """Rule 2, first question; the annotation `wait-for` on the object replaces the rule. What is not ready says how it is as well."""
        healthy = health.status is status.KStatus.CURRENT
        wait_for = annotation(live, well_known.WAIT_FOR) or "ready"
        if is_terminating(live):
            return False, Cause(Reason.PROGRESSING, f"{node.key} {member.describe_deletion(live)}", object_key=node.key)
        if wait_for in {"none", "exists"}:
            return True, None
        if wait_for == "healthy":
            return healthy, None if healthy else Cause(Reason.PROGRESSING, "not healthy yet", object_key=node.key)
        if node.ready.verdict is not None:
            if node.ready.verdict and not status.is_fresh(live):
                return False, Cause(Reason.PROGRESSING, _NOT_FRESH_MESSAGE, object_key=node.key)
            message = health.message or node.ready.why
            return node.ready.verdict, None if node.ready.verdict else Cause(
                Reason.PROGRESSING, message, object_key=node.key
            )
        ready = status.is_ready_by_existence(live)
        return ready, None if ready else Cause(
            Reason.PROGRESSING, status.health(live).message or "not established yet", object_key=node.key
        )


def _barrier_cause(
    barrier: Barrier, node: RenderedNode, plans: Iterable[NodePlan], dependents_causes: Mapping[str, Cause | None]
) -> Cause | None:
    """What of the levels before a node keeps it. A node at a closed gate keeps only its own descendants, unless all count (S0-26)."""
    if barrier is Barrier.PATH:
        return None
    return next(
        (
            cause
            for node_plan in plans
            if node_plan.node.level < node.level
            and (cause := dependents_causes[node_plan.node.id])
            and (barrier is Barrier.ALL or not _waits_for_permission(node_plan))
        ),
        None,
    )


def _waits_for_permission(plan: NodePlan) -> bool:
    return plan.lacks_permission or (plan.blocked is not None and plan.blocked.reason is Reason.DEPENDENCY_NOT_READY)


def _annotation_value(node: RenderedNode, live: Object | None, key: str) -> str:
    """What an annotation says: in Git, else on the live object."""
    return annotation(node.manifest, key) or (annotation(live, key) if live else "")


def _is_disabled(node: RenderedNode, live: Object) -> bool:
    """Git says that it is not to be written, or a person on the live object. What only our own last write says there, Git has taken back."""
    if annotation(node.manifest, well_known.RECONCILE) == "disabled":
        return True
    return annotation(live, well_known.RECONCILE) == "disabled" and set(
        annotation_managers(live, well_known.RECONCILE)
    ) != {CONTENT_MANAGER}


def _forced_managers(node: RenderedNode, live: Object | None) -> tuple[str, ...]:
    match _annotation_value(node, live, well_known.CONFLICTS):
        case "force":
            return ("",)
        case "report":
            return ()
    return HUMAN_MANAGER_PREFIXES


def _written_at(live: Object) -> datetime | None:
    """When its content was written by us, as the server says."""
    time = (apply_entry(live, CONTENT_MANAGER) or {}).get("time")
    return datetime.fromisoformat(time) if time else None
