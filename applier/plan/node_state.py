"""State of a node by itself: action, readiness and health, as its manifest and its live object show them.

The module is pure. Other nodes, failed writes and permissions do not count. `node_planner` adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import NamedTuple

from applier import status
from applier.applyset import member
from applier.applyset.adoption import TOOLS, Adoption, entries_applied_by
from applier.applyset.completed_jobs import JOB, Completion, is_completed
from applier.applyset.member import RecordedSet
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.errors import Denied, Invalid, Unavailable
from applier.plan.comparison import Verdict, fields_lost_with_record
from applier.plan.model import NodeAction, NodePlan
from applier.state.field_conflicts import HUMAN_MANAGER_PREFIXES, ConflictPolicy
from applier.state.health import health_of, health_reference
from applier.state.managed_fields import apply_entry, is_annotated_by_others
from applier.state.observed import annotation, is_terminating, label
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.manifest_hash import is_written_from
from renderer.render.model import RenderedNode

_NOT_FRESH_MESSAGE = "the status does not cover the newest generation yet"


class SetFacts(NamedTuple):
    """Facts of a set that all its nodes share."""

    applyset: RecordedSet
    conflict_policy: ConflictPolicy
    """Policy for objects that declare none."""
    adoption: Adoption
    """Rule that decides which objects the source of the set may adopt."""


class NodeInputs(NamedTuple):
    """Facts of one node, besides its live object."""

    node: RenderedNode
    dependencies: Collection[str]
    """Hashes of the keys of the dependencies to record."""
    completion: Completion | None
    """Completion of the Job of the node that the parent of the set records, or None."""
    applied_node: RenderedNode | None
    """Node of the applied snapshot for the same object, or None. Only a Job needs this node."""


class NodeState(NamedTuple):
    """Plan of a node if nothing else held the node."""

    plan: NodePlan
    """Plan with the own cause of the node in `blocked`. The plan allows no write."""
    is_final: bool
    """True if the node is not to be written, so that no failure and no permission changes the plan."""


@dataclass(frozen=True, slots=True)
class NodeStateReader:
    """Reader of the states of nodes."""

    observed: ObservedView
    instance_kinds: Container[GroupKind]
    """Kinds that definitions define."""
    compare: Callable[[RecordedSet, RenderedNode, Object, Collection[str]], Verdict]
    """Function with the results of `comparison.compare_with_live`."""

    def state_of(self, facts: SetFacts, inputs: NodeInputs) -> NodeState:
        """Return the state of a node."""
        node = inputs.node
        live = self.observed.objects.get(node.key) if node.key else None
        if plan := self._plan_unwritable(facts, inputs, live):
            return NodeState(plan, is_final=True)
        assert node.key is not None
        health = self._health(node, live)
        healthy = health.status is status.KStatus.CURRENT
        has_manifest = live is not None and is_written_from(live, node.manifest, node.hash)
        is_proven_healthy = live is not None and has_manifest and healthy and status.is_fresh(live)
        dependencies = tuple(member.dependencies_to_record(live, inputs.dependencies, is_healthy=is_proven_healthy))
        action, lost_fields = self._decide_action(facts, node, live, dependencies, has_manifest=has_manifest)
        conflict_policy = _conflict_policy(facts, node, live)
        healed_fields = tuple(lost_field for lost_field in lost_fields if lost_field.is_healed_under(conflict_policy))
        is_healed_in_part = action is NodeAction.HEAL and bool(healed_fields)
        ready, readiness_cause = _readiness(node, live, health) if live is not None else (False, None)
        is_ttl_removed = live is None and self._was_completed(inputs)
        is_instance = facts.applyset.is_source and node.group_kind in self.instance_kinds
        plan = NodePlan(
            node,
            action,
            live,
            False,
            ready or is_ttl_removed,
            healthy or is_ttl_removed,
            readiness_cause,
            dependencies,
            conflict_policy,
            healed_fields or lost_fields,
            tuple(lost for lost in lost_fields if lost not in healed_fields) if is_healed_in_part else (),
            facts.adoption,
            "" if healthy or is_instance else health.message,
            recheck_at=health.until,
            health_reference=health_reference(live) if live is not None else None,
            is_ttl_removed=is_ttl_removed,
        )
        return NodeState(plan, is_final=False)

    def _plan_unwritable(self, facts: SetFacts, inputs: NodeInputs, live: Object | None) -> NodePlan | None:
        """Return the plan of a node that cannot be written, or None if the node may be written.

        The first matching case decides:

        1. The node is external.
        2. The node has no manifest.
        3. Levelgate cannot read the kind of the node.
        4. The server answers requests for the kind, but stores no objects of the kind.
        5. The node is a completed Job.
        6. Levelgate has not read the object yet.
        """
        node = inputs.node
        if node.external:
            return self._plan_external(node, live)
        if node.error or node.waiting:
            return self._plan_unrendered(facts, node, live)
        assert node.key is not None
        if read_error := self.observed.unreadable.get(node.group_kind):
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.from_error(read_error))
        if self.observed.is_only_answered(node.group_kind):
            message = (
                f"the server answers requests for {node.group_kind} but stores no objects; remove the object from Git"
            )
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause(Reason.APPLY_FAILED, message))
        if is_completed(node, live, inputs.completion, self.observed.now):
            return NodePlan(node, NodeAction.NONE, None, ready=True, healthy=True, is_ttl_removed=True)
        if live is None and not self.observed.is_known(node.key):
            return self._plan_unread(node, node.key)
        return None

    def _was_completed(self, inputs: NodeInputs) -> bool:
        """Return whether the Job of the node, which Levelgate has to create again, completed before.

        The Job in the applied snapshot decides.
        """
        applied = inputs.applied_node if inputs.node.group_kind == JOB else None
        return applied is not None and is_completed(applied, None, inputs.completion, self.observed.now)

    def _plan_unread(self, node: RenderedNode, key: ObjectKey) -> NodePlan:
        """Return a plan that reads the object `key` of the node, because the object may exist.

        If an earlier read failed, the plan reports that failure instead.
        """
        match self.observed.failures.get(key):
            case Denied() | Invalid() | Unavailable() as failure:
                return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.from_error(failure))
        return NodePlan(node, NodeAction.READ, None, blocked=Cause(Reason.PROGRESSING, "not observed yet"))

    def _plan_unrendered(self, facts: SetFacts, node: RenderedNode, live: Object | None) -> NodePlan:
        """Return the plan of a node without a manifest. Its live object may still be ready and healthy."""
        cause = (
            Cause(Reason.RENDER_FAILED, node.mistake)
            if node.error
            else Cause(Reason.WAITING_FOR_DATA, ", ".join(node.waiting))
        )
        if live is None or label(live, well_known.PART_OF) != facts.applyset.id:
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=cause)
        health = self._health(node, live)
        ready, _ = _readiness(node, live, health)
        return NodePlan(
            node,
            NodeAction.UNKNOWN,
            live,
            ready=ready,
            healthy=health.status is status.KStatus.CURRENT,
            blocked=cause,
            recheck_at=health.until,
            health_reference=health_reference(live),
        )

    def _plan_external(self, node: RenderedNode, live: Object | None) -> NodePlan:
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
            blocked=readiness_cause,
            recheck_at=None if ready else health.until,
        )

    def _decide_action(
        self,
        facts: SetFacts,
        node: RenderedNode,
        live: Object | None,
        dependencies: tuple[str, ...],
        *,
        has_manifest: bool,
    ) -> Verdict:
        if live is None:
            return NodeAction.CREATE, ()
        set_id, live_set_id = facts.applyset.id, label(live, well_known.PART_OF)
        if apply_entry(live, CONTENT_MANAGER) is None and (
            not live_set_id or (live_set_id == set_id and _is_inherited(facts.adoption, live))
        ):
            return NodeAction.ADOPT, ()
        if live_set_id != set_id or not has_manifest:
            return NodeAction.UPDATE, fields_lost_with_record(facts.applyset, node, live, dependencies)
        return self.compare(facts.applyset, node, live, dependencies)

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


def _conflict_policy(facts: SetFacts, node: RenderedNode, live: Object | None) -> ConflictPolicy:
    """Return the conflict policy of the object, or the policy of its source if the object declares no policy.

    An annotation in Git has precedence over an annotation that a person set on the live object.
    """
    said = annotation(node.manifest, well_known.CONFLICTS)
    if not said and live is not None and is_annotated_by_others(live, well_known.CONFLICTS):
        said = annotation(live, well_known.CONFLICTS)
    return ConflictPolicy.from_text(said) or facts.conflict_policy


def _is_inherited(adoption: Adoption, live: Object) -> bool:
    """Return whether a person, or a tool whose sets Levelgate takes over, has applied the object `live`.

    An inherited object was a member of the set before Levelgate took over the set.
    """
    tool_prefixes = (name for tool in adoption.adoptable_tools for name in TOOLS[tool].manager_prefixes)
    return bool(entries_applied_by(live, (*HUMAN_MANAGER_PREFIXES, *tool_prefixes)))


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
