"""Plans of the nodes of one set, in level order: action, readiness and health of each node.

The module is pure. `barriers` decides which actions may not start yet. If a cause bars the action of a node, only the
descendants of the node stop, and other branches continue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial

from applier import status
from applier.applyset import member
from applier.applyset.adoption import TOOLS, entries_applied_by
from applier.applyset.completed_jobs import JOB, is_completed
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.errors import ClusterError, Denied, Immutable, Invalid, Unavailable
from applier.plan.barriers import NodeWrite, WriteBarriers, dependents_cause, level_cause
from applier.plan.comparison_cache import ComparisonCache, Verdict
from applier.plan.model import Barrier, DrainProgress, NodeAction, NodePlan
from applier.state.field_conflicts import HUMAN_MANAGER_PREFIXES, ConflictPolicy
from applier.state.health import health_of, health_reference
from applier.state.managed_fields import (
    LostField,
    apply_entry,
    compare_ownership,
    is_annotated_by_others,
    owned_metadata,
)
from applier.state.observed import annotation, is_terminating, label
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.manifest_hash import is_written_from
from renderer.render.model import RenderedApplySet, RenderedNode

_NOT_FRESH_MESSAGE = "the status does not cover the newest generation yet"


@dataclass(frozen=True)
class NodePlanner:
    """Planner of the nodes of one set."""

    observed: ObservedView
    instance_kinds: Collection[GroupKind]
    """Kinds that definitions define."""
    comparison_cache: ComparisonCache
    barriers: WriteBarriers

    def plan_nodes(
        self, rendered: RenderedApplySet, *, ready_to_write: bool, hold_cause: Cause | None = None
    ) -> tuple[NodePlan, ...]:
        """Plan all nodes of the set `rendered`.

        Args:
            ready_to_write: true if writes of nodes may start now.
            hold_cause: cause of a hold, or None. In a hold, Levelgate creates, replaces, adopts and heals objects, but
                updates no object to another manifest.
        """
        plans: dict[str, NodePlan] = {}
        dependents_causes: dict[str, Cause | None] = {}
        drain_progress = cache(partial(self.barriers.drain_progress, rendered))  # costly, and rarely needed
        barrier = self.barriers.barrier_of(rendered)
        depended_on = {name for node in rendered.nodes for name in node.depends_on}
        for node in rendered.nodes:
            ancestor_cause = next(filter(None, map(dependents_causes.get, node.depends_on)), None)
            ancestor_cause = ancestor_cause or level_cause(barrier, node, plans.values(), dependents_causes)
            node_plan = self._plan_node(
                rendered, node, plans=plans, ancestor_cause=ancestor_cause, drain_progress=drain_progress
            )
            if not ready_to_write:
                node_plan = node_plan._replace(allowed=False)
            if hold_cause and node_plan.allowed and node_plan.action in {NodeAction.UPDATE, NodeAction.RECORD}:
                node_plan = node_plan._replace(allowed=False, blocked=hold_cause)
            plans[node.id] = node_plan
            if node.id in depended_on or barrier is not Barrier.PATH:
                dependents_causes[node.id] = ancestor_cause or dependents_cause(node_plan)
        return tuple(plans.values())

    def _plan_node(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        *,
        plans: Mapping[str, NodePlan],
        ancestor_cause: Cause | None,
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
        recorded_dependencies = tuple(
            member.dependencies_to_record(live, rendered.member_dependencies[node.id], is_healthy=is_proven_healthy)
        )
        action, lost_fields = self._decide_action(
            rendered, node, live, recorded_dependencies, has_manifest=has_manifest
        )
        conflict_policy = self._conflict_policy(rendered, node, live)
        healed_fields = tuple(lost_field for lost_field in lost_fields if lost_field.is_healed_under(conflict_policy))
        is_healed_in_part = action is NodeAction.HEAL and bool(healed_fields)
        failure = self.barriers.write_failure(rendered, node, node.key, live)
        action = _action_after_refusal(node, live, action, failure)
        cause = self.barriers.find_cause(
            NodeWrite(rendered, node, node.key, live, action, is_repair=bool(lost_fields)),
            failure=failure,
            ancestor_cause=ancestor_cause,
            plans=plans,
            drain_progress=drain_progress,
        )
        ready, readiness_cause = _readiness(node, live, health) if live is not None else (False, None)
        is_ttl_removed = live is None and node.group_kind == JOB and self._was_completed(rendered, node, parent)
        return NodePlan(
            node,
            action,
            live,
            action is not NodeAction.NONE and cause is None,
            ready or is_ttl_removed,
            healthy or is_ttl_removed,
            cause or readiness_cause,
            recorded_dependencies,
            conflict_policy,
            healed_fields or lost_fields,
            tuple(lost for lost in lost_fields if lost not in healed_fields) if is_healed_in_part else (),
            self.barriers.adoption_of(rendered),
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
        """Return the plan of a node that cannot be written, or None if `node` may be written.

        The first matching case decides:

        1. The node is external.
        2. The node has no manifest.
        3. Levelgate cannot read the kind of the node.
        4. The server answers requests for the kind, but stores no objects of the kind.
        5. The node is a completed Job.
        6. Levelgate has not read the object yet.
        """
        if node.external:
            return self._plan_external(node, live, ancestor_cause)
        if node.error or node.waiting:
            return self._plan_unrendered(rendered, node, live)
        assert node.key is not None
        if read_error := self.observed.unreadable.get(node.group_kind):
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.from_error(read_error))
        if self.observed.is_only_answered(node.group_kind):
            message = (
                f"the server answers requests for {node.group_kind} but stores no objects; remove the object from Git"
            )
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause(Reason.APPLY_FAILED, message))
        if is_completed(node, live, parent, self.observed.now):
            return NodePlan(node, NodeAction.NONE, None, ready=True, healthy=True, is_ttl_removed=True)
        if live is None and not self.observed.is_known(node.key):
            return self._plan_unread(node, node.key)
        return None

    def _was_completed(self, rendered: RenderedApplySet, node: RenderedNode, parent: Object | None) -> bool:
        """Return whether the Job of `node`, which Levelgate has to create again, completed before.

        The Job in the applied snapshot decides. `parent` records the completion of the Job.
        """
        applied_nodes = rendered.applied_rendering.nodes if rendered.applied_rendering else ()
        return any(
            applied_node.key == node.key and is_completed(applied_node, None, parent, self.observed.now)
            for applied_node in applied_nodes
        )

    def _plan_unread(self, node: RenderedNode, key: ObjectKey) -> NodePlan:
        """Return a plan that reads the object `key` of the node, because the object may exist.

        If an earlier read failed, the plan reports that failure instead.
        """
        match self.observed.failures.get(key):
            case Denied() | Invalid() | Unavailable() as failure:
                return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.from_error(failure))
        return NodePlan(node, NodeAction.READ, None, blocked=Cause(Reason.PROGRESSING, "not observed yet"))

    def _plan_unrendered(self, rendered: RenderedApplySet, node: RenderedNode, live: Object | None) -> NodePlan:
        """Return the plan of a node without a manifest. Its live object may still be ready and healthy."""
        cause = (
            Cause(Reason.RENDER_FAILED, node.mistake)
            if node.error
            else Cause(Reason.WAITING_FOR_DATA, ", ".join(node.waiting))
        )
        if live is None or label(live, well_known.PART_OF) != rendered.id:
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=cause)
        health = self._health(node, live)
        healthy = health.status is status.KStatus.CURRENT
        ready, _ = _readiness(node, live, health)
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
        ready, readiness_cause = _readiness(node, live, health)
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
            return NodeAction.UPDATE, _fields_lost_with_record(rendered, node, live, dependencies)
        return self.comparison_cache.verdict(rendered, node, live, dependencies)

    def _conflict_policy(self, rendered: RenderedApplySet, node: RenderedNode, live: Object | None) -> ConflictPolicy:
        """Return the conflict policy of the object, or the policy of its source if the object declares no policy.

        An annotation in Git has precedence over an annotation that a person set on the live object.
        """
        said = annotation(node.manifest, well_known.CONFLICTS)
        if not said and live is not None and is_annotated_by_others(live, well_known.CONFLICTS):
            said = annotation(live, well_known.CONFLICTS)
        return ConflictPolicy.from_text(said) or self.barriers.constraints.conflict_policy_of(rendered.source)

    def _is_inherited(self, rendered: RenderedApplySet, live: Object) -> bool:
        """Return whether a person, or a tool whose sets Levelgate takes over, has applied the object `live`.

        An inherited object was a member of the set before Levelgate took over the set.
        """
        adoptable_tools = self.barriers.adoption_of(rendered).adoptable_tools
        return bool(
            entries_applied_by(
                live,
                (*HUMAN_MANAGER_PREFIXES, *(name for tool in adoptable_tools for name in TOOLS[tool].manager_prefixes)),
            )
        )

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


def select_repairs(node_plans: Iterable[NodePlan], *, ready_to_write: bool) -> tuple[NodePlan, ...]:
    """Return the plans in `node_plans` that repair an object, or that read an object first.

    Args:
        node_plans: plans of the nodes of an applied snapshot, planned as if writes could start.
        ready_to_write: true if writes of nodes may start now.
    """
    heal_actions = {NodeAction.CREATE, NodeAction.HEAL}
    repairs_due = (
        node_plan
        for node_plan in node_plans
        if node_plan.action is NodeAction.READ or (node_plan.allowed and node_plan.action in heal_actions)
    )
    return tuple(node_plan._replace(allowed=node_plan.allowed and ready_to_write) for node_plan in repairs_due)


def _fields_lost_with_record(
    rendered: RenderedApplySet, node: RenderedNode, live: Object, dependencies: tuple[str, ...]
) -> tuple[LostField, ...]:
    """Return the fields of `live` that other managers changed when they also changed Levelgate's record.

    If the record is intact and its hash is not the hash of `node`, only Git has changed, so return no fields. The
    record of a Secret covers no values. So even if another manager changes values, the record may be intact.
    """
    has_record = well_known.HASH in owned_metadata(apply_entry(live, CONTENT_MANAGER), "annotations")
    if has_record and annotation(live, well_known.HASH) != node.hash:
        return ()
    intent = member.member_body(rendered, node, dependencies=dependencies, live=None, parent_uid="", commit="")
    ownership = compare_ownership(live, intent, CONTENT_MANAGER)
    return ownership.lost if ownership else ()


def _action_after_refusal(
    node: RenderedNode, live: Object | None, action: NodeAction, failure: ClusterError | None
) -> NodeAction:
    """Return the action to plan after the last attempt, which ended with `failure` or succeeded.

    If the object is immutable and may be replaced, return `replace`. Otherwise return `action`.
    """
    is_immutable = isinstance(failure, Immutable)
    if live is None or not is_immutable or action not in {NodeAction.UPDATE, NodeAction.HEAL}:
        return action
    is_replace_allowed = (
        _annotation_value(node, live, well_known.REPLACE) == "allowed"
        and annotation(live, well_known.PRUNE) != "disabled"
    )
    return NodeAction.REPLACE if is_replace_allowed and member.is_membership_proven(live) else action


def _readiness(node: RenderedNode, live: Object, health: status.HealthResult) -> tuple[bool, Cause | None]:
    """Return whether dependents may start, and the cause if the dependents may not start.

    The first matching rule decides:

    1. The object is terminating: dependents may not start.
    2. The annotation `wait-for` of the live object names a rule other than `ready`: that rule decides (rule 2).
    3. The node has `readyWhen`: this condition decides.
    4. Otherwise the existence of the object decides, even if its status is not fresh.
    """
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


def _annotation_value(node: RenderedNode, live: Object | None, key: str) -> str:
    """Return the value of the annotation `key` in Git. If Git has none, return the value on the live object."""
    return annotation(node.manifest, key) or (annotation(live, key) if live else "")
