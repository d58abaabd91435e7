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
from applier.applyset.adoption import HANDS, NEVER, TOOLS, Adoption, applied_by
from applier.applyset.completed_jobs import JOB, is_completed
from applier.causes import Cause, Reason
from applier.cluster import CONTENT, Object
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
from applier.state.health import health_of, rests_on
from applier.state.managed_fields import annotators, apply_entry
from applier.state.observed import Observed, annotation, is_terminating, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.manifest_hash import carries
from renderer.render.model import RenderedApplySet, RenderedNode

BEHIND_THE_BARRIER = frozenset({NodeAction.CREATE, NodeAction.UPDATE, NodeAction.REPLACE, NodeAction.ADOPT})
"""What waits for ancestors. Repairs do not."""

_NOT_FRESH = "its status does not speak of the newest generation yet"


@dataclass(frozen=True)
class NodePlanner:
    """`wanted` maps a key to the ids of the sets that want it, in order; `sets` are all sets of the plan by id; `instance_kinds` the kinds of
    our instances; `commits` those of the sources.
    """

    observed: Observed
    wanted: Mapping[ObjectKey, Sequence[str]]
    sets: Mapping[str, RenderedApplySet]
    instance_kinds: Collection[GroupKind]
    commits: Mapping[str, str]
    records: PlanConstraints
    gates: ChangePermissions
    comparisons: ComparisonCache

    def nodes(
        self, rendered: RenderedApplySet, *, ready_to_write: bool, held: Cause | None = None
    ) -> tuple[NodePlan, ...]:
        """A `held` set is healed: nothing of it is moved to another manifest."""
        done: dict[str, NodePlan] = {}
        clear: dict[str, Cause | None] = {}
        begun = cache(partial(self._begun, rendered))  # few sets are asked how far they have begun
        barrier = self.gates.barriers.get(rendered.parent, Barrier.PATH)
        needs = rendered.member_dependencies
        awaited = {name for node in rendered.nodes for name in node.depends_on}
        for node in rendered.nodes:
            above = next(filter(None, map(clear.get, node.depends_on)), None)
            above = above or _behind(barrier, node, done.values(), clear)
            plan = self._node(rendered, node, done, above, needs[node.id], ready_to_write=ready_to_write, begun=begun)
            if held and plan.allowed and plan.verb in {NodeAction.UPDATE, NodeAction.RECORD}:
                plan = plan._replace(allowed=False, blocked=held)
            done[node.id] = plan
            if node.id in awaited or barrier is not Barrier.PATH:
                clear[node.id] = above or self._holds_up(plan)
        return tuple(done.values())

    def repairs(self, before: RenderedApplySet, *, ready_to_write: bool) -> tuple[NodePlan, ...]:
        """What heals an instance at its applied pair, and what has to be looked at for that."""
        judged = self.nodes(before, ready_to_write=True)
        heals = {NodeAction.CREATE, NodeAction.HEAL}
        due = (plan for plan in judged if plan.verb is NodeAction.LOOK or (plan.allowed and plan.verb in heals))
        return tuple(plan._replace(allowed=plan.allowed and ready_to_write) for plan in due)

    def _begun(self, rendered: RenderedApplySet) -> DrainProgress | None:
        """How far the set has got with what is new; None where it has not begun, or it is not known what is new."""
        if rendered.is_applied or (rendered.applied and rendered.applied_rendering is None):
            return None
        before = (
            {node.key: node.manifest for node in rendered.applied_rendering.nodes} if rendered.applied_rendering else {}
        )
        is_for_this = self._of_target(rendered)
        moved = [
            (node.level, written)
            for node in rendered.nodes
            if node.key
            and node.writable
            and before.get(node.key) != node.manifest
            and (live := self.observed.objects.get(node.key))
            and carries(live, node.manifest, node.hash)
            and (written := _written(live))
            and is_for_this(live, written)
        ]
        return DrainProgress(max(level for level, _ in moved), min(since for _, since in moved)) if moved else None

    def _of_target(self, rendered: RenderedApplySet) -> Callable[[Object, datetime], bool]:
        """Was a member, at this time, written for what is wanted now, and not for something before it that wanted the same of this one? In a source
        that is this commit; in an instance its revision, and its own manifest as it was written.
        """
        if rendered.is_source:
            commit = member.short(self.commits.get(rendered.source, ""))
            return lambda live, _: bool(commit) and annotation(live, well_known.COMMIT) == commit
        parent, revision = self.observed.objects.get(rendered.parent), str(rendered.revision)
        since = _written(parent) if parent and carries(parent, rendered.manifest) else None
        return lambda live, at: since is not None and at >= since and annotation(live, well_known.REVISION) == revision

    def _holds_up(self, plan: NodePlan) -> Cause | None:
        """Why dependents of this node may not start; None when they may."""
        if plan.settled or annotation({"metadata": plan.node.manifest.get("metadata")}, well_known.WAIT_FOR) == "none":
            return None
        why = plan.blocked.message if plan.blocked else f"{plan.verb} to be done"
        return Cause(Reason.DEPENDENCY_NOT_READY, f"{plan.node.id}: {why}", by=plan.node.id)

    def _node(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        done: Mapping[str, NodePlan],
        above: Cause | None,
        needs: Collection[str],
        *,
        ready_to_write: bool,
        begun: Callable[[], DrainProgress | None],
    ) -> NodePlan:
        live = self.observed.objects.get(node.key) if node.key else None
        parent = self.observed.objects.get(rendered.parent)
        if nothing_to_write := self._unwritable(rendered, node, live, above, parent):
            return nothing_to_write
        assert node.key is not None
        health = self._health(node, live)
        healthy = health.status is status.KStatus.CURRENT
        is_carried = live is not None and carries(live, node.manifest, node.hash)
        proven = live is not None and is_carried and healthy and status.is_fresh(live)
        deps = tuple(member.recorded_deps(live, needs, healthy=proven))
        verb, lost = self._verb(rendered, node, live, deps, is_carried=is_carried)
        failure = self._failure(rendered, node, node.key, live)
        verb = self._replaced(node, live, verb, failure)
        blocked = self._blocked(rendered, node, live, above, verb, failure)
        ready, why = self._may_dependents_start(node, live, health) if live is not None else (False, None)
        for name in node.healthy_first:
            if name in done and not done[name].healthy and blocked is None and verb in BEHIND_THE_BARRIER:
                blocked = Cause(Reason.DEPENDENCY_NOT_READY, f"{name} is not healthy yet", by=name)
        if blocked is None and verb not in {NodeAction.NONE, NodeAction.LOOK}:
            effect = verb.effect(is_applied=rendered.is_applied)
            id_ = "" if rendered.is_source else node.id
            blocked = self._gated(verb, CandidateChange(rendered, node.key, effect, id_, node.level, begun(), live))
        allowed = verb is not NodeAction.NONE and blocked is None and ready_to_write
        is_gone = live is None and node.group_kind == JOB and self._was_completed(rendered, node, parent)
        return NodePlan(
            node,
            verb,
            live,
            allowed,
            ready or is_gone,
            healthy or is_gone,
            blocked or why,
            deps,
            _takes(node, live),
            lost,
            self._adoption(rendered),
            "" if healthy or (rendered.is_source and node.group_kind in self.instance_kinds) else health.message,
            recheck_at=health.until,
            health_reference=rests_on(live) if live is not None else None,
            is_gone=is_gone,
        )

    def _unwritable(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        live: Object | None,
        above: Cause | None,
        parent: Object | None,
    ) -> NodePlan | None:
        """The plan of a node that is not to be written whatever gates say: it is of others, not known yet, or through; None of any other."""
        if node.external:
            return self._external(node, live, above)
        if node.error or node.waiting:
            return self._unrendered(rendered, node, live)
        assert node.key is not None
        if unreadable := self.observed.unreadable.get(node.group_kind):
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.by_failure(unreadable))
        if self.observed.is_only_answered(node.group_kind):
            nothing = f"the server answers a {node.group_kind} and keeps none, so there is nothing to manage; take it out of Git"
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause(Reason.APPLY_FAILED, nothing))
        if is_completed(node, live, parent, self.observed.now):
            return NodePlan(node, NodeAction.NONE, None, ready=True, healthy=True, is_gone=True)
        if live is None and not self.observed.is_known(node.key):
            return self._unseen(node, node.key)
        return None

    def _gated(self, verb: NodeAction, change: CandidateChange) -> Cause | None:
        """The gate that holds a change; what is replaced is deleted, and must be allowed to come again."""
        blocked = self.gates.check(change)
        if blocked is None and verb is NodeAction.REPLACE:
            blocked = self.gates.check(change._replace(effect=Operation.CREATE))
        return blocked

    def _was_completed(self, rendered: RenderedApplySet, node: RenderedNode, parent: Object | None) -> bool:
        """A Job that is to be made anew, and that had completed as it was before."""
        before = rendered.applied_rendering.nodes if rendered.applied_rendering else ()
        return any(one.key == node.key and is_completed(one, None, parent, self.observed.now) for one in before)

    def _unseen(self, node: RenderedNode, key: ObjectKey) -> NodePlan:
        """It is not known whether it is there. Why it could not be read says the failure; one of a write is no reason not to look again."""
        match self.observed.failures.get(key):
            case Denied() | Invalid() | Unavailable() as failure:
                return NodePlan(node, NodeAction.UNKNOWN, None, blocked=Cause.by_failure(failure))
        return NodePlan(node, NodeAction.LOOK, None, blocked=Cause(Reason.PROGRESSING, "not looked at yet"))

    def _unrendered(self, rendered: RenderedApplySet, node: RenderedNode, live: Object | None) -> NodePlan:
        """A node that cannot be written yet, or at all; what is live of it goes on being ready and healthy."""
        why = (
            Cause(Reason.RENDER_FAILED, node.mistake)
            if node.error
            else Cause(Reason.WAITING_FOR_DATA, ", ".join(node.waiting))
        )
        if live is None or label(live, well_known.PART_OF) != rendered.id:
            return NodePlan(node, NodeAction.UNKNOWN, None, blocked=why)
        health = self._health(node, live)
        healthy = health.status is status.KStatus.CURRENT
        ready, _ = self._may_dependents_start(node, live, health)
        return NodePlan(
            node,
            NodeAction.UNKNOWN,
            live,
            ready=ready,
            healthy=healthy,
            blocked=why,
            recheck_at=health.until,
            health_reference=rests_on(live),
        )

    def _external(self, node: RenderedNode, live: Object | None, above: Cause | None) -> NodePlan:
        if node.error:
            return NodePlan(node, NodeAction.NONE, None, blocked=Cause(Reason.RENDER_FAILED, node.mistake))
        if live is None:
            if node.key and (failure := self.observed.failures.get(node.key)):
                return NodePlan(node, NodeAction.NONE, None, blocked=Cause.by_failure(failure))
            verb = NodeAction.LOOK if node.key and not self.observed.is_known(node.key) else NodeAction.NONE
            awaited = ", ".join(node.waiting) or f"{node.key} to exist"
            return NodePlan(node, verb, None, blocked=Cause(Reason.WAITING_FOR_DATA, awaited))
        health = self._health(node, live)
        ready, why = self._may_dependents_start(node, live, health)
        return NodePlan(
            node,
            NodeAction.NONE,
            live,
            ready=ready,
            healthy=True,
            blocked=above or why,
            recheck_at=None if ready else health.until,
        )

    def _verb(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        live: Object | None,
        deps: tuple[str, ...],
        *,
        is_carried: bool,
    ) -> Verdict:
        if live is None:
            return NodeAction.CREATE, ()
        holder = label(live, well_known.PART_OF)
        if apply_entry(live, CONTENT) is None and (
            not holder or (holder == rendered.id and self._is_inherited(rendered, live))
        ):
            return NodeAction.ADOPT, ()
        if holder != rendered.id or not is_carried:
            return NodeAction.UPDATE, ()
        return self.comparisons.verdict(rendered, node, live, deps)

    def _is_inherited(self, rendered: RenderedApplySet, live: Object) -> bool:
        """A member from the time when the set was another tool's, or kubectl's: a person has handed the set over."""
        heirs_of = self._adoption(rendered).heirs_of
        return bool(applied_by(live, (*HANDS, *(name for tool in heirs_of for name in TOOLS[tool].managers))))

    def _failure(
        self, rendered: RenderedApplySet, node: RenderedNode, key: ObjectKey, live: Object | None
    ) -> ClusterError | None:
        """Why it could not be written: in this pass, or in an earlier one, if nothing has changed of it since."""
        refused = self.records.refused.get((rendered.parent, key))
        same = refused.error if refused and refused.is_same(node.manifest, live) else None
        return self.observed.failures.get(key) or same

    def _replaced(
        self, node: RenderedNode, live: Object | None, verb: NodeAction, failure: ClusterError | None
    ) -> NodeAction:
        """The server will not change the object and it may be replaced: then that is what it takes."""
        refused = isinstance(failure, Immutable)
        if live is None or not refused or verb not in {NodeAction.UPDATE, NodeAction.HEAL}:
            return verb
        allowed = (
            _word(node, live, well_known.REPLACE) == "allowed" and annotation(live, well_known.PRUNE) != "disabled"
        )
        return NodeAction.REPLACE if allowed and member.is_proven(live) else verb

    def _blocked(
        self,
        rendered: RenderedApplySet,
        node: RenderedNode,
        live: Object | None,
        above: Cause | None,
        verb: NodeAction,
        failure: ClusterError | None,
    ) -> Cause | None:
        """Why this write may not happen now; None when it may."""
        assert node.key is not None
        if failure and verb is not NodeAction.REPLACE:
            return Cause.by_failure(failure)
        if verb in {NodeAction.CREATE, NodeAction.HEAL} and (why := self.records.fights.get(node.key)):
            return why
        if owner := self._owned_elsewhere(rendered, node.key, live):
            return owner
        if live is not None:
            if is_terminating(live):
                return Cause(
                    Reason.PROGRESSING,
                    f"{node.key} {member.departure(live)}; it is created again once it is gone",
                    at=node.key,
                )
            if _is_disabled(node, live):
                return (
                    Cause(Reason.SUSPENDED, f"{well_known.RECONCILE}: disabled on {node.key}")
                    if verb is not NodeAction.NONE
                    else None
                )
        return above if verb in BEHIND_THE_BARRIER else None

    def _owned_elsewhere(self, rendered: RenderedApplySet, key: ObjectKey, live: Object | None) -> Cause | None:
        """Does another set come first? The one that holds the object, as long as it still wants it; else the first that wants it.

        An object outside our sets is taken only if we wrote it ourselves and released it, or if the source may adopt it.
        """
        wanting = self.wanted.get(key, (rendered.id,))
        holder = label(live, well_known.PART_OF) if live else ""
        owner = holder if holder in wanting else wanting[0]
        if owner != rendered.id:
            return Cause(
                Reason.OWNED_ELSEWHERE,
                f"{key} belongs to {self.sets[owner].parent}, which wants it too; keep it in one of the two",
            )
        if live is None or holder == rendered.id:
            return None
        if holder:
            known = self.sets.get(holder)
            if known and not (known.error or known.held_reason):
                return None
            if known:
                return Cause(Reason.OWNED_ELSEWHERE, f"{key} is part of {known.parent}; remove it there first")
            if key in self.records.left or holder in self.records.left_sets:
                return None
            if neighbour := self.records.neighbours.get(holder):
                taken = "take it out there, and it is handed over; nothing is deleted"
                way = "if nobody follows that source any more, follow it too, with a path that holds nothing"
                return Cause(Reason.OWNED_ELSEWHERE, f"{key} belongs to source {neighbour}; {taken} ({way})")
            parent = f"its parent: kubectl get configmaps,secrets -A -l {well_known.PARENT_ID}={holder}"
            way = f"stop who applies it, and take off its label {well_known.PART_OF}; removed there it may be deleted"
            return Cause(Reason.OWNED_ELSEWHERE, f"{key} is part of a set that is not ours ({parent}); {way}")
        is_foreign = apply_entry(live, CONTENT) is None  # in no set, and never applied by us
        refusal = self._adoption(rendered).refusal(live) if is_foreign else ""
        return Cause(Reason.CONFLICT, refusal) if refusal else None

    def _adoption(self, rendered: RenderedApplySet) -> Adoption:
        return self.records.adoption.get(rendered.source, NEVER)

    def _health(self, node: RenderedNode, live: Object | None) -> status.HealthResult:
        if live is None:
            return status.health(None)
        if annotation(live, well_known.HEALTH) == "ignore":
            return status.HealthResult(status.KStatus.CURRENT)
        if not status.is_fresh(live):
            return status.HealthResult(status.KStatus.IN_PROGRESS, node.ready.why or _NOT_FRESH)
        own = health_of(live, self.observed, is_instance=node.group_kind in self.instance_kinds)
        if node.ready.verdict is not False:
            return own
        sick = own.message if own.status is not status.KStatus.CURRENT else ""
        return status.HealthResult(status.KStatus.IN_PROGRESS, "; ".join(filter(None, (node.ready.why, sick))))

    def _may_dependents_start(
        self, node: RenderedNode, live: Object, health: status.HealthResult
    ) -> tuple[bool, Cause | None]:
        """Rule 2, first question; the annotation `wait-for` on the object replaces the rule. What is not ready says how it is as well."""
        healthy = health.status is status.KStatus.CURRENT
        wait_for = annotation(live, well_known.WAIT_FOR) or "ready"
        if is_terminating(live):
            return False, Cause(Reason.PROGRESSING, f"{node.key} {member.departure(live)}", at=node.key)
        if wait_for in {"none", "exists"}:
            return True, None
        if wait_for == "healthy":
            return healthy, None if healthy else Cause(Reason.PROGRESSING, "not healthy yet", at=node.key)
        if node.ready.verdict is not None:
            if node.ready.verdict and not status.is_fresh(live):
                return False, Cause(Reason.PROGRESSING, _NOT_FRESH, at=node.key)
            told = health.message or node.ready.why
            return node.ready.verdict, None if node.ready.verdict else Cause(Reason.PROGRESSING, told, at=node.key)
        ready = status.exists_ready(live)
        return ready, None if ready else Cause(
            Reason.PROGRESSING, status.health(live).message or "not established yet", at=node.key
        )


def _behind(
    barrier: Barrier, node: RenderedNode, done: Iterable[NodePlan], clear: Mapping[str, Cause | None]
) -> Cause | None:
    """What of the levels before a node keeps it. A node at a closed gate keeps only its own descendants, unless all count (S0-26)."""
    if barrier is Barrier.PATH:
        return None
    return next(
        (
            found
            for plan in done
            if plan.node.level < node.level
            and (found := clear[plan.node.id])
            and (barrier is Barrier.ALL or not _waits_at_gate(plan))
        ),
        None,
    )


def _waits_at_gate(plan: NodePlan) -> bool:
    return plan.is_gated or (plan.blocked is not None and plan.blocked.reason is Reason.DEPENDENCY_NOT_READY)


def _word(node: RenderedNode, live: Object | None, key: str) -> str:
    """What an annotation says: in Git, else on the live object."""
    return annotation(node.manifest, key) or (annotation(live, key) if live else "")


def _is_disabled(node: RenderedNode, live: Object) -> bool:
    """Git says that it is not to be written, or a person on the live object. What only our own last write says there, Git has taken back."""
    if annotation(node.manifest, well_known.RECONCILE) == "disabled":
        return True
    return annotation(live, well_known.RECONCILE) == "disabled" and set(annotators(live, well_known.RECONCILE)) != {
        CONTENT
    }


def _takes(node: RenderedNode, live: Object | None) -> tuple[str, ...]:
    match _word(node, live, well_known.CONFLICTS):
        case "force":
            return ("",)
        case "report":
            return ()
    return HANDS


def _written(live: Object) -> datetime | None:
    """When its content was written by us, as the server says."""
    time = (apply_entry(live, CONTENT) or {}).get("time")
    return datetime.fromisoformat(time) if time else None
